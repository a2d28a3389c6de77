"""How a decoder's block is run on the model: eagerly here, or as a CUDA graph (`step_graphs.py`).

Which of the two a model gets is chosen once, at load. Prompts are always read eagerly."""

from collections.abc import Sequence

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


class EagerSteps:
    """Runs blocks behind what a cache holds, and commits rows of them. It launches each kernel of a step anew."""

    buckets: Buckets = ()  # the row counts that steps are captured for
    warm_up = 1  # runs of a block after which the next ones cost what all later ones do
    reads_all_rows = False  # whether it needs blocks of which all rows are wanted

    def __init__(self, model: PreTrainedModel, attention: Attention, note: str = "") -> None:
        """`note` says why steps are no graphs although this device has them; "" otherwise."""
        self.model, self.attention, self.note = model, attention, note

    def forward(self, cache: BlockCache, block: Block, batch_invariant: bool = False) -> Tensor:
        """Logits [R, vocab] of the block's wanted rows, good until the next block; only these reach the LM head.

        If `batch_invariant`, a row's bits depend on nothing but the text before it and the number of rows."""
        attend = self.attention.batch_invariant if batch_invariant else self.attention.attend
        return run_block(self.model, cache, block, attend)[0]

    def best_tokens(self, rows: int, count: int) -> Tensor | None:
        """`batched_sampling.best_tokens` of the newest logits' first rows, if so many were found already."""
        del rows, count
        return None

    @torch.inference_mode()
    def commit(self, cache: BlockCache, rows: Sequence[int]) -> None:
        """Keep these rows of the newest block: ascending, the first is row 0."""
        cache.commit(rows)

    def release(self) -> None:
        """Let go of what is kept for the cache's buffers, which are about to be made anew."""


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
    """Read a few tokens with every variant of the kernels, so that none is compiled while a reply waits."""
    for attend in attention.variants:
        run_block(model, BlockCache(), chain_block(range(3), 0, wanted=(0,)), attend)
