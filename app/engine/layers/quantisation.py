"""Quantises a model's weights while they are moved to the device: each Linear's weight becomes integers.

Each slice of a weight is moved to the device and quantised there. After its last slice, the dense weight is freed.
So a GPU never has more than a slice of these dense weights. Norms and stacked experts are not quantised."""

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from importlib.util import find_spec
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn
from transformers import PreTrainedModel

from app.engine.cpu_kernels import compiled_kernels, cpu_kernels
from app.engine.layers.int8_linear_cpu import NativeInt8Linear
from app.engine.layers.packed_layers import PackedInt4Linear, PackedInt8Linear
from app.engine.layers.quantised_layers import (
    FIRST_ROWS,
    CpuInt4Linear,
    CpuInt8Linear,
    CudaInt4Linear,
    QuantisedEmbedding,
    QuantisedLinear,
    QuantisedWeight,
    TiledInt4Linear,
    TiledInt8Linear,
    stands_for,
)
from app.engine.layers.recurrent_layers import calls_its_linears
from app.engine.machine.compiling import Compiled
from app.engine.machine.device_faults import fault_found, refused_because
from app.engine.machine.hardware import choose_dtype, dtype_name, is_close
from app.engine.machine.huge_pages import HugePages
from app.engine.machine.kernel_timing import Timer, gpu_seconds, slowness
from app.errors import BadOption
from app.system.machine import multiplies_int8_fast
from app.values.messages import ModelChoice
from app.values.quantisation_sizes import Quantisation, automatic, bits_of, group_of

log = logging.getLogger(__name__)

SLICE = 2**20
"""About how many weights are quantised at a time. They are read several times, so they must fit the cache."""

Kernel = type[QuantisedLinear]

FASTEST: Mapping[tuple[str, torch.dtype, int], Kernel] = {
    ("cpu", torch.bfloat16, 8): CpuInt8Linear,
    ("cpu", torch.bfloat16, 4): CpuInt4Linear,
    ("cuda", torch.bfloat16, 4): CudaInt4Linear,
}
BITS: Mapping[Quantisation, int] = {"int8": 8, "int4": 4}
ANYWHERE: Mapping[int, Kernel] = {8: TiledInt8Linear, 4: TiledInt4Linear}
CPU = torch.device("cpu")


class StoredParameter(nn.Parameter):
    """A weight that takes no memory: its numbers are read from a file when it is quantised."""

    read: Callable[[], Tensor]


class FoundKernel(NamedTuple):
    """The class of layers to use. `reason` says why this class has no kernel that reads integers, or is ""."""

    kernel: Kernel
    reason: str = ""


FindKernel = Callable[[int, torch.dtype, torch.device], FoundKernel]
"""(bits, type, device) -> the class of layers."""

TRIED_ROWS = (3, 12, 20, 33, 128)
"""Row counts that a kernel is tried with. Kernels compute few and many rows differently."""

TRIED_SHAPE = (64, 256)
TIMED_WEIGHTS = 2**26
"""Maximum number of weights of a product that is timed."""
ALIGNED = 16
"""Kernels may be compiled in other variants for lengths that are not multiples of this."""


def settled(choice: ModelChoice, model: PreTrainedModel, device: torch.device) -> tuple[Quantisation, str]:
    """Return the quantisation to use and, for "auto", a note or "". The model may be on the meta device."""
    if choice.quantisation != "auto":
        return choice.quantisation, ""
    may_be_fast = choice.dtype == "auto" and device.type == "cpu"
    kernels = compiled_kernels() if may_be_fast else Compiled(None)
    is_fast = kernels.library is not None and multiplies_int8_fast()
    linears: Any = [parent.get_submodule(name) for parent, name, _, _ in _linears(model, "int8")]
    weights = [one.weight for one in linears]
    weights += [model.get_input_embeddings().weight] if weights else []
    count = sum(one.numel() for one in {id(one): one for one in weights}.values())
    parameters = model.num_parameters()
    quantisation, reason = automatic(parameters, count / max(parameters, 1), is_fast)
    return quantisation, reason or kernels.note


