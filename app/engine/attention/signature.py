"""The signature of attention that all backends share, and the hook by which any transformers model calls it.

    attend(query, cache, view, scoring)     query [1, H, T, D], out [1, T, H, DV]

All layers of a pass share the view. Every layer makes a cache and a scoring in every step, so both are tuples,
which are quick to make.

transformers passes unknown keyword arguments of a model's forward method to the registered attention function, and
builds no mask for an attention name without a mask function. So the block is passed as `block=BlockView(...)`.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor
from transformers import AttentionInterface

from app.engine.attention.paths import row_paths
from app.engine.block.block import Block, Visible
from app.engine.machine.hardware import uploaded


class LayerCache(NamedTuple):
    """Keys [1, KV, n, D] and values [1, KV, n, DV]: L committed slots, then the block's T slots.

    There may be more slots after these; their contents are ignored."""

    keys: Tensor
    values: Tensor


class Scoring(NamedTuple):
    """How a layer weighs keys: by softmax of the scores. A score is `scale` times the product of query and key.

    A row sees the positions that are less than `window` before its own (0: all). With a soft cap the scores
    become `softcap` * tanh(scores / `softcap`). `sinks` [H] are further scores, one per head; the softmax includes
    them, and their weights are then dropped."""

    scale: float
    window: int = 0
    softcap: float | None = None
    sinks: Tensor | None = None

    @property
    def is_plain(self) -> bool:
        """Whether there is only a scale: no window, soft cap or sinks."""
        return not self.window and self.softcap is None and self.sinks is None


@dataclass
class BlockView:
    """Which of the keys [L + T] each row of a block [T] sees in one forward pass.

    Each mask and table is made once and shared by all layers. A recorded graph gives `paths` (see
    paths.py) and `recorded_positions` [T] as tensors; otherwise both are made from the block."""

    block: Block
    prefix_length: int
    attend: "Attend"
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    paths: Tensor | None = None
    recorded_positions: Tensor | None = None
    windows: list[int] = field(default_factory=list)  # of the layers, in the order in which they ran
    _sights: dict[int, Tensor | None] = field(default_factory=dict)
    _masks: dict[tuple[int, int, torch.dtype], Tensor | None] = field(default_factory=dict)

    @cached_property
    def positions(self) -> Tensor:
        """The positions [T] of the block's rows in the text."""
        given = self.recorded_positions
        return uploaded(np.array(self.block.positions), self.device) if given is None else given

    def sight(self, window: int) -> Tensor | None:
        """Return a mask [T, L + T], True if a row sees a key.

        With `window` 0, rows see keys at any distance, and the mask of a single row is None."""
        if window not in self._sights:
            if window:
                full, prefix = self.sight(0), torch.arange(self.prefix_length, device=self.device)
                keys = torch.cat((prefix, self.positions))
                near = self.positions[:, None] - keys[None, :] < window
                self._sights[window] = near if full is None else near & full
            elif (rows := len(self.block)) == 1:
                self._sights[window] = None
            else:
                visible = uploaded(self.visible, self.device)
                before = visible.new_ones((1, 1)).expand(rows, self.prefix_length)
                self._sights[window] = torch.cat((before, visible), dim=1)
        return self._sights[window]

    def additive(self, window: int, copies: int, dtype: torch.dtype) -> Tensor | None:
        """Return `sight` as 0 and -inf, repeated for `copies` heads: [copies * T, L + T]; or None, like `sight`."""
        kind = (window, copies, dtype)
        if kind not in self._masks:
            sight = self.sight(window)
            if sight is None:
                self._masks[kind] = None
            else:
                bias = torch.zeros(sight.shape, dtype=dtype, device=sight.device)
                self._masks[kind] = bias.masked_fill_(~sight, -torch.inf).repeat(copies, 1)
        return self._masks[kind]

    @cached_property
    def visible(self) -> Visible:
        """Which of the block's rows each row sees [T, T]."""
        return self.block.visible()

    def path_table(self) -> Tensor:
        """Return the table of the rows' keys, int32 [T, 2 + n * NEWEST]; `paths.py` describes it."""
        if self.paths is None:
            self.paths = uploaded(row_paths(self.prefix_length, self.block), self.device)
        return self.paths

    @cached_property
    def lengths(self) -> Tensor:
        """The prefix length as a tensor, int32 [1]."""
        return uploaded(np.array([self.prefix_length], dtype=np.int32), self.device)


class Attend(Protocol):
    """A backend's function that computes the attention of one layer."""

    def __call__(self, query: Tensor, cache: LayerCache, view: BlockView, scoring: Scoring) -> Tensor:
        """Attend with query [1, H, T, D]; return [1, T, H, DV], contiguous."""


NAME = "foresight"
"""The name under which this attention is registered with transformers."""

_HARMLESS = frozenset({"position_ids", "logits_to_keep"})
"""Tensors that some models pass to every layer although attention does not need them."""


def attend_layer(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    block: BlockView,
    scaling: float | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    **others: Any,
) -> tuple[Tensor, None]:
    """Attend in one layer. transformers passes query [1, H, T, D], key [1, KV, n, D] and value [1, KV, n, DV].

    Adds the layer's window to `block.windows`. Raises ValueError for tensors that this attention would
    ignore: a mask, a bias, or a selection of keys."""
    del module
    for name, given in {"attention_mask": attention_mask, **others}.items():
        if isinstance(given, Tensor) and name not in _HARMLESS:
            raise ValueError(f"attention does not support the argument {name} {tuple(given.shape)}")
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    scoring = Scoring(scale, sliding_window or 0, softcap, s_aux)
    block.windows.append(scoring.window)
    return block.attend(query, LayerCache(key, value), block, scoring), None


def register() -> None:
    """Register this attention with transformers under NAME. Further calls change nothing."""
    AttentionInterface.register(NAME, attend_layer)
