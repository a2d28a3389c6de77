"""A recorder for a CPU that is as strict as a CUDA graph: what ran is replayed operation by operation.

Nothing of Python runs in a replay, so that whatever the recorded work read from the host (a length, a branch) stays
as it was. Every result goes to where it went the first time. Tensors that come from outside are not kept alive: a
replay that would read one which is gone fails, as does work that waits for the device.
"""

import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves, tree_map

from app.engine.attention.backend_choice import Attention
from app.engine.graphs.captured_steps import GraphSteps
from app.engine.runner.kv_cache import BlockCache
from app.engine.runner.model_config import rotary_of
from app.engine.runner.runner import BlockRunner
from app.engine.sampling.sampling import MOST_LIKELY, best_tokens, draw_by_keys
from app.values.messages import Sampling
from tests.engine.path_attention import BY_PATHS

Play = Callable[[], None]


@dataclass
class SimulatedGraph:
    """Recorded operations, and the tensors that they made."""

    plays: list[Play] = field(default_factory=list)
    made: dict[int, Tensor] = field(default_factory=dict)
    is_void: bool = False
    played: int = 0

    def replay(self) -> None:
        assert not self.is_void, "a released recording must not be replayed"
        self.played += 1
        for play in self.plays:
            play()

    def keep(self, results: Any) -> None:
        """Remember which tensors the work itself made."""
        self.made |= {id(result): result for result in tree_leaves(results) if isinstance(result, Tensor)}

    def held(self, arguments: Any) -> Callable[[], Any]:
        """The arguments, later: what came from outside only if it is still there."""

        def hold(value: Any) -> Any:
            is_outside = isinstance(value, Tensor) and id(value) not in self.made
            return weakref.ref(value) if is_outside else value

        kept = tree_map(hold, arguments)
        return lambda: tree_map(_alive, kept)


def _alive(value: Any) -> Any:
    if not isinstance(value, weakref.ref):
        return value
    tensor = value()
    assert tensor is not None, "a replay would read a tensor that is gone"
    return tensor


class Waits(TorchDispatchMode):
    """Refuses what would wait for a device: results that the host reads, and shapes that depend on numbers."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if _waits(func, args):
            raise RuntimeError(f"{func} waits for the device")
        return func(*args, **(kwargs or {}))


READ = ("aten.item.", "aten.is_nonzero.", "aten.equal.", "aten.allclose.", "aten.nonzero_numpy.")
"""In inference mode these come whole; elsewhere they are made of operations that have a tag."""


def _waits(func: Any, args: Any) -> bool:
    if str(func).startswith(READ):
        return True
    if str(func).startswith(("aten.index.", "aten.index_put")):  # only a mask has to be counted first
        return any(index is not None and index.dtype in (torch.bool, torch.uint8) for index in args[1])
    return bool({torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape} & set(func.tags))


class Taping(Waits):
    """Puts every operation on a tape while it runs."""

    def __init__(self, tape: SimulatedGraph) -> None:
        super().__init__()
        self.tape = tape

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = self.tape.held((args, kwargs or {}))
        results = super().__torch_dispatch__(func, types, args, kwargs)
        if func._schema.is_mutable:
            self.tape.plays.append(lambda: _run(func, given))
            return results
        is_view = _storages(results) & _storages((args, kwargs))  # reshape may be one, and may be a copy
        if not is_view and "empty" not in str(func):
            self.tape.plays.append(lambda: _copy(results, _run(func, given)))
        self.tape.keep(results)
        return results


def _storages(values: Any) -> set[int]:
    tensors = [value for value in tree_leaves(values) if isinstance(value, Tensor) and not value.is_mkldnn]
    return {tensor.untyped_storage().data_ptr() for tensor in tensors if tensor.numel()}


def _run(func: Any, given: Callable[[], Any]) -> Any:
    args, kwargs = given()
    return func(*args, **kwargs)


def _copy(targets: Any, results: Any) -> None:
    for target, result in zip(tree_leaves(targets), tree_leaves(results), strict=True):
        if isinstance(target, Tensor) and target.data_ptr() != result.data_ptr():
            target.copy_(result)


class SimulatedCapturer:
    """Records tapes. `faults` are raised by the next recordings, one each."""

    def __init__(self, *faults: Exception) -> None:
        self.faults = list(faults)
        self.tapes: list[SimulatedGraph] = []

    def capture(self, work: Callable[[], None]) -> SimulatedGraph:
        with Waits():
            work()
        tape = SimulatedGraph()
        with Taping(tape):
            work()
            if self.faults:
                raise self.faults.pop(0)
        self.tapes.append(tape)
        return tape

    def release(self) -> None:
        for tape in self.tapes:
            tape.is_void = True
            tape.plays.clear()
            tape.made.clear()

    @property
    def replays(self) -> int:
        """How many steps came from a tape."""
        return sum(tape.played for tape in self.tapes)


def opaque(work: Callable[[], None], made: Tensor, *inputs: Tensor) -> None:
    """Do work that torch sees nothing of, such as kernels of our own; a tape takes it as one piece."""
    modes = torch.utils._python_dispatch._get_current_dispatch_mode_stack()
    tapes = [mode.tape for mode in modes if isinstance(mode, Taping)]
    with _disable_current_modes():
        work()
    for tape in tapes:
        tape.keep((made, inputs))
        tape.plays.append(work)


def choose_by_torch(logits: Tensor, keys: Tensor, settings: Tensor, out: Tensor) -> None:
    """What our kernels find and draw, by torch's operations."""

    def work() -> None:
        temperature, top_p, min_p, top_k = settings.tolist()
        found = best_tokens(logits, MOST_LIKELY)
        drawn = found[:, -1]
        if temperature:
            drawn = draw_by_keys(logits, keys, Sampling(temperature, int(top_k), top_p, min_p)).float()
        out.copy_(torch.cat((found, drawn[:, None]), dim=1))

    opaque(work, out, logits, keys, settings)


def recorded(
    eager: BlockRunner,
    capturer: SimulatedCapturer,
    attention: Attention = BY_PATHS,
    cache: BlockCache | None = None,
) -> tuple[BlockRunner, GraphSteps]:
    """A runner of the same model whose steps are recorded."""
    steps = GraphSteps(eager.model, attention, capturer, eager.context, choose_by_torch)
    rotary = rotary_of(eager.model.config.get_text_config(decoder=True), eager.context)
    return BlockRunner(eager.model, eager.context, rotary, attention, steps, cache), steps
