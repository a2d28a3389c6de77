"""Splits a step's block into one share for each rank.

The rows are read depth first and cut into stretches, one for each rank. A rank computes its stretch and the ancestors
of its first row, because its rows see them. A tree of 6 rows on two ranks:

    row      0  1  2  3  4  5          depth first   0 1 3 | 5 2 4
    parent  -1  0  0  1  2  1          rank 0        0 1 3
                                       rank 1        0 1 2 4 5, of which 0 and 1 are rank 0's as well

So whole branches stay together, and so do the window's neighbouring columns. The stretches are cut so that the
largest share is as small as possible; a rank that lags behind the text also feeds what it missed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count, pairwise

from app.engine.block.block import Block


@dataclass(frozen=True, slots=True)
class Share:
    """What one rank computes, as a block, and which of its answers count.

    Its wanted rows at the indices `own` are the wanted rows `places` of the whole block."""

    block: Block
    own: tuple[int, ...]
    places: tuple[int, ...]


def split(block: Block, missed: Sequence[int]) -> list[Share]:
    """Make one share for each rank; `missed` [ranks] is how many tokens each must feed besides."""
    order = depth_first(block.parents)
    ends = _ends([block.positions[row] - block.positions[0] for row in order], missed)
    owner = [0] * len(block)
    stretches = [order[begin:end] for begin, end in pairwise((0, *ends))]
    for rank, stretch in enumerate(stretches):
        for row in stretch:
            owner[row] = rank
    return [_share(block, rank, stretch, owner) for rank, stretch in enumerate(stretches)]


def depth_first(parents: Sequence[int]) -> list[int]:
    """Order the rows so that each is followed by all its descendants, earlier children first."""
    children: list[list[int]] = [[] for _ in parents]
    found, waiting = list[int](), list[int]()
    for row, parent in enumerate(parents):
        (waiting if parent < 0 else children[parent]).append(row)
    waiting.reverse()
    while waiting:
        found.append(row := waiting.pop())
        waiting += reversed(children[row])
    return found


def _ends(ancestors: Sequence[int], missed: Sequence[int]) -> list[int]:
    """Where each rank's stretch ends, given how many ancestors each row has."""
    least = -(-len(ancestors) // len(missed))
    tried = (_ends_within(most, ancestors, missed) for most in count(least))
    return next(ends for ends in tried if ends[-1] == len(ancestors))


def _ends_within(most: int, ancestors: Sequence[int], missed: Sequence[int]) -> list[int]:
    """Where the stretches end if no rank feeds more than `most` rows."""
    ends, begin = list[int](), 0
    for lagging in missed:
        above = ancestors[begin] if begin < len(ancestors) else 0
        begin = min(begin + max(most - lagging - above, 0), len(ancestors))
        ends.append(begin)
    return ends


def _share(block: Block, rank: int, stretch: Sequence[int], owner: Sequence[int]) -> Share:
    rows = {0, *stretch}
    for row in stretch[:1]:  # the ancestors of the others are among these and the first one's
        while (row := block.parents[row]) >= 0:
            rows.add(row)
    kept = sorted(rows)
    local = {row: place for place, row in enumerate(kept)}
    wanted = [(place, row) for place, row in enumerate(block.wanted) if row in rows]
    own = [(index, place) for index, (place, row) in enumerate(wanted) if owner[row] == rank]
    return Share(
        Block(
            tokens=tuple(block.tokens[row] for row in kept),
            positions=tuple(block.positions[row] for row in kept),
            parents=tuple(local.get(block.parents[row], -1) for row in kept),
            wanted=tuple(local[row] for _, row in wanted),
        ),
        tuple(index for index, _ in own),
        tuple(place for _, place in own),
    )


def children_of(block: Block) -> dict[tuple[int, int], int]:
    """Map (parent, token) to the row with this token below this parent, the first one of several."""
    edges = zip(block.parents, block.tokens, strict=True)
    return {edge: row for row, edge in reversed(list(enumerate(edges)))}


def followed(block: Block, tokens: Sequence[int]) -> list[int]:
    """Return the rows, from row 0 down, of the text's next tokens, as far as the block has them."""
    children = children_of(block)
    rows = list[int]()
    for token in tokens:
        row = children.get((rows[-1] if rows else -1, token))
        if row is None:
            break
        rows.append(row)
    return rows


def after_missed(missed: Sequence[int], block: Block) -> Block:
    """Put a line of missed tokens before the block."""
    lines, first = len(missed), block.positions[0]
    return Block(
        tokens=(*missed, *block.tokens),
        positions=(*range(first - lines, first), *block.positions),
        parents=(*range(-1, lines - 1), *(parent + lines for parent in block.parents)),
        wanted=tuple(row + lines for row in block.wanted),
    )
