"""Counts the kernels of recorded steps without a GPU: torch's CUDA build runs the steps with fake tensors.

    python -m tools.fake_card llama-3.1-8b qwen3-0.6b

Needs an environment with PyPI's torch for Linux (2 GB to download, 4.7 on disk), but no driver, because no kernel
runs. Our own kernels are replaced by counters, which raise an error for tensors on another device than the GPU.
Prints, for each model shape (the sizes of a model), greedy and sampled, how many kernels a step has, and what the
host reads during it.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Annotated, Any
from unittest.mock import patch

import torch
import typer
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

from app.engine.attention import NAME, register
from app.engine.attention.backend_choice import Attention
from app.engine.block.block import chain_block
from app.engine.graphs.captured_steps import EAGER_STEPS, GraphSteps
from app.engine.runner.model_config import rotary_of
from app.engine.runner.runner import BlockRunner
from app.values.messages import Sampling
from tools.gpu_report.plan import SHAPES

HOPPER = SimpleNamespace(
    major=9, minor=0, multi_processor_count=132, shared_memory_per_block_optin=232_448, total_memory=80 << 30
)
VIEWS = {
    "view", "transpose", "slice", "select", "unsqueeze", "expand", "t", "detach", "alias", "split", "permute",
    "split_with_sizes", "as_strided", "squeeze", "reshape", "unbind", "flatten", "chunk", "empty", "empty_like",
    "new_empty", "device",
}  # fmt: skip
"""Operations of torch that launch nothing."""
READS = ("item", "_local_scalar_dense", "is_nonzero", "nonzero", "equal")
CONTEXT, PROMPT = 2048, 19
SAMPLINGS = {"greedy": Sampling(), "sampled": Sampling(0.8, 20, 0.95)}
OURS = {
    "app.engine.attention.triton_backend": ("prefix_kernel", "fold_kernel", "finish_kernel"),
    "app.engine.layers.triton_kernels": ("norm_kernel", "gate_kernel", "rotary_kernel"),
    "app.engine.sampling.sampling_triton": ("scan_kernel", "choose_kernel"),
}


class Counting(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts torch's operations that launch a kernel, and those that the host waits for."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.kernels, self.reads = Counter[str](), list[str]()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = str(func).split(".")[1]
        if name in READS:
            self.reads.append(name)
        elif name not in VIEWS:
            self.kernels[name] += 1
        return func(*args, **(kwargs or {}))


class Kernel:
    """Counts the launches of one of our kernels instead of launching it."""

    def __init__(self, name: str, launches: Counter[str]) -> None:
        self._name, self._launches = name, launches

    def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., None]:
        def launch(*args: Any, **_constants: Any) -> None:
            devices = {each.device.type for each in args if isinstance(each, Tensor)}
            if devices != {"cuda"}:
                raise RuntimeError(f"{self._name} reads tensors on {', '.join(sorted(devices))}")
            self._launches[self._name] += 1

        return launch


@dataclass(frozen=True, slots=True)
class FakeCapturer:
    """Runs work that would be recorded as a CUDA graph, once, and counts its kernels; a replay does nothing."""

    launches: Counter[str]
    found: list[Counting]

    def capture(self, work: Callable[[], None]) -> SimpleNamespace:
        self.launches.clear()
        with Counting() as counting:
            work()
        self.found.append(counting)
        return SimpleNamespace(replay=lambda: None)

    def release(self) -> None:
        """Release nothing, because nothing is held."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """A recorded step: how often each kernel is launched, and what the host read meanwhile."""

    launches: Counter[str]
    reads: list[str]
    note: str


@contextmanager
def fake_card() -> Iterator[Counter[str]]:
    """Replace our kernels, functions that need a driver, and functions that read values, which fake tensors lack.
    Yields the number of launches by kernel."""
    from app.engine.layers import fusion_choice, module_replacement, products, triton_kernels
    from app.engine.machine import hardware

    launches = Counter[str]()
    replaced: list[tuple[Any, str, Any]] = [
        (
            hardware,
            "_source",
            lambda array, _device: torch.empty(array.shape, dtype=torch.from_numpy(array).dtype),
        ),
        (torch.cuda, "_lazy_init", lambda: None),
        (torch.cuda, "current_device", lambda: 0),
        (torch.cuda, "get_device_properties", lambda *_device: HOPPER),
        (torch, "equal", lambda one, other: one.shape == other.shape and one.device == other.device),
        (module_replacement, "is_close", lambda *_tensors: True),
        (module_replacement, "mismatch_share", lambda *_tensors: 0.0),
        (products, "is_close", lambda *_tensors: True),
        (fusion_choice, "compare_with_torch", lambda *_models: None),
        (triton_kernels, "_rows", lambda states: states.reshape(-1, states.shape[-1]).contiguous()),
    ]
    with ExitStack() as stack:
        for owner, name, value in replaced:
            stack.enter_context(patch.object(owner, name, value))
        for module, names in OURS.items():
            for name in names:
                stack.enter_context(patch(f"{module}.{name}", Kernel(name, launches)))
        yield launches


def fake_model(config: Any) -> PreTrainedModel:
    """Make a model on the fake GPU. Must be called inside FakeTensorMode."""
    with torch.device("meta"):
        model: PreTrainedModel = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)  # type: ignore[no-untyped-call]

    def moved(tensor: Tensor) -> Tensor:
        return torch.empty(tensor.shape, dtype=tensor.dtype, device="cuda")

    known: dict[int, nn.Parameter] = {}
    for module in model.modules():
        for name, weight in module.named_parameters(recurse=False):
            new = known.setdefault(id(weight), nn.Parameter(moved(weight), requires_grad=False))
            setattr(module, name, new)
        for name, buffer in module.named_buffers(recurse=False):
            setattr(module, name, moved(buffer))
    register()
    model.train(False).set_attn_implementation(NAME)
    return model


def recorded_step(config: Any, rows: int, sampling: Sampling) -> Recorded:
    """Record a step of a model with fused layers, and count its kernels."""
    from app.engine.attention.triton_backend import TritonAttention
    from app.engine.layers.fusion_choice import fuse_by
    from app.engine.layers.triton_kernels import TritonKernels
    from app.engine.sampling.sampling_triton import choose_on_gpu

    with fake_card() as launches, FakeTensorMode(allow_non_fake_inputs=True):
        model = fake_model(config)
        attend = TritonAttention(
            HOPPER.shared_memory_per_block_optin, 2 * HOPPER.multi_processor_count, major=9
        )
        attention = Attention("triton", attend, attend, variants=attend.variants())
        fused = fuse_by(TritonKernels(), model, attend).model
        capturer: Any = FakeCapturer(launches, [])
        steps = GraphSteps(fused, attention, capturer, CONTEXT, choose_on_gpu)
        runner = BlockRunner(fused, CONTEXT, rotary_of(config, CONTEXT), attention, steps)
        runner.sampler(sampling)
        list(runner.prefill(range(PROMPT)))
        for _ in range(EAGER_STEPS + 1):
            runner.forward(chain_block(range(rows), PROMPT, tuple(range(rows))))
        counting = capturer.found[0]
        return Recorded(launches + counting.kernels, counting.reads, steps.note)


def main(
    shapes: Annotated[
        list[str] | None, typer.Argument(help=f"Any of {', '.join(SHAPES)}; by default all.")
    ] = None,
    rows: Annotated[int, typer.Option(help="Rows of a step.")] = 64,
) -> None:
    """Print the kernels of a recorded step of each model shape."""
    for shape in shapes or SHAPES:
        settings = dict(SHAPES[shape])
        config = AutoConfig.for_model(settings.pop("model_type"), **settings)
        for name, sampling in SAMPLINGS.items():
            step = recorded_step(config, rows, sampling)
            kernels = ", ".join(f"{count} {kernel}" for kernel, count in step.launches.most_common())
            typer.echo(
                f"{shape}, {name}: {step.launches.total()} kernels ({kernels}); host reads: {step.reads}"
            )


if __name__ == "__main__":
    typer.run(main)