def suiting_dtype(choice: ModelChoice, device: torch.device) -> torch.dtype:
    """Return the chosen precision; for "auto", the precision that suits the machine and the quantisation."""
    # On a CPU our int8 kernel, which takes float32, is three times as fast as the kernel for bfloat16.
    if choice.dtype == "auto" and choice.quantisation == "int8" and device.type == "cpu" and cpu_kernels():
        return torch.float32
    return choose_dtype(choice.dtype, device)


def check_can_quantise(
    quantisation: Quantisation,
    dtype: torch.dtype = torch.float32,
    device: torch.device = CPU,
    find: FindKernel | None = None,
) -> None:
    """Raise BadOption if a GPU has no kernel for quantised weights of this type.

    Without a kernel the weights would be dequantised in every step, which is slower than not quantising them."""
    if quantisation == "none":
        return
    bits = BITS[quantisation]
    reason = (find or find_kernel)(bits, dtype, device).reason if device.type != "cpu" else ""
    if reason:
        raise _no_kernel(bits, dtype, reason)


def _no_kernel(bits: int, dtype: torch.dtype, reason: str) -> BadOption:
    return BadOption(
        f"This device has no kernel for int{bits} weights in {dtype_name(dtype)} ({reason}): "
        "choose another quantisation, or --device cpu."
    )


@torch.inference_mode()
def quantise(
    model: PreTrainedModel,
    quantisation: Quantisation,
    device: torch.device,
    find: FindKernel | None = None,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
    timer: Timer = gpu_seconds,
) -> int:
    """Replace the model's layers by quantised layers on the device; return how many weights were quantised.

    `progress` is called before each layer, with the numbers of finished layers and of all layers to quantise.

    Raises BadOption if no layer can be quantised, or if a GPU's kernel fails with a layer's shape or is clearly
    slower than torch's with dense weights."""
    if quantisation == "none":
        return 0
    before = model.num_parameters()
    kernels = _TriedKernels(quantisation, model.dtype, device, find or find_kernel)
    linears = list(_linears(model, quantisation))
    if device.type == "cuda":
        kernels.check_time(linears, timer)
    table = _quantise_embedding(model, device) if linears else None
    # Each layer is moved once it is made, so that no second copy of the model is in memory.
    move = HugePages().move if device.type == "cpu" else list
    for done, (parent, name, bits, is_tied) in enumerate(linears):
        progress(done, len(linears))
        linear: Any = parent.get_submodule(name)
        if is_tied and not table:
            continue
        numbers = table.numbers if is_tied and table else quantised(values_of(linear.weight), bits, device)
        bias = linear.bias
        if bias is not None:  # stays a parameter, because it is not quantised
            bias = nn.Parameter(bias.to(numbers.values.device), requires_grad=False)
        made = kernels.fitting(bits, linear)(numbers, bias, linear.weight.dtype)
        setattr(parent, name, made)
        moved: list[nn.Module] = [made]
        if is_tied and table:
            moved.append(embedding := made.tied(table))
            model.set_input_embeddings(embedding)
            table = None
        move(moved)
    if not linears:
        raise BadOption(
            f"The layers of this model cannot be quantised to {quantisation} (it is recurrent or hybrid): "
            "choose the quantisation none."
        )
    if table:
        move([table])
    _read_rest(model)
    return before - model.num_parameters()


def _linears(
    model: PreTrainedModel, quantisation: Quantisation
) -> Iterator[tuple[nn.Module, str, int, bool]]:
    """Yield each Linear to quantise: its parent, name and bits, and whether its weight is the embedding's."""
    if not calls_its_linears(model):
        return
    head: Any = model.get_output_embeddings()  # type: ignore[no-untyped-call]
    embedding = model.get_input_embeddings()
    for parent in model.modules():
        for name, child in parent.named_children():
            if type(child) is nn.Linear:
                bits = bits_of(quantisation, child.in_features, is_table=child is head)
                yield parent, name, bits, child.weight is embedding.weight


