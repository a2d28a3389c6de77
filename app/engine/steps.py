"""How a decoder's block is run on the model: launch by launch, or as a graph that was recorded (`step_graphs.py`).

Which of both a model gets is chosen once, at load. Prompts are always read launch by launch."""

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor
from transformers import PreTrainedModel

from app.engine.attention import Attend, BlockView
from app.engine.attention.choosing import Attention
from app.engine.block import Block, padded
from app.engine.kv_cache import BlockCache
from app.engine.step_times import Widths, padded_rows


class Steps(Protocol):
    """Runs blocks behind what a cache holds, and commits rows of them."""

    model: PreTrainedModel
    warm_up: int  # runs of a block after which the next ones cost what all later ones do

    @property
    def buckets(self) -> Widths:
        """The row counts that blocks are padded to when nobody asks for widths; () where none are."""

    @property
    def note(self) -> str:
        """Why steps are no graphs although this device has them; "" otherwise."""

    def forward(self, cache: BlockCache, block: Block, widths: Widths) -> Tensor:
        """Logits [R, vocab] of the block's wanted rows, good until the next block.

        With `widths` the block is padded to them, and a row's bits depend on nothing but the text before it."""

    def commit(self, cache: BlockCache, rows: Sequence[int]) -> None:
        """Keep these rows of the newest block: ascending, the first is row 0."""


class EagerSteps:
    """Launch by launch, whatever the model does between them."""

    buckets: Widths = ()
    warm_up = 1

    def __init__(self, model: PreTrainedModel, attention: Attention, note: str = "") -> None:
        self.note = note
        self.model = model
        self._attention = attention

    def forward(self, cache: BlockCache, block: Block, widths: Widths) -> Tensor:
        """No row but the wanted ones reaches the LM head."""
        if not widths:
            return run_block(self.model, cache, block, self._attention.attend)[0]
        rows, wanted = (padded_rows(count, widths) for count in (len(block), len(block.wanted)))
        fed = padded(block, rows, wanted)
        return run_block(self.model, cache, fed, self._attention.steady)[0][: len(block.wanted)]

    @torch.inference_mode()
    def commit(self, cache: BlockCache, rows: Sequence[int]) -> None:
        """Layer by layer."""
        cache.commit(rows)


@torch.inference_mode()
def run_block(
    model: PreTrainedModel, cache: BlockCache, block: Block, attend: Attend
) -> tuple[Tensor, BlockView]:
    """One forward pass: logits [R, vocab] of the wanted rows, and what attention saw. Nothing is committed."""
    device = model.device
    view = BlockView(block, cache.length, attend, device)
    output = model(
        input_ids=torch.tensor([block.tokens], device=device),
        position_ids=view.positions[None],
        past_key_values=cache,
        use_cache=True,
        logits_to_keep=torch.tensor(block.wanted, dtype=torch.long, device=device),
        block=view,
    )
    logits: Tensor = output.logits[0]
    return logits, view
