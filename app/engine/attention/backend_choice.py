"""Chooses the backend of a model's attention on this machine.

    choice   backend
    auto     triton if it passes a trial and is not much slower than sdpa, else sdpa; on a CPU native, else sdpa
    triton   our own Triton kernels; on a CPU only in triton's interpreter, for tests
    flash    the flash-attn package, in half precision, with triton or else sdpa for unsupported cases. "auto" never
             chooses it, because its steps cannot be recorded as graphs
    native   our own C kernel for CPUs, in float32, if it could be compiled
    sdpa     torch's own kernel

Backends are tried because triton needs a C compiler on the machine, a head may be too large for a GPU, and each
variant of a kernel (for other numbers of rows or keys) may fail separately.
"""

from ctypes import CDLL
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib.util import find_spec
from math import inf

import torch
from torch import Tensor

from app.engine.attention import sdpa
from app.engine.attention.native import NativeAttention
from app.engine.attention.signature import Attend, BlockView, LayerCache, Scoring
from app.engine.block.block import chain_block
from app.engine.machine.device_faults import refused_because
from app.engine.machine.hardware import is_close
from app.engine.machine.kernel_timing import Timer, gpu_seconds, slowness, step_seconds
from app.errors import AttentionUnavailable
from app.values.display_text import counted
from app.values.messages import AttentionChoice, AttentionName

AMPERE = (8, 0)
"""The lowest compute capability of GPUs that multiply bfloat16."""

LARGEST_HEAD = 256

Trials = tuple[tuple[int, int], ...]
"""For each trial, the number of rows of its block and the number of tokens before the block."""

TRIALS: Trials = ((1, 4096), (3, 64), (33, 4096), (128, 4096))
"""Trials that together run all variants of the kernels."""

INTERPRETED: Trials = ((3, 64),)
"""A single small trial for triton's interpreter, which is slow and used only by tests."""

TIMED: Trials = ((1, 4096), (33, 4096))
"""Trials that are timed: a plain step, and one with lookahead."""

_SHARED_MEMORY = 48 << 10
"""Bytes of shared memory that every device has for one program."""


@dataclass(frozen=True, slots=True)
class Attention:
    """A backend. With `batch_invariant`, a row's results in half precision do not depend on the other rows.

    `batch_invariant` is used only if a step in a long chat takes less than `same_text_limit` times as long as with
    `attend`. The limit is 0 if there is no such attention, for example on an Apple GPU, which has no float64."""

    name: AttentionName
    attend: Attend
    batch_invariant: Attend
    note: str = ""  # why the best backend on this machine is not used
    same_text_limit: float = inf
    variants: tuple[Attend, ...] = ()  # together they run every kernel that `attend` may need


SDPA = Attention("sdpa", sdpa.attend, sdpa.attend_batch_invariant)

GPU_LIMIT = 1.1
"""The `same_text_limit` of sdpa on GPUs. It is low, because GPUs have few float64 units."""


@dataclass(frozen=True, slots=True)
class DeviceCapabilities:
    """What the choice of a backend depends on: the device, the installed packages, and the trials to run."""

    device: torch.device
    capability: tuple[int, int] = (0, 0)
    shared_memory: int = _SHARED_MEMORY
    multiprocessors: int = 0  # 0 if not known
    has_triton: bool = False
    has_flash: bool = False
    is_rocm: bool = False
    trials: Trials = TRIALS
    cpu_kernels: CDLL | None = None  # None unless a model on a CPU may use them


@dataclass(frozen=True, slots=True)
class HeadShape:
    """A model's heads: `count` query heads over `shared` key heads, each of `size` values of type `dtype`.

    `windows` has each window size of the layers once (0: no window); all layers have this `softcap`."""

    count: int
    shared: int
    size: int
    dtype: torch.dtype
    windows: tuple[int, ...] = (0,)
    softcap: float | None = None


def capabilities_of(device: torch.device) -> DeviceCapabilities:
    """Find out what this device and the installed packages can do, without importing the packages."""
    has_triton = find_spec("triton") is not None
    if device.type != "cuda" or torch.version.cuda is None:
        has_interpreter = has_triton and device.type == "cpu"
        is_rocm = device.type == "cuda"
        return DeviceCapabilities(device, has_triton=has_interpreter, is_rocm=is_rocm, trials=INTERPRETED)
    properties = torch.cuda.get_device_properties(device)
    return DeviceCapabilities(
        device,
        (properties.major, properties.minor),
        getattr(properties, "shared_memory_per_block_optin", _SHARED_MEMORY),
        properties.multi_processor_count,
        has_triton,
        find_spec("flash_attn") is not None,
    )


def choose_attention(choice: AttentionChoice, machine: DeviceCapabilities, heads: HeadShape) -> Attention:
    """Return the chosen backend (auto: the best one). Raises AttentionUnavailable if it cannot be used."""
    if choice == "sdpa":
        return torchs_own(machine)
    if choice != "auto":
        found = _try_backend(choice, machine, heads)
        if isinstance(found, str):
            raise AttentionUnavailable(choice, found)
        return found
    if machine.device.type == "cuda":
        found = _try_backend("triton", machine, heads)
        if isinstance(found, Attention):
            found = slowness_of_triton(machine, heads) or found
        return found if isinstance(found, Attention) else torchs_own(machine, f"triton: {found}")
    # On a CPU a refusal needs no note, because torch's attention is the usual one there.
    if machine.device.type != "cpu" or refusal("native", machine, heads):
        return torchs_own(machine)
    found = _try_backend("native", machine, heads)
    return torchs_own(machine, f"native: {found}") if isinstance(found, str) else found


