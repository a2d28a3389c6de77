"""Small things said in the same words everywhere on the page."""

from html import escape


def parameters_in_words(count: int) -> str:
    """A count of parameters, as models are named: 260K, 7.3M, 1.5B."""
    for unit, letter in ((10**9, "B"), (10**6, "M"), (10**3, "K")):
        if count >= 0.9995 * unit:  # what would be 1000 of the smaller unit
            size = f"{count / unit:.1f}" if count < 10 * unit else f"{count / unit:.0f}"
            return f"{size.removesuffix('.0')}{letter} parameters"
    return f"{count} parameters"


def problem_html(sentence: str) -> str:
    """A sentence about what is wrong, near what it is about."""
    return f'<p class="problem" role="alert">{escape(sentence)}</p>' if sentence else ""
