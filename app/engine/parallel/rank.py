"""One rank: a model that follows the text and computes its share of each step.

Which of the drafted rows are accepted is known at rank 0 alone, and only the rank that computed a row has its keys
and values. A rank without them feeds the row's token once more, in front of its next share (as LADE does):

    text A B, share  C -> D    accepted C D E, of which E was another rank's     missed: E
    next share  F -> G         fed  E -> F -> G, which is committed from E on

So no keys and values are sent, and what a rank holds is always a prefix of the text.
"""

from collections.abc import Generator, Sequence

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from app.engine.block.block import MAX_DEPTH, Block, chain_block
from app.engine.block.entries import SUCCESSORS
from app.engine.block.step_profile import Buckets
from app.engine.parallel.shares import behind, children_of, followed
from app.engine.runner.runner import BlockRunner
from app.engine.sampling.sampling import Choices, Sampler
from app.values.messages import Prefilling

_BITS = 32
"""An answer holds a token's id and, in so many lower bits, its logit as float32."""


class RankModel:
    """A runner behind the text: it has committed all of it but what was `missed`."""

    def __init__(self, runner: BlockRunner) -> None:
        self.runner = runner
        self._missed: list[int] = []
        self._fed: Block | None = None  # the newest share, not committed yet

    @property
    def missed(self) -> int:
        """Tokens of the text that are to be fed once more."""
        return len(self._missed)

    def prefill(
        self, ids: Sequence[int], same_text_buckets: Buckets = ()
    ) -> Generator[Prefilling, None, Tensor]:
        """Read a prompt as a runner does."""
        self._missed, self._fed = [], None
        return (yield from self.runner.prefill(ids, same_text_buckets))

    def go_on(self, tokens: Sequence[int]) -> None:
        """The text goes on with these tokens: the rows of the newest share that say so are kept."""
        rows = followed(self._fed, tokens) if self._fed else []
        if rows:
            count = len(self._missed)
            self.runner.commit((*range(count), *(count + row for row in rows)))
            self._missed = []
        self._missed += tokens[len(rows) :]
        self._fed = None

    def forward(self, block: Block) -> Tensor:
        """Logits [R, vocab] of the wanted rows of a share whose row 0 is the current token."""
        if self._missed and not self._fits(block):
            self.catch_up()
        self._fed = block
        return self.runner.forward(behind(self._missed, block))

    def catch_up(self) -> None:
        """Feed what was missed, as lines of tokens."""
        while self._missed:
            start = self.runner.length
            most = min(MAX_DEPTH + 1, self.runner.max_rows, self.runner.horizon(start) - start)
            tokens = self._missed[:most]
            self.runner.forward(chain_block(tokens, start, wanted=(len(tokens) - 1,)))
            self.runner.commit(range(len(tokens)))
            self._missed = self._missed[most:]

    def forget(self) -> None:
        """Drop the text."""
        self._missed, self._fed = [], None
        self.runner.forget()

    def _fits(self, block: Block) -> bool:
        """Whether the share can be fed in one pass with what was missed."""
        count, first, last = len(self._missed), block.positions[0], max(block.positions)
        return (
            last - first + count <= MAX_DEPTH
            and len(block) + count <= self.runner.max_rows
            and last < self.runner.horizon(first - count)
        )


def answers_of(sampler: Sampler, logits: Tensor, block: Block) -> NDArray[np.int64]:
    """What a share's wanted rows say [R, 1 + K]: the sampled token, then the likeliest ones with their logits.

    Drawing takes time, so tokens are sampled from row 0 down to where no row follows; elsewhere stands -1. If the
    whole step's accepted path leads through rows of this rank, it leads there."""
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
    """`answers_of`, read."""
    sampled: list[int] = answers[:, 0].tolist()
    ids, bits = answers[:, 1 : 1 + likely] >> _BITS, answers[:, 1 : 1 + likely] & 2**_BITS - 1

    def choose(row: int, _history: Sequence[int]) -> int:
        if sampled[row] < 0:
            raise LookupError(f"no rank sampled a token in row {row}")
        return sampled[row]

    return Choices(choose, ids, bits.astype(np.uint32).view(np.float32))
