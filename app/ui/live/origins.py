"""Who proposed a token, in the words and the order of every legend. Colours: `--of-…` in foresight.css."""

from app.messages import Origin

ORIGINS: dict[Origin, str] = {
    "model": "model",
    "successor": "successor",
    "window": "window",
    "prompt": "prompt",
    "output": "output",
    "document": "document",
    "history": "history",
}

ABOUT: dict[Origin, str] = {
    "model": "written by the model itself, without a draft",
    "successor": "drafted from what the model held likely behind this token before",
    "window": "drafted from the lookahead window's guesses",
    "prompt": "drafted from the prompt",
    "output": "drafted from what this reply wrote before",
    "document": "drafted from a pasted document",
    "history": "drafted from earlier turns of the chat",
}
"""What a hover says of each."""


def _legend() -> str:
    entries = "".join(
        f'<li class="{origin}" title="{ABOUT[origin]}">{word}</li>' for origin, word in ORIGINS.items()
    )
    return f'<ul class="legend" aria-label="Who proposed a token">{entries}</ul>'


LEGEND = _legend()
"""The colours with their words."""
