"""The state of a recurrent layer: a matrix and the newest inputs of a convolution, instead of rows in a KV cache.

A step leaves the state unchanged and makes a function that computes the state after any path of its rows; a commit
calls this function with the accepted path. So a step that was stopped or failed changes nothing, and no row needs a
state of its own. States are replaced, never written to, so a state is kept without copying it.
"""

from collections import defaultdict
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from app.engine.block.block import Block, newest_on_path
from app.engine.machine.hardware import uploaded
from app.values.messages import MAX_ROWS

StateAfter = Callable[[Tensor, int], Tensor]
"""(accepted rows of a block [n], their last row) -> the state after them; the rows are a path that begins after the
committed rows."""


class RecurrentState(NamedTuple):
    """A recurrent layer's state after some text: the newest inputs of each convolution, and the matrix."""

    inputs: tuple[Tensor, ...] = ()
    state: Tensor | None = None

    @property
    def nbytes(self) -> int:
        return sum(tensor.nbytes for tensor in (*self.inputs, self.state) if tensor is not None)


StatesByLength = dict[int, list[RecurrentState]]
"""Number of tokens -> each recurrent layer's state after that many tokens."""


class BlockInPass:
    """The block of the current pass, and tables of its rows that all recurrent layers share."""

    def __init__(self) -> None:
        self.visible: Tensor | None = None
        self._block: Block | None = None
        self.device = torch.device("cpu")
        self._newest: dict[int, Tensor] = {}

    def begin(self, block: Block, device: torch.device) -> None:
        """Set the block: a tree of at most MAX_ROWS rows, or a longer chunk of a prompt. Raises ValueError for a
        larger tree."""
        is_chunk = len(block) > MAX_ROWS
        if is_chunk and not block.is_chain:
            raise ValueError(f"recurrent layers take a tree of at most {MAX_ROWS} rows, not {len(block)}")
        self._block, self.device, self._newest = block, device, {}
        self.visible = None if is_chunk else uploaded(block.visible(), device)

    def newest(self, count: int) -> Tensor:
        """Return the indices [T, count] of each row's newest inputs. Indices below `count` - 1 are the newest
        committed inputs, the others are the block's."""
        assert self._block is not None
        if count not in self._newest:
            self._newest[count] = uploaded(newest_on_path(self._block, count) + count - 1, self.device)
        return self._newest[count]


class RecurrentLayer:
    """One layer's recurrent state after the committed rows, and the newest inputs of its convolutions.

    transformers reads the state, passes it to a function, and stores the function's result. Here the function gets
    this layer instead of the state, and returns a `StateAfter`."""

    is_sliding = False

    def __init__(self, running: BlockInPass) -> None:
        self.record_past = True  # otherwise transformers updates a single row without `update_conv_state`
        self.has_previous_state: dict[int, bool] = defaultdict(lambda: True)
        self._running = running
        # Each convolution's inputs of committed rows and of the block, and how many of them a commit keeps.
        self._newest: dict[int, tuple[Tensor, int]] = {}
        self._state_after: StateAfter | None = None
        self._inputs: dict[int, Tensor] = {}  # each convolution's newest inputs
        self.conv_states: dict[int, Any] = defaultdict(lambda: None, {0: self})
        self.recurrent_states: dict[int, Any] = {0: self}
        self.state: Tensor | None = None

    @property
    def visible(self) -> Tensor | None:
        """Which rows of the block each row sees, bool [T, T]; None for a chunk of more than MAX_ROWS rows."""
        return self._running.visible

    def lazy_initialization(self, *_args: Any, **_kwargs: Any) -> None:
        """Do nothing, because the first block gives the state its shape."""

    def update_conv_state(
        self, conv_states: Tensor, state_idx: int = 0, conv_kernel_size: int = 0, **_kwargs: Any
    ) -> Tensor:
        """Take a block's inputs [1, C, T]; return each row's newest inputs [1, C, T, kernel], its own last.

        For a chunk of more than MAX_ROWS rows, return all inputs in order [1, C, kernel - 1 + T]."""
        before = self._inputs.get(state_idx)
        if before is None:
            before = conv_states.new_zeros((*conv_states.shape[:2], conv_kernel_size - 1))
        inputs = torch.cat((before, conv_states), dim=2)
        if self.visible is None:  # a copy, so that the chunk is freed
            self._newest[state_idx] = inputs[:, :, 1 - conv_kernel_size :].clone(), conv_kernel_size - 1
            return inputs
        self._newest[state_idx] = inputs, conv_kernel_size - 1
        return inputs[:, :, self._running.newest(conv_kernel_size)]

    def update_recurrent_state(self, recurrent_states: Any, state_idx: int = 0, **_kwargs: Any) -> Any:
        """Take the `StateAfter` of the block."""
        del state_idx
        self._state_after = recurrent_states
        return recurrent_states

    def advance(self, rows: Tensor, last: int) -> None:
        """Advance the state by these rows [n] of the block, a path that ends with row `last`."""
        for name, (inputs, count) in self._newest.items():
            newest = self._running.newest(count + 1)[last, 1:] if self.visible is not None else slice(None)
            self._inputs[name] = inputs[:, :, newest]
        if self._state_after is not None:
            self.state = self._state_after(rows, last)
        self._newest, self._state_after = {}, None

    @property
    def kept(self) -> RecurrentState:
        """The state after the committed rows."""
        return RecurrentState(tuple(inputs for _, inputs in sorted(self._inputs.items())), self.state)

    def restore_state(self, kept: RecurrentState) -> None:
        """Return to this state, and forget the block."""
        self._inputs = dict(enumerate(kept.inputs))
        self.state = kept.state
        self._newest, self._state_after = {}, None
