"""The runner of models whose state cannot be taken back (recurrent and hybrid ones): one row after the other.

Which models those are is decided at load, by `compatibility.py`.
"""

from collections.abc import Generator, Sequence
from inspect import signature

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel

from app.engine.block import Block
from app.engine.hardware import uploaded
from app.engine.kv_cache import stock_cache
from app.engine.runner import PREFILL_CHUNK
from app.engine.step_profile import Buckets
from app.messages import Prefilling

PROGRESS_ROWS = 16
"""Rows between two reports of progress, where a prompt is read row by row."""


class SequentialRunner:
    """Runs one row after the other on a model with transformers' own attention and cache."""

    reused = 0
    max_rows = 1

    def __init__(self, model: PreTrainedModel, context: int) -> None:
        self.context = context
        self.is_asynchronous = model.device.type == "cuda"
        self.same_text_buckets: Buckets = ()
        self.buckets: Buckets = ()
        self.chunk = PREFILL_CHUNK  # rows that the model takes behind its state
        self._model = model
        self._accepts = frozenset(signature(model.forward).parameters)
        self._state: dict[str, object] = {}

    def horizon(self, position: int) -> int:
        """One row at a time."""
        return position + 1

    def prefill(self, ids: Sequence[int]) -> Generator[Prefilling, None, Tensor]:
        """Reads the prompt in chunks from its beginning: a recurrent state cannot go back.

        Where the model takes no chunk behind another (`check_sequential` tries it), the rest is read row by row."""
        logits = self.feed(ids[:PREFILL_CHUNK], 0)
        yield Prefilling(min(PREFILL_CHUNK, len(ids)), len(ids))
        for start in range(PREFILL_CHUNK, len(ids), self.chunk):
            logits = self.feed(ids[start : start + self.chunk], start)
            done = min(start + self.chunk, len(ids))
            if done % PROGRESS_ROWS == 0 or done == len(ids):
                yield Prefilling(done, len(ids))
        return logits

    def forward(self, block: Block) -> Tensor:
        """Logits [1, vocab] of a block of one row, which is committed by being fed."""
        if len(block) != 1:
            raise ValueError(f"this model takes one row at a time, got a block of {len(block)}")
        return self.feed(block.tokens, block.positions[0])[None]

    def commit(self, rows: Sequence[int]) -> None:
        """Nothing is left to do: feeding a row changed the state for good."""

    def forget(self) -> None:
        """Drop the state."""
        has_cache = "past_key_values" in self._accepts
        self._state = {"past_key_values": stock_cache(self._model.config)} if has_cache else {}

    @torch.inference_mode()
    def feed(self, tokens: Sequence[int], start: int) -> Tensor:
        """Logits [vocab] behind the last of these tokens; from position 0 on the state begins anew."""
        if start == 0:
            self.forget()
        device = self._model.device
        optional = {
            "position_ids": uploaded(np.arange(start, start + len(tokens))[None], device),
            "logits_to_keep": 1,
        }
        output = self._model(
            input_ids=uploaded(np.array([tokens]), device),
            use_cache=True,
            **{name: value for name, value in optional.items() if name in self._accepts},
            **self._state,
        )
        # Mamba calls its state cache_params, RWKV state, the others past_key_values.
        found = {name: output.get(name) for name in ("past_key_values", "cache_params", "state")}
        self._state = {name: value for name, value in found.items() if value is not None} or self._state
        logits: Tensor = output.logits[0, -1]
        return logits
