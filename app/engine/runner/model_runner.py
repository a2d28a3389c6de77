"""The interface of a model's runner: prefill a prompt, forward a block, commit the rows that were accepted.

`model_trial.py` decides at load whether a model gets a `BlockRunner`, which takes any block, or a
`SequentialRunner`, which takes chains or single rows.
"""

from collections.abc import Generator, Sequence
from typing import Protocol

from torch import Tensor

from app.engine.block.block import Block
from app.engine.block.step_profile import Buckets
from app.engine.sampling.sampling import Sampler
from app.values.messages import Prefilling, Sampling


class ModelRunner(Protocol):
    """One model with its cache. `context` is the number of positions that the model supports."""

    context: int
    is_asynchronous: bool  # whether a forward pass returns while the device still computes
    reused: int  # tokens of the newest prompt that were not read anew
    max_branches: int  # children that a row of a block may have; 1 if blocks must be chains
    pending: int  # accepted rows that are fed once more together with the next block

    @property
    def same_text_buckets(self) -> Buckets:
        """The `same_text_buckets` argument of the newest prefill."""

    @property
    def buckets(self) -> Buckets:
        """The row counts that blocks are padded to: `same_text_buckets`, or those of CUDA graphs, or ()."""

    @property
    def max_rows(self) -> int:
        """Maximum number of rows of a block."""

    def horizon(self, position: int) -> int:
        """Return the first position that a block must not reach if its current token is at `position`."""

    def prefill(
        self, ids: Sequence[int], same_text_buckets: Buckets = ()
    ) -> Generator[Prefilling, None, Tensor]:
        """Make `ids` the committed prefix; yield the progress, and return the logits [vocab] after the last token.

        With `same_text_buckets` later blocks are padded to these row counts. A row's exact result then
        depends only on the tokens before it, so that the text is the same for every decoder."""

    def forward(self, block: Block) -> Tensor:
        """Return logits [R, vocab] of the block's wanted rows, valid until the next forward."""

    def forward_siblings(self, tokens: Sequence[int]) -> Tensor:
        """Return logits [n, vocab]. Row i is for the token after the prefix and `tokens[i]`. Commits nothing."""

    def sampler(self, sampling: Sampling, from_logits: bool = False) -> Sampler:
        """Return a sampler for the next passes. With `from_logits` each pass returns logits; otherwise it may
        return only what this sampler reads."""

    def commit(self, rows: Sequence[int]) -> None:
        """Append these rows of the newest block to the prefix; they are ascending and begin with row 0."""

    def forget(self) -> None:
        """Drop the prefix, so that the next prefill reads its whole prompt."""
