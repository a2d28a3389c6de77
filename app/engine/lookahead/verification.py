"""Which drafted tokens the model itself would have written.

Walk down from the current token: draw what the model says there; while that is a child, go on below it. The
drawn token is always emitted, so the text is the model's own whatever was drafted, and a full match earns one
token more than was drafted:

    tree 7 -> 8 -> 9, the model says 8, 9, 4:   rows 0 1 2 are kept, tokens 8 9 4 are new
"""

from collections.abc import Sequence
from dataclasses import dataclass

from app.engine.lookahead.draft_tree import DraftTree
from app.engine.sampling import Choose
from app.messages import Origin


@dataclass(frozen=True, slots=True)
class Accepted:
    """New tokens, who proposed each, and the row in which each was drawn: the rows whose keys are kept."""

    tokens: tuple[int, ...]
    origins: tuple[Origin, ...]
    rows: tuple[int, ...]


def verify(tree: DraftTree, choose: Choose, history: Sequence[int]) -> Accepted:
    """Follow the model through the tree; `history` are all tokens up to the current one, that included."""
    path = list(history)
    rows, origins = [0], list[Origin]()
    while True:
        token = choose(rows[-1], path)
        path.append(token)
        node = tree.child(rows[-1], token)
        if node is None:
            return Accepted(tuple(path[len(history) :]), (*origins, "model"), tuple(rows))
        origins.append(tree.origins[node])
        rows.append(node)
