"""A model behind three verbs: prefill a prompt, forward a block, commit the rows that were accepted.

`BlockRunner` in `runner.py` takes any block; models whose state cannot branch have one that takes chains, or one
row after the other (`sequential_runner.py`). Which one a model gets is decided at load, by `compatibility.py`.
"""

from collections.abc import Generator, Sequence
from typing import Protocol

from torch import Tensor

from app.engine.block.block import Block
from app.engine.block.step_profile import Buckets
from app.engine.sampling.sampling import Sampler
from app.values.messages import Prefilling, Sampling


class ModelRunner(Protocol):
    """One model with its cache. `context` is the number of positions it has."""

    context: int
    is_asynchronous: bool  # whether a forward pass returns while the device still computes
    reused: int  # tokens of the newest prefill that were still in the cache
    max_branches: int  # guesses in one place that a block may hold; 1 where it must be a chain
    pending: int  # accepted rows that the next block feeds once more, beside its own

    @property
    def same_text_buckets(self) -> Buckets:
        """What the newest prefill was given."""

    @property
    def buckets(self) -> Buckets:
        """The row counts that blocks are padded to: `same_text_buckets`, or those of CUDA graphs, or ()."""

    @property
    def max_rows(self) -> int:
        """The most rows that a block may have."""

    def horizon(self, position: int) -> int:
        """The first position that a block may not reach whose current token stands at `position`."""

    def prefill(
        self, ids: Sequence[int], same_text_buckets: Buckets = ()
    ) -> Generator[Prefilling, None, Tensor]:
        """Make `ids` the committed prefix; returns the logits [vocab] after its last token.

        With `same_text_buckets` the blocks after it are padded to them, and a row's bits depend on nothing but the
        text before it, so that the text is the same for every decoder."""

    def forward(self, block: Block) -> Tensor:
        """Logits [R, vocab] of the block's wanted rows, good until the next forward. Nothing is committed."""

    def forward_siblings(self, tokens: Sequence[int]) -> Tensor:
        """Logits [n, vocab] behind the prefix and each of these tokens alone. Nothing is committed."""

    def sampler(self, sampling: Sampling, from_logits: bool = False) -> Sampler:
        """Samples from what `prefill` and `forward` return from now on.

        That is logits if it shall be, else whatever suits the two."""

    def best_tokens(self, logits: Tensor, count: int) -> Tensor:
        """`best_tokens`, of at least so many: for `forward`'s newest logits maybe found by now."""

    def commit(self, rows: Sequence[int]) -> None:
        """Append these rows of the newest block to the prefix: ascending, the first is row 0."""

    def forget(self) -> None:
        """Drop the prefix, so that the next prefill starts cold."""
