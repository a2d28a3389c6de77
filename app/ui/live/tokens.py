"""How tokens are shown on the page: the origins that legends list (coloured by `--of-…` in
assets/ui/foresight.css), and token texts with signs for invisible characters."""

from unicodedata import category, east_asian_width

from app.values.messages import Origin

ABOUT: dict[Origin, str] = {
    "model": "written without a guess",
    "successor": "guessed from what the model predicted earlier after the same tokens",
    "window": "guessed in the lookahead window, which refines guesses from step to step",
    "prompt": "guessed from the prompt",
    "output": "guessed from the text that this reply had so far",
    "document": "guessed from a document that the model was given",
    "prediction": "guessed from the predicted text in the request",
    "history": "guessed from earlier turns of the chat",
    "grammar": "guessed because the answer's format allows no other token",
    "draft": "guessed by the draft model, or by the model's own layers for guessing",
}
"""The tooltip of each origin."""
ORIGINS: tuple[Origin, ...] = tuple(ABOUT)


SIGNS = {" ": "·", "\n": "⏎", "\r": "␍", "\t": "⇥"}
LONGEST = 14
"""Maximum number of characters of a token in a picture."""


def visible(text: str, keep_spaces: bool = False) -> str:
    """Return the token's text with visible signs in place of invisible characters."""
    known = {**SIGNS, " ": " "} if keep_spaces else SIGNS
    unknown = ("Cc", "Cf", "Cs", "Zl", "Zp")
    return "".join(known.get(one) or ("�" if category(one) in unknown else one) for one in text) or "∅"


def shortened(text: str) -> str:
    """Return the token's visible text, truncated to LONGEST characters."""
    seen = visible(text)
    return seen if len(seen) <= LONGEST else f"{seen[: LONGEST - 1]}…"


def cells(text: str) -> int:
    """Return how many columns of a fixed-width font the text takes."""
    return sum(2 if east_asian_width(character) in "WF" else 1 for character in text)
