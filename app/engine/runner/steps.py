"""How a decoder's block is run on the model: eagerly, or as a CUDA graph (`step_graphs.py`).

Which of both a model gets is chosen once, at load. Prompts are always read eagerly."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel

from app.engine.attention import Attend, BlockView
from app.engine.attention.selector import Attention
from app.engine.block.block import Block, chain_block
from app.engine.block.step_profile import Buckets
from app.engine.machine.hardware import uploaded
from app.engine.runner.kv_cache import CACHE_NAME, BlockCache

_FEW = 3
"""Tokens that are read to have kernels compiled: how many changes nothing about that."""


class Steps(Protocol):
    """Runs blocks behind what a cache holds, and commits rows of them."""

    model: PreTrainedModel
    warm_up: int  # runs of a block after which the next ones cost what all later ones do
    reads_all_rows: bool  # whether it needs blocks of which all rows are wanted

    @property
    def buckets(self) -> Buckets:
        """The row counts that steps are captured for; () where none are."""

    @property
    def note(self) -> str:
        """Why steps are no graphs although this device has them; "" otherwise."""

    def forward(self, cache: BlockCache, block: Block, batch_invariant: bool = False) -> Tensor:
        """Logits [R, vocab] of the block's wanted rows, good until the next block.

        If `batch_invariant`, a row's bits depend on nothing but the text before it and the number of rows."""

    def best_tokens(self, rows: int, count: int) -> Tensor | None:
        """`best_tokens` of the newest logits' first rows, if so many were found already."""

    def commit(self, cache: BlockCache, rows: Sequence[int]) -> None:
        """Keep these rows of the newest block: ascending, the first is row 0."""

    def release(self) -> None:
        """Let go of what is kept for the cache's buffers, which are about to be made anew."""


class EagerSteps:
    """Launches each kernel of a step anew."""

    buckets: Buckets = ()
    warm_up = 1
    reads_all_rows = False

    def __init__(self, model: PreTrainedModel, attention: Attention, note: str = "") -> None:
        self.note = note
        self.model = model
        self._attention = attention

    def forward(self, cache: BlockCache, block: Block, batch_invariant: bool = False) -> Tensor:
        """No row but the wanted ones reaches the LM head."""
        attend = self._attention.batch_invariant if batch_invariant else self._attention.attend
        return run_block(self.model, cache, block, attend)[0]

    def best_tokens(self, rows: int, count: int) -> Tensor | None:
        """Nobody has looked for them."""
        del rows, count
        return None

    @torch.inference_mode()
    def commit(self, cache: BlockCache, rows: Sequence[int]) -> None:
        """Move the rows layer by layer."""
        cache.commit(rows)

    def release(self) -> None:
        """Nothing is kept."""


@torch.inference_mode()
def run_block(
    model: PreTrainedModel, cache: BlockCache, block: Block, attend: Attend
) -> tuple[Tensor, BlockView]:
    """One forward pass: logits [R, vocab] of the wanted rows, and what attention saw. Nothing is committed."""
    device = model.device
    view = BlockView(block, cache.length, attend, device)
    output = model(
        input_ids=uploaded(np.array([block.tokens]), device),
        position_ids=view.positions[None],
        **{CACHE_NAME: cache},
        use_cache=True,
        logits_to_keep=uploaded(np.array(block.wanted, dtype=np.int64), device),
        block=view,
    )
    logits: Tensor = output.logits[0]
    return logits, view


def compile_variants(model: PreTrainedModel, attention: Attention) -> None:
    """Read a few tokens by every variant of the kernels, so that none is compiled while a reply waits for it."""
    for attend in attention.variants:
        run_block(model, BlockCache(), chain_block(range(_FEW), 0, wanted=(0,)), attend)
