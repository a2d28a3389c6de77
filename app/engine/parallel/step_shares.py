"""Splits a step into shares, one for each rank, and lets a rank's copy of the model follow the text.

Only the rank that computed a row has its keys and values. If the row is accepted, each other rank feeds the row's
token before its next share, as in LADE (the code of Fu et al.):

    text A B, share  C -> D    accepted C D E, where E was another rank's row    missed: E
    next share  F -> G         fed  E -> F -> G, of which E is committed in any case

So no keys and values are sent.
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from itertools import count, pairwise

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from app.engine.block.block import MAX_DEPTH, Block, chain_block
from app.engine.block.context_entries import SUCCESSORS
from app.engine.block.step_profile import Buckets
from app.engine.runner.runner import BlockRunner
from app.engine.sampling.sampling import Choices, Sampler
from app.values.messages import Prefilling


@dataclass(frozen=True, slots=True)
class Share:
    """The block that one rank computes, and which of its results are used.

    The result of the share's wanted row number `own[i]` is that of the whole block's wanted row number
    `in_block[i]`."""

    block: Block
    own: tuple[int, ...]
    in_block: tuple[int, ...]


def split(block: Block, missed: Sequence[int]) -> list[Share]:
    """Split the block into one share per rank; `missed[rank]` is how many tokens the rank must feed before its
    share.

    The rows are ordered depth first and divided into consecutive stretches, one for each rank. A rank
    computes its stretch, row 0 (the current token), and the ancestors of the stretch's first row. So branches
    and neighbouring columns of the window mostly stay together. The largest number of rows that a rank feeds
    is as small as possible. An example is a tree of 6 rows on two ranks:

        row      0  1  2  3  4  5          depth first   0 1 3 | 5 2 4
        parent  -1  0  0  1  2  1          rank 0        0 1 3
                                           rank 1        0 1 2 4 5, of which rank 0 computes 0 and 1 as well
    """
    order = depth_first(block.parents)
    ancestors = [block.positions[row] - block.positions[0] for row in order]
    least = -(-len(order) // len(missed))
    tried = (_ends_within(most, ancestors, missed) for most in count(least))
    ends = next(ends for ends in tried if ends[-1] == len(order))
    owner = [0] * len(block)
    stretches = [order[begin:end] for begin, end in pairwise((0, *ends))]
    for rank, stretch in enumerate(stretches):
        for row in stretch:
            owner[row] = rank
    return [_share(block, rank, stretch, owner) for rank, stretch in enumerate(stretches)]


def depth_first(parents: Sequence[int]) -> list[int]:
    """Order the rows so that each row is followed by all its descendants, earlier children first."""
    children: list[list[int]] = [[] for _ in parents]
    found, waiting = list[int](), list[int]()
    for row, parent in enumerate(parents):
        (waiting if parent < 0 else children[parent]).append(row)
    waiting.reverse()
    while waiting:
        found.append(row := waiting.pop())
        waiting += reversed(children[row])
    return found


def _ends_within(most: int, ancestors: Sequence[int], missed: Sequence[int]) -> list[int]:
    """Compute the ends of the ranks' stretches if no rank may feed more than `most` rows. The last end is below the
    number of rows if the ranks cannot feed all rows."""
    ends, begin = list[int](), 0
    for lagging in missed:
        above = ancestors[begin] if begin < len(ancestors) else 0
        begin = min(begin + max(most - lagging - above, 0), len(ancestors))
        ends.append(begin)
    return ends


def _share(block: Block, rank: int, stretch: Sequence[int], owner: Sequence[int]) -> Share:
    rows = {0, *stretch}
    for row in stretch[:1]:  # ancestors of other rows are in the stretch, or are ancestors of its first row
        while (row := block.parents[row]) >= 0:
            rows.add(row)
    kept = sorted(rows)
    local = {row: index for index, row in enumerate(kept)}
    wanted = [(whole, row) for whole, row in enumerate(block.wanted) if row in rows]
    own = [(index, whole) for index, (whole, row) in enumerate(wanted) if owner[row] == rank]
    return Share(
        Block(
            tokens=tuple(block.tokens[row] for row in kept),
            positions=tuple(block.positions[row] for row in kept),
            parents=tuple(local.get(block.parents[row], -1) for row in kept),
            wanted=tuple(local[row] for _, row in wanted),
        ),
        tuple(index for index, _ in own),
        tuple(whole for _, whole in own),
    )


def children_of(block: Block) -> dict[tuple[int, int], int]:
    """Map (parent row, token) to the parent's first child row with this token."""
    edges = zip(block.parents, block.tokens, strict=True)
    return {edge: row for row, edge in reversed(list(enumerate(edges)))}


