"""The draft tree of a step as a picture: the accepted path is highlighted, and colours say who proposed a token.

The root is on the left; each depth has a column and each leaf a line. Accepted nodes come first among their
siblings, so the accepted path is a straight line at the top. Example: the current token is 7, the drafts are 8
(then 9 or 6) and 5; the model wrote 8 and then 4, which was not drafted and gets a node of its own:

    line 0    7 -- 8 -- 4       accepted
    line 1         | -- 9
    line 2         ` -- 6
    line 3    ` -- 5
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from markupsafe import Markup

from app.ui.frame.templates import render
from app.ui.live.step_history import TracedStep
from app.ui.live.tokens import ABOUT, cells, shortened, visible
from app.values.messages import Origin

CELL, LINE, BOX = 7.3, 26, 20
"""The width of a character, the height of a line, and the height of a node in the line, in pixels."""
PADDING, BETWEEN = 20, 30
"""The space around a node's text, and the space for edges between two columns, in pixels."""
CAPTION = 120
"""Space for a caption after the last column, in pixels."""

Texts = Mapping[int, str]
"""The text of each token, by its id."""


@dataclass(frozen=True, slots=True)
class Node:
    """A token in the tree. `row` is -1 for the model's own token, which was in no row of the step. `predicted` is
    the token that the model predicts after this node, if known."""

    row: int
    parent: int
    token: int
    origin: Origin
    predicted: int | None
    is_accepted: bool


@dataclass(frozen=True, slots=True)
class Placed:
    """A node, the index of its parent in the list (-1 for the root), and its column and line in the picture."""

    node: Node
    parent: int
    depth: int
    line: int


def placed(step: TracedStep) -> list[Placed]:
    """Lay out all nodes from the root on: parents come before their children, and lines run from the top down."""
    below: dict[int, list[Node]] = {}
    for node in nodes(step):
        below.setdefault(node.parent, []).append(node)
    found: list[Placed] = []
    # Depth first without recursion, because a chain may be deeper than Python's stack. Each entry of the stack is a
    # node, the index of its parent in `found`, and whether it continues the parent's line.
    pile = [(node, -1, True) for node in below.get(-1, [])]
    line = 0
    while pile:
        node, parent, continues_line = pile.pop()
        line = line if continues_line else line + 1
        depth = found[parent].depth + 1 if parent >= 0 else 0
        here = len(found)
        found.append(Placed(node, parent, depth, line))
        children = (
            sorted(below.get(node.row, []), key=lambda child: not child.is_accepted) if node.row >= 0 else []
        )
        pile += [(child, here, index == 0) for index, child in reversed(list(enumerate(children)))]
    return found


def nodes(step: TracedStep) -> Iterator[Node]:
    """Yield the rows of the draft tree, then the model's own token as a node, unless it was drafted."""
    trace, accepted = step.trace, set(step.trace.accepted)
    end = trace.accepted[-1] if trace.accepted else 0
    # If the reply ends with a drafted token, the token's row is not among the accepted ones.
    own = step.token_ids[-1] if step.token_ids else None
    was_drafted = False
    for row, token in enumerate(trace.tokens):
        is_end = row not in accepted and trace.parents[row] == end and token == own
        was_drafted |= is_end
        yield Node(
            row,
            trace.parents[row],
            token,
            trace.origins[row],
            trace.predicted[row],
            row in accepted or is_end,
        )
    if trace.tokens and own is not None and not was_drafted:
        yield Node(-1, end, own, "model", None, True)


