"""Tokens as they can be seen: spaces as dots, line ends and other invisible characters as signs."""

from unicodedata import category, east_asian_width

SIGNS = {" ": "·", "\n": "⏎", "\r": "␍", "\t": "⇥"}
LONGEST = 14
"""Characters of a token that a picture has room for."""


def visible(text: str) -> str:
    """A token's text with nothing invisible in it."""
    return "".join(map(_sign, text)) or "∅"


def _sign(character: str) -> str:
    if character in SIGNS:
        return SIGNS[character]
    return "�" if category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp") else character


def shortened(text: str) -> str:
    """A token's visible text, cut where a picture has no more room."""
    seen = visible(text)
    return seen if len(seen) <= LONGEST else f"{seen[: LONGEST - 1]}…"


def cells(text: str) -> int:
    """How many columns of a fixed-width font a text takes."""
    return sum(2 if east_asian_width(character) in "WF" else 1 for character in text)
