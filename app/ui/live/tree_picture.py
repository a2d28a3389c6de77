"""The draft tree of a step as SVG: the accepted path lit, the rest faint, colours by who proposed a token."""

from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape

from app.ui.live.origins import ABOUT
from app.ui.live.port import SeenStep
from app.ui.live.token_text import cells, shortened, visible
from app.ui.live.tree_layout import Placed, placed

CELL, LINE, BOX = 7.3, 26, 20
"""A character's width, and the heights of a line and of a node in it: pixels."""
PADDING, BETWEEN = 20, 30
"""Inside a node, beside its text; and between two columns, where edges run."""
CAPTION = 120
"""Room for words behind the farthest node."""

Words = Mapping[int, str]
"""What each token says, by its id."""


def tree_picture(step: SeenStep, words: Words) -> str:
    """The tree, as large as it is: who shows it lets it scroll."""
    tree = placed(step)
    columns = _columns(tree, words)
    height = (tree[-1].line + 1) * LINE if tree else LINE
    # The lit path is drawn last, over the trunks that it shares.
    drawn = sorted(tree[1:], key=lambda one: one.node.is_lit)
    edges = "".join(_edge(tree[one.parent], one, columns, words) for one in drawn)
    # What the model said behind each node that it reached, by the node's place.
    wanted = {one.parent: one.node.token for one in tree if one.node.is_lit}
    crowded = Counter(one.parent for one in tree)
    nodes = "".join(
        _node(one, columns, words, _about(one, wanted.get(one.parent), words), crowded[one.parent] > 1)
        for one in tree
    )
    width = columns[-1] + CAPTION
    return (
        f'<svg class="tree" width="{width:.0f}" height="{height}" role="img" '
        f'aria-label="{escape(in_words(step, words))}">{edges}{nodes}</svg>'
    )


def in_words(step: SeenStep, words: Words) -> str:
    """What the picture shows, for those who hear it."""
    drafted, accepted = len(step.trace.tokens) - 1, len(step.trace.accepted) - 1
    wrote = ", ".join(f"“{visible(words[token])}”" for token in step.token_ids)
    return f"Draft tree: {max(drafted, 0)} drafted, {max(accepted, 0)} accepted; written: {wrote}"


def _columns(tree: Sequence[Placed], words: Words) -> list[float]:
    """Where each depth begins, and where the last one ends."""
    widths = [0.0] * (max((one.depth for one in tree), default=0) + 1)
    for one in tree:
        widths[one.depth] = max(widths[one.depth], _width(one, words))
    starts = [1.0]
    for width in widths:
        starts.append(starts[-1] + width + BETWEEN)
    return starts


def _width(one: Placed, words: Words) -> float:
    return cells(shortened(words[one.node.token])) * CELL + PADDING


def _edge(parent: Placed, child: Placed, columns: Sequence[float], words: Words) -> str:
    """From the right of a node to the left of one below it, in a curve that leaves the line soon."""
    x, y = columns[parent.depth] + _width(parent, words), _middle(parent)
    end, down = columns[child.depth], _middle(child)
    bend = end - BETWEEN / 2
    kind = "edge lit" if child.node.is_lit else "edge"
    if y == down:
        return f'<path class="{kind}" d="M{x:.0f} {y}H{end:.0f}"/>'
    # The trunk runs straight to where the column of parents ends, so that edges of one parent share it.
    turn = f"H{bend - 6:.0f}Q{bend:.0f} {y} {bend:.0f} {y + 6}V{down - 6}Q{bend:.0f} {down} {bend + 6:.0f} {down}"
    return f'<path class="{kind}" d="M{x:.0f} {y}{turn}H{end:.0f}"/>'


def _middle(one: Placed) -> int:
    return one.line * LINE + LINE // 2


def _node(one: Placed, columns: Sequence[float], words: Words, about: str, is_break: bool) -> str:
    node, x, y = one.node, columns[one.depth], _middle(one)
    width, kind = _width(one, words), "lit" if node.is_lit else "faint"
    root = "" if one.parent >= 0 else " root"
    behind = _caption(x + width + 8, y + 4, is_break) if node.row < 0 else ""
    return (
        f'<g class="node {kind}{root} {node.origin}"><title>{escape(about)}</title>'
        f'<rect class="box" x="{x:.0f}" y="{y - BOX // 2}" width="{width:.0f}" height="{BOX}" rx="5"/>'
        f'<rect class="mark" x="{x + 5:.0f}" y="{y - 5}" width="4" height="10" rx="1"/>'
        f'<text x="{x + 14:.0f}" y="{y + 4}">{escape(shortened(words[node.token]))}</text>{behind}</g>'
    )


def _caption(x: float, y: int, is_break: bool) -> str:
    """What stands behind the model's own token: it broke the drafts off, or went on where they ended."""
    caption = "wanted instead" if is_break else "the model itself"
    return f'<text class="caption" x="{x:.0f}" y="{y}">{caption}</text>'


def _about(one: Placed, wanted: int | None, words: Words) -> str:
    """What a hover says of a node; `wanted` is what the model said behind its parent, if it got there."""
    node = one.node
    said = f"“{visible(words[node.token])}”"
    if one.parent < 0:
        return f"{said}: the current token, written by the step before"
    if node.row < 0:
        return f"{said}: what the model wanted here"
    said += f": {ABOUT[node.origin]}; "
    if node.is_lit:
        return f"{said}accepted"
    if wanted is not None:
        return f"{said}rejected, the model wanted “{visible(words[wanted])}”"
    on = "" if node.said is None else f", it would have gone on with “{visible(words[node.said])}”"
    return f"{said}never reached{on}"
