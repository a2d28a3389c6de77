"""Who sees whom, drawn as text: "1 . ." is a row that sees the first of three."""

from app.engine.block.block import Visible


def drawn(visible: Visible) -> list[str]:
    """One line of text for each row of a visibility matrix."""
    return ["".join("1" if seen else "." for seen in row) for row in visible]
