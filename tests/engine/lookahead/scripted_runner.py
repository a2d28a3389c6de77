"""A runner whose model is a rule: what follows a row is a function of the tokens that the row sees.

It also checks what every block promises: the rows that a row sees, prefix included, stand at positions 0, 1, 2,
... up to the row itself, so that each row reads one whole line of text.
"""

from collections.abc import Callable, Generator, Sequence

import torch
from torch import Tensor

from app.engine.block.block import Block, Visible, siblings_block
from app.values.messages import MAX_ROWS, Prefilling

VOCABULARY = 97

Rule = Callable[[Sequence[int]], int]
"""A line of text -> the token that the model says behind it."""


def triple_plus_one(line: Sequence[int]) -> int:
    """1 -> 4 -> 13 -> 40 -> 24 -> 73 -> 26 -> 79 -> 44 -> 36 -> 12 -> 37 -> ..."""
    return (3 * line[-1] + 1) % VOCABULARY


def text_after(line: Sequence[int], count: int, rule: Rule = triple_plus_one) -> list[int]:
    """The next tokens, said one by one."""
    whole = list(line)
    for _ in range(count):
        whole.append(rule(whole))
    return whole[len(line) :]


class ScriptedRunner:
    """Follows a rule, and remembers its blocks and what was committed."""

    max_branches = MAX_ROWS
    pending = 0

    def __init__(
        self,
        prefix: Sequence[int],
        rule: Rule = triple_plus_one,
        context: int = 10_000,
        horizon: int = 10_000,
    ) -> None:
        self.context = context
        self.is_asynchronous = False
        self.reused = 0
        self.same_text_buckets: tuple[int, ...] = ()
        self.prefix = list(prefix)
        self.blocks: list[Block] = []
        self._rule = rule
        self._horizon = horizon

    @property
    def max_rows(self) -> int:
        return self.same_text_buckets[-1] if self.same_text_buckets else MAX_ROWS

    @property
    def buckets(self) -> tuple[int, ...]:
        return self.same_text_buckets

    def horizon(self, position: int) -> int:
        """The same one everywhere, or one row at a time beyond it."""
        return max(self._horizon, position + 1)

    def prefill(
        self, ids: Sequence[int], same_text_buckets: tuple[int, ...] = ()
    ) -> Generator[Prefilling, None, Tensor]:
        self.same_text_buckets = same_text_buckets
        self.prefix = list(ids)
        yield Prefilling(len(ids), len(ids))
        return self._logits([self.prefix])[0]

    def forward(self, block: Block) -> Tensor:
        """Certain logits: 1 for what the rule says, 0 for the rest."""
        self.blocks.append(block)
        visible = block.visible()
        return self._logits([self._line(block, visible, row) for row in block.wanted])

    def forward_siblings(self, tokens: Sequence[int]) -> Tensor:
        """In one block."""
        return self.forward(siblings_block(tokens, len(self.prefix)))

    def commit(self, rows: Sequence[int]) -> None:
        self.prefix += [self.blocks[-1].tokens[row] for row in rows]

    def forget(self) -> None:
        self.prefix = []

    def _line(self, block: Block, visible: Visible, row: int) -> list[int]:
        seen = [other for other in range(len(block)) if visible[row, other]]
        seen.sort(key=lambda other: block.positions[other])
        begin = len(self.prefix)
        assert [block.positions[other] for other in seen] == list(range(begin, begin + len(seen)))
        assert seen[-1] == row
        return [*self.prefix, *(block.tokens[other] for other in seen)]

    def _logits(self, lines: Sequence[Sequence[int]]) -> Tensor:
        logits = torch.zeros(len(lines), VOCABULARY)
        for row, line in enumerate(lines):
            logits[row, self._rule(line)] = 1.0
        return logits