def _read_rest(model: nn.Module) -> None:
    """Read the weights that are not quantised although they could be, such as an embedding that is more than a
    table."""
    stored = [weight for weight in model.parameters() if isinstance(weight, StoredParameter)]
    replace_parameters(
        model, {one: nn.Parameter(values_of(one).to(one.dtype), requires_grad=False) for one in stored}
    )


def replace_parameters(model: nn.Module, others: Mapping[nn.Parameter, nn.Parameter]) -> None:
    """Replace parameters by `others`. Tied parameters stay tied."""
    for module in model.modules():
        for name, parameter in list(module.named_parameters(recurse=False)):
            if parameter in others:
                setattr(module, name, others[parameter])


def values_of(weight: Tensor) -> Tensor:
    """Return the numbers of a weight, in the type in which they are stored."""
    return weight.read() if isinstance(weight, StoredParameter) else weight.detach()


def _quantise_embedding(model: PreTrainedModel, device: torch.device) -> QuantisedEmbedding | None:
    """Replace the embedding by a table of 8 bits, and return the table; None if it cannot replace the embedding."""
    embedding: Any = model.get_input_embeddings()
    weight = values_of(embedding.weight)
    numbers = quantised(weight, 8, device)
    factor = getattr(embedding, "embed_scale", 1.0)  # a factor, as in Gemma
    table = QuantisedEmbedding(numbers, embedding.weight.dtype, factor)
    if not stands_for(table, embedding, weight[:FIRST_ROWS]):
        return None
    model.set_input_embeddings(table)
    return table