def followed(block: Block, tokens: Sequence[int]) -> list[int]:
    """Return the path of rows, from a root row on, that has these next tokens; it may be shorter than `tokens`."""
    children = children_of(block)
    rows = list[int]()
    for token in tokens:
        row = children.get((rows[-1] if rows else -1, token))
        if row is None:
            break
        rows.append(row)
    return rows


def after_missed(missed: Sequence[int], block: Block) -> Block:
    """Prepend the missed tokens to the block as a chain, and attach the block's root rows to its end."""
    lines, first = len(missed), block.positions[0]
    return Block(
        tokens=(*missed, *block.tokens),
        positions=(*range(first - lines, first), *block.positions),
        parents=(*range(-1, lines - 1), *(parent + lines for parent in block.parents)),
        wanted=tuple(row + lines for row in block.wanted),
    )


_BITS = 32
"""An answer packs a token's id and, in this many low bits, its logit as float32."""


class RankModel:
    """A rank's model and text. All tokens of the text except the missed tokens are committed."""

    def __init__(self, runner: BlockRunner) -> None:
        self.runner = runner
        self._missed: list[int] = []
        self._fed: Block | None = None  # newest share, not committed yet

    @property
    def missed(self) -> int:
        """The number of the text's tokens that must still be fed."""
        return len(self._missed)

    def prefill(
        self, ids: Sequence[int], same_text_buckets: Buckets = ()
    ) -> Generator[Prefilling, None, Tensor]:
        self._missed, self._fed = [], None
        return (yield from self.runner.prefill(ids, same_text_buckets))

    def extend(self, tokens: Sequence[int]) -> None:
        """Continue the text with these tokens. Commits the rows of the newest share that have these tokens; the
        rest of the tokens become missed tokens."""
        rows = followed(self._fed, tokens) if self._fed else []
        if rows:
            count = len(self._missed)
            self.runner.commit((*range(count), *(count + row for row in rows)))
            self._missed = []
        self._missed += tokens[len(rows) :]
        self._fed = None

    def forward(self, block: Block) -> Tensor:
        """Feed the missed tokens and a share, in one pass if they fit into one; return the logits [R, vocab] of the
        share's wanted rows. The share's row 0 must be the current token."""
        if count := len(self._missed):
            first, last = block.positions[0], max(block.positions)
            is_small = last - first + count <= MAX_DEPTH and len(block) + count <= self.runner.max_rows
            if not is_small or last >= self.runner.horizon(first - count):
                self.catch_up()
        self._fed = block
        return self.runner.forward(after_missed(self._missed, block))

    def catch_up(self) -> None:
        """Feed and commit the missed tokens, as chains."""
        while self._missed:
            start = self.runner.length
            most = min(MAX_DEPTH + 1, self.runner.max_rows, self.runner.horizon(start) - start)
            tokens = self._missed[:most]
            self.runner.forward(chain_block(tokens, start, wanted=(len(tokens) - 1,)))
            self.runner.commit(range(len(tokens)))
            self._missed = self._missed[most:]

    def forget(self) -> None:
        self._missed, self._fed = [], None
        self.runner.forget()


def answers_of(sampler: Sampler, logits: Tensor, block: Block) -> NDArray[np.int64]:
    """Return answers [R, 1 + K] for a share's wanted rows: the sampled token, then the K likeliest tokens with
    their logits.

    Sampling takes time, so tokens are sampled only along the path from row 0 on which each row has the token that
    was sampled before it; other rows get -1. All accepted rows of this rank are on this path."""
    choices = sampler(logits, SUCCESSORS, [block.positions[row] + 1 for row in block.wanted])
    bits = choices.logits.astype(np.float32).view(np.uint32).astype(np.int64)
    answers = np.full((len(block.wanted), 1 + choices.ids.shape[1]), -1, dtype=np.int64)
    answers[:, 1:] = choices.ids << _BITS | bits
    children, row = children_of(block), 0
    index = {row: index for index, row in reversed(list(enumerate(block.wanted)))}
    while row in index:
        token = choices.choose(index[row], range(block.positions[row] + 1))
        answers[index[row], 0] = token
        row = children.get((row, token), -1)
    return answers


def choices_of(answers: NDArray[np.int64], likely: int) -> Choices:
    """Unpack answers into choices. Choosing raises LookupError for a row without a sampled token."""
    sampled: list[int] = answers[:, 0].tolist()
    ids, bits = answers[:, 1 : 1 + likely] >> _BITS, answers[:, 1 : 1 + likely] & 2**_BITS - 1

    def choose(row: int, _history: Sequence[int]) -> int:
        if sampled[row] < 0:
            raise LookupError(f"no rank sampled a token in row {row}")
        return sampled[row]

    return Choices(choose, ids, bits.astype(np.uint32).view(np.float32))
