"""Steps of a reply, as the live view is told of them."""

from app.values.messages import Origin, Piece, Statistics


def step_of(number: int, *origins: Origin) -> Piece:
    """The piece of step `number`, with a token for each origin."""
    return Piece("x", (0,) * len(origins), origins, Statistics(steps=number))