def draft_tree_svg(step: TracedStep, texts: Texts) -> Markup:
    """Return the picture of the tree in full size; the page shows it in a box that scrolls."""
    tree = placed(step)
    widths = [0.0] * (max((one.depth for one in tree), default=0) + 1)
    for one in tree:
        widths[one.depth] = max(widths[one.depth], _width(one, texts))
    # The x at which each depth's column begins, and the x after the last column.
    columns = list(accumulate((width + BETWEEN for width in widths), initial=1.0))
    # The accepted path is drawn last, on top of the edges that it shares with others.
    ordered = sorted(tree[1:], key=lambda one: one.node.is_accepted)
    # The token that the model chose after each node that it reached, by the node's index.
    chosen = {one.parent: one.node.token for one in tree if one.node.is_accepted}
    children = Counter(one.parent for one in tree)
    return render(
        "draft_tree.html",
        width=f"{columns[-1] + CAPTION:.0f}",
        height=(tree[-1].line + 1) * LINE if tree else LINE,
        label=in_words(step, texts),
        edges=[_edge(tree[one.parent], one, columns, texts) for one in ordered],
        nodes=[
            _node(one, columns, texts, chosen.get(one.parent), is_alone=children[one.parent] == 1)
            for one in tree
        ],
    )


def in_words(step: TracedStep, texts: Texts) -> str:
    """Describe the picture for screen readers."""
    drafted, accepted = len(step.trace.tokens) - 1, len(step.trace.accepted) - 1
    written = ", ".join(f"“{visible(texts[token])}”" for token in step.token_ids)
    return f"Draft tree: {max(drafted, 0)} guessed, {max(accepted, 0)} accepted; written: {written}"


def _width(one: Placed, texts: Texts) -> float:
    return cells(shortened(texts[one.node.token])) * CELL + PADDING


def _middle(one: Placed) -> int:
    return one.line * LINE + LINE // 2


def _edge(parent: Placed, child: Placed, columns: Sequence[float], texts: Texts) -> dict[str, str]:
    """Return the path from the right side of a node to the left side of its child."""
    x, y = columns[parent.depth] + _width(parent, texts), _middle(parent)
    end, down = columns[child.depth], _middle(child)
    corner = end - BETWEEN / 2
    path = f"M{x:.0f} {y}H{end:.0f}"
    if y != down:
        # The edge runs level to the end of the parents' column, so that all edges of a parent share this part.
        path = (
            f"M{x:.0f} {y}H{corner - 6:.0f}Q{corner:.0f} {y} {corner:.0f} {y + 6}"
            f"V{down - 6}Q{corner:.0f} {down} {corner + 6:.0f} {down}H{end:.0f}"
        )
    return {"kind": "edge accepted" if child.node.is_accepted else "edge", "path": path}


def _node(
    one: Placed, columns: Sequence[float], texts: Texts, chosen: int | None, is_alone: bool
) -> dict[str, object]:
    """Return the template's values of a node; `chosen` is what the model chose after its parent, if anything. The
    caption of the model's own token says whether it continued the drafts or replaced a draft."""
    x, y, width = columns[one.depth], _middle(one), _width(one, texts)
    state = "accepted" if one.node.is_accepted else "rejected"
    return {
        "kind": f"{state} {'root ' if one.parent < 0 else ''}{one.node.origin}",
        "about": _about(one, chosen, texts),
        "x": f"{x:.0f}",
        "y": y,
        "width": f"{width:.0f}",
        "mark_x": f"{x + 5:.0f}",
        "text_x": f"{x + 14:.0f}",
        "text": shortened(texts[one.node.token]),
        "caption_x": f"{x + width + 8:.0f}",
        "caption": "" if one.node.row >= 0 else "by the model" if is_alone else "chosen instead",
    }


def _about(one: Placed, chosen: int | None, texts: Texts) -> str:
    node = one.node
    text = f"“{visible(texts[node.token])}”"
    if one.parent < 0:
        return f"{text}: the current token, which was written before this step"
    if node.row < 0:
        return f"{text}: the token that the model chose here"
    text += f": {ABOUT[node.origin]}; "
    if node.is_accepted:
        return f"{text}accepted"
    if chosen is not None:
        return f"{text}rejected, the model chose “{visible(texts[chosen])}”"
    if node.predicted is None:
        return f"{text}never reached"
    return f"{text}never reached; the model's token after it is “{visible(texts[node.predicted])}”"