def quantised(weight: Tensor, bits: int, device: torch.device) -> QuantisedWeight:
    """Quantise a weight [out, in] on the device: to 8 bits with zero 0, or to 4 bits between a group's extremes."""
    size, low, high = weight.shape[1], -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    rows, groups = max(1, SLICE // size), size // group_of(bits, size)
    values = torch.empty(weight.shape, dtype=torch.int8, device=device)
    scale, zero = torch.empty((2, len(weight), groups), device=device)
    for start in range(0, len(weight), rows):
        part = slice(start, start + rows)
        dense = weight[part].to(device).float().reshape(-1, groups, size // groups)
        least, most = dense.amin(-1).clamp(max=0), dense.amax(-1).clamp(min=0)
        if bits == 8:
            most = torch.maximum(-least, most)
            least = -most
        step = ((most - least) / (high - low)).clamp(min=torch.finfo(torch.float32).smallest_normal)
        middle = torch.zeros_like(step) if bits == 8 else (low - (least / step).round()).clamp(low, high)
        numbers = ((dense * (1 / step)[..., None]).round() + middle[..., None]).clamp(low, high)
        values[part], scale[part], zero[part] = numbers.flatten(1), step, middle
    return QuantisedWeight(values, scale, zero)


class _TriedKernels:
    """Chooses the class of layers for each Linear of a model, after a trial with the Linear's row length.

    A kernel is compiled anew for some lengths; the trial does this at load instead of in a step."""

    def __init__(
        self, quantisation: Quantisation, dtype: torch.dtype, device: torch.device, find: FindKernel
    ) -> None:
        self._asked = BITS[quantisation]
        self._kernels = {bits: find(bits, dtype, device).kernel for bits in ANYWHERE}
        self._dtype, self._device = dtype, device
        self._tried = {(bits, *TRIED_SHAPE): kernel for bits, kernel in self._kernels.items()}

    def fitting(self, bits: int, linear: nn.Linear) -> Kernel:
        """Choose the class for this weight. Raises BadOption if a GPU's kernel for the chosen bits fails."""
        kernel, size = self._kernels[bits], linear.in_features
        if kernel is ANYWHERE[bits] or not kernel.fits(linear.out_features, size):
            return ANYWHERE[bits]
        shape = bits, TRIED_SHAPE[0] + linear.out_features % ALIGNED, size
        if shape not in self._tried:
            reason = fault_found(partial(fault_of, kernel, self._dtype, self._device, shape[1:]))
            if reason and self._device.type != "cpu" and bits == self._asked:
                raise _no_kernel(bits, self._dtype, reason)
            self._tried[shape] = ANYWHERE[bits] if reason else kernel
        return self._tried[shape]

    def check_time(self, linears: Sequence[tuple[nn.Module, str, int, bool]], timer: Timer) -> None:
        """Raise BadOption if a plain step's products are clearly slower than torch's with dense weights."""
        kernel = self._kernels[self._asked]
        if kernel is ANYWHERE[self._asked]:
            return
        layers: list[Any] = [
            parent.get_submodule(name) for parent, name, bits, _ in linears if bits == self._asked
        ]
        shapes = Counter((layer.out_features, layer.in_features) for layer in layers)
        times: Any = _seconds_of  # mypy takes a class for a key that cannot be hashed
        seconds = [
            [count * each for each in times(kernel, self._dtype, self._device, shape, timer)]
            for shape, count in shapes.items()
            if kernel.fits(*shape)
        ]
        ours, torchs = (sum(each) for each in zip(*seconds, strict=True)) if seconds else (0.0, 0.0)
        if reason := slowness(ours, torchs, other="torch's with dense weights"):
            raise _no_kernel(self._asked, self._dtype, reason)


@cache
@torch.inference_mode()
def _seconds_of(
    kernel: Kernel, dtype: torch.dtype, device: torch.device, shape: tuple[int, int], timer: Timer
) -> tuple[float, float]:
    """Return the seconds of a product of one row with a weight of this shape, by the kernel and by torch."""
    outs, size = min(shape[0], max(1, TIMED_WEIGHTS // shape[1])), shape[1]
    dense = torch.zeros((outs, size), dtype=dtype, device=device)
    layer, states = kernel(quantised(dense, kernel.bits, device), None, dtype), dense[:1]
    ours, torchs = (timer(partial(each, states)) for each in (layer, partial(F.linear, weight=dense)))
    return ours * shape[0] / outs, torchs * shape[0] / outs


def find_kernel(bits: int, dtype: torch.dtype, device: torch.device) -> FoundKernel:
    """Try the fastest class of layers on a small layer; if it fails, return the class that dequantises tiles."""
    try:
        kernel = _fastest(bits, dtype, device)
        reason = fault_of(kernel, dtype, device) if kernel else f"there is none for {dtype_name(dtype)}"
    except Exception as error:  # packages, compilers and drivers raise errors of their own types
        kernel, reason = None, refused_because(error)
        log.info("%s bits have no kernel here: %s", bits, error)
    return FoundKernel(kernel) if kernel and not reason else FoundKernel(ANYWHERE[bits], reason)


def _fastest(bits: int, dtype: torch.dtype, device: torch.device) -> Kernel | None:
    """Return the kernel for device, type and bits, if any. Raises BadOption for 8 bits on a GPU without Triton."""
    if (device.type, dtype, bits) == ("cpu", torch.float32, 8) and cpu_kernels():
        return NativeInt8Linear
    if device.type == "cuda" and find_spec("triton") is not None:
        return PackedInt8Linear if bits == 8 else PackedInt4Linear
    if (device.type, bits) == ("cuda", 8):
        raise BadOption("it needs Triton, which is not installed for this device")
    return FASTEST.get((device.type, dtype, bits))


@torch.inference_mode()
def fault_of(
    kernel: Kernel, dtype: torch.dtype, device: torch.device, shape: tuple[int, int] = TRIED_SHAPE
) -> str:
    """Try a kernel on a layer of this shape; return a reason if its products are wrong, else ""."""
    source = torch.Generator(device).manual_seed(0)
    numbers = quantised(torch.randn(shape, generator=source, device=device), kernel.bits, device)
    layer, dense = kernel(numbers, None, dtype), numbers.dense().t()
    for rows in TRIED_ROWS:
        states = torch.randn((rows, shape[1]), generator=source, device=device)
        if not is_close(layer(states.to(dtype)), states @ dense):
            return f"its products of {rows} rows of {shape[1]:,} values are wrong"
    return ""
