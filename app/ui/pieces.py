"""Small pieces of HTML that lists of the page are made of. Every word of a stranger passes through `escape`."""

from html import escape


def button(label: str, do: str, name: str = "", *, about: str = "", kind: str = "", value: str = "") -> str:
    """A button that does something to what has this name; `about` completes its label for screen readers."""
    spoken = f"{label} {about or name}".strip()
    return (
        f'<button type="button" class="act {kind}" data-do="{escape(do)}" data-name="{escape(name)}"'
        f' data-value="{escape(value)}" aria-label="{escape(spoken)}">{escape(label)}</button>'
    )


def facts(*words: str) -> str:
    """A line of facts; empty ones are left out."""
    return f'<p class="facts">{escape(" · ".join(filter(None, words)))}</p>'


def badge(words: str, kind: str = "") -> str:
    """A word in a frame."""
    return f'<span class="badge {kind}">{escape(words)}</span>'


def link(address: str, words: str) -> str:
    """A link to a page outside, which opens in another tab and is not told where it was followed from."""
    if not address.startswith(("https://", "http://")):
        return ""
    return f'<a href="{escape(address)}" target="_blank" rel="noopener noreferrer">{escape(words)}</a>'
