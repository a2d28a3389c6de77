"""Where the nodes of a draft tree stand: the root left, a column for each depth, a line for each leaf.

The accepted path goes first among its siblings, so it is one straight line at the top. Current token 7, drafts
8 (then 9 and 6) and 5; the model wrote 8 and then 4, which nobody drafted and which joins the picture as a node:

    line 0    7 -- 8 -- 4       lit
    line 1         | -- 9
    line 2         ` -- 6
    line 3    ` -- 5
"""

from collections.abc import Iterator
from dataclasses import dataclass

from app.messages import Origin
from app.ui.live.port import SeenStep


@dataclass(frozen=True, slots=True)
class Node:
    """A token in the tree. `row` is -1 for the model's own token, which no row of the step held."""

    row: int
    parent: int
    token: int
    origin: Origin
    said: int | None
    is_lit: bool


@dataclass(frozen=True, slots=True)
class Placed:
    """A node, the place of its parent in the list (-1 at the root), and where it stands."""

    node: Node
    parent: int
    depth: int
    line: int


def placed(step: SeenStep) -> list[Placed]:
    """All nodes from the root on, parents before their children, lines from the top down."""
    below: dict[int, list[Node]] = {}
    for node in nodes(step):
        below.setdefault(node.parent, []).append(node)
    found: list[Placed] = []
    # Depth first without recursion: a chain may be deeper than Python's stack. Behind each node in the pile
    # stands the place of its parent, and whether it goes on in the parent's line.
    pile = [(node, -1, True) for node in below.get(-1, [])]
    line = 0
    while pile:
        node, parent, goes_on = pile.pop()
        line = line if goes_on else line + 1
        depth = found[parent].depth + 1 if parent >= 0 else 0
        place = len(found)
        found.append(Placed(node, parent, depth, line))
        children = (
            sorted(below.get(node.row, []), key=lambda child: not child.is_lit) if node.row >= 0 else []
        )
        pile += [(child, place, index == 0) for index, child in reversed(list(enumerate(children)))]
    return found


def nodes(step: SeenStep) -> Iterator[Node]:
    """The rows of the draft tree, and the model's own token below the last accepted one."""
    trace, lit = step.trace, set(step.trace.accepted)
    end = trace.accepted[-1] if trace.accepted else 0
    # The reply may end with a drafted token, whose row is not kept.
    own = step.token_ids[-1] if step.token_ids else None
    was_drafted = False
    for row, token in enumerate(trace.tokens):
        is_end = row not in lit and trace.parents[row] == end and token == own
        was_drafted |= is_end
        yield Node(
            row, trace.parents[row], token, trace.origins[row], trace.predicted[row], row in lit or is_end
        )
    if trace.tokens and own is not None and not was_drafted:
        yield Node(-1, end, own, "model", None, True)