def torchs_own(machine: DeviceCapabilities, note: str = "") -> Attention:
    """Return the sdpa backend with the `same_text_limit` of this machine, and a note."""
    if machine.device.type == "cpu":
        return replace(SDPA, note=note) if note else SDPA
    if machine.device.type == "cuda":
        return replace(SDPA, note=note, same_text_limit=GPU_LIMIT)
    return replace(SDPA, batch_invariant=sdpa.attend, note=note, same_text_limit=0)


def refusal(name: AttentionName, machine: DeviceCapabilities, heads: HeadShape) -> str:
    """Return why this backend cannot be used on this machine; "" if nothing is known against it."""
    if name == "native":
        return _refusal_of_native(machine, heads)
    if machine.is_rocm:
        return "it was never tried on AMD's GPUs"
    if not (machine.has_triton if name == "triton" else machine.has_flash):
        return "it is not installed for this device"
    if heads.size > LARGEST_HEAD:
        return f"the model's heads have {heads.size} values, and it takes at most {LARGEST_HEAD}"
    if machine.device.type == "cpu":
        from app.engine.attention.kernels import is_interpreted

        return "" if is_interpreted() else "it needs a CUDA device"
    if machine.capability < AMPERE:
        return "it needs a GPU of the Ampere generation or newer"
    if name == "flash" and (heads.dtype.itemsize != 2 or heads.size % 8):
        return "it needs bfloat16 or float16, and heads whose size is a multiple of 8"
    return ""


def _refusal_of_native(machine: DeviceCapabilities, heads: HeadShape) -> str:
    if machine.device.type != "cpu":
        return "it is for CPUs"
    if machine.cpu_kernels is None:
        return "it needs Linux and a C compiler (cc, gcc or clang)"
    if heads.dtype != torch.float32 or heads.size % 8:
        return "it needs float32, and heads whose size is a multiple of 8"
    return ""


@cache
@torch.inference_mode()
def slowness_of_triton(
    machine: DeviceCapabilities,
    heads: HeadShape,
    ours: Timer = gpu_seconds,
    torchs: Timer = step_seconds,
    trials: Trials = TIMED,
) -> str:
    """Time a layer with triton and with sdpa; return why triton is not used, or "". Caches the answer."""
    attend = _make("triton", machine, heads).attend
    scoring = Scoring(heads.size**-0.5, heads.windows[0], heads.softcap)
    for rows, prefix in trials:
        given = (*_random_layer(heads, rows, prefix, attend, machine.device), scoring)
        if reason := slowness(ours(partial(attend, *given)), torchs(partial(sdpa.attend, *given))):
            return f"{reason} for {counted(rows, 'row')} after {prefix:,} tokens"
    return ""


def _try_backend(name: AttentionName, machine: DeviceCapabilities, heads: HeadShape) -> Attention | str:
    """Make the backend and run its trials; return the backend, or why it is refused or its trial failed."""
    if reason := refusal(name, machine, heads):
        return reason
    try:
        attention = _make(name, machine, heads)
        for attend in attention.variants or (attention.attend,):
            try_attention(attend, machine.device, heads, machine.trials)
    except Exception as error:  # compilers, drivers and broken packages raise errors of their own types
        return f"its trial failed ({refused_because(error)})"
    return attention


def _make(name: AttentionName, machine: DeviceCapabilities, heads: HeadShape) -> Attention:
    if name == "triton":
        from app.engine.attention.triton_backend import BUSY, TritonAttention, on_device

        busy = 2 * machine.multiprocessors or BUSY  # two programs per multiprocessor: one computes, one reads
        fused = TritonAttention(machine.shared_memory, busy, major=machine.capability[0])
        attend, *variants = (on_device(each, machine.device) for each in (fused, *fused.variants()))
        return Attention(name, attend, attend, variants=tuple(variants))
    if name == "flash":
        from app.engine.attention.flash import FlashAttention, flash_over_cache

        other = torchs_own(machine) if refusal("triton", machine, heads) else _make("triton", machine, heads)
        flash = FlashAttention(flash_over_cache(), other.attend)
        return Attention(
            name, flash, other.batch_invariant, "", other.same_text_limit, (flash, *other.variants)
        )
    assert machine.cpu_kernels is not None, "native attention is refused without a compiler"
    attend, exact = (
        NativeAttention(machine.cpu_kernels, each) for each in (SDPA.attend, SDPA.batch_invariant)
    )
    return Attention(name, attend, exact)


@torch.inference_mode()
def try_attention(attend: Attend, device: torch.device, heads: HeadShape, trials: Trials) -> None:
    """Run the trials. Raises ArithmeticError if values differ from sdpa's in float32, and errors of the backend."""
    for rows, prefix in trials:
        query, cache, view = _random_layer(heads, rows, prefix, attend, device)
        wide = LayerCache(cache.keys.float(), cache.values.float())
        for window in heads.windows:
            scoring = Scoring(heads.size**-0.5, window, heads.softcap)
            found = attend(query, cache, view, scoring)
            if not is_close(found, sdpa.attend(query.float(), wide, view, scoring)):
                raise ArithmeticError(f"wrong values for {counted(rows, 'row')} after {prefix:,} tokens")


def _random_layer(
    heads: HeadShape, rows: int, prefix: int, attend: Attend, device: torch.device
) -> tuple[Tensor, LayerCache, BlockView]:
    """Make a chain of rows after a prefix, and random queries, keys and values, which are equal in each call."""
    source = torch.Generator(device).manual_seed(0)
    shapes = ((heads.count, rows), *((heads.shared, prefix + rows),) * 2)
    query, *cached = (
        torch.randn((1, *shape, heads.size), generator=source, device=device).to(heads.dtype)
        for shape in shapes
    )
    view = BlockView(chain_block((0,) * rows, prefix, ()), prefix, attend, device)
    return query, LayerCache(*cached), view
