"""Which backend a model's attention gets on this machine.

    choice   backend
    auto     the first of triton, flash and sdpa that can be used and that passes a trial; on a CPU native or sdpa
    triton   triton; on a CPU only in triton's interpreter, for tests
    flash    flash over the prefix, in half precision; what it cannot do goes to the best other one
    native   our own kernels for CPUs, in float32, if a C compiler made them
    sdpa     sdpa

The trial is blocks of few and of many rows after short and long prefixes, compared with sdpa in float32: triton
needs a C compiler on the machine, a head may be too large for a card, and another number of rows or keys is another
variant of a kernel. What a person asks for by name is used, or refused with a sentence.
"""

from ctypes import CDLL
from dataclasses import dataclass, replace
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
from app.errors import AttentionUnavailable
from app.values.messages import AttentionChoice, AttentionName

AMPERE = (8, 0)
"""The oldest compute capability that multiplies bfloat16."""

LARGEST_HEAD = 256

Trials = tuple[tuple[int, int], ...]
"""Rows of a trial's block, and tokens before it."""

TRIALS: Trials = ((1, 4096), (3, 64), (33, 4096), (128, 4096))
"""All variants of the kernels."""

INTERPRETED: Trials = ((3, 64),)
"""What triton's interpreter, which is for tests, has time for."""

_SHARED_MEMORY = 48 << 10
"""Bytes that every device has for one program."""


@dataclass(frozen=True, slots=True)
class Attention:
    """A backend. `batch_invariant` attends so that a row's bits do not depend on what else is computed with it.

    `same_text_limit` is how many times as long a step may take with that in a long chat; else it is not used. 0
    means that there is none: an Apple GPU has no float64."""

    name: AttentionName
    attend: Attend
    batch_invariant: Attend
    note: str = ""  # why the best backend on this machine is not used
    same_text_limit: float = inf
    variants: tuple[Attend, ...] = ()  # together they need every kernel that `attend` may come to need


SDPA = Attention("sdpa", sdpa.attend, sdpa.attend_batch_invariant)

CARD_LIMIT = 1.1
"""Cards have few units for float64, and its cost grows with the context: a measurement decides about it."""


@dataclass(frozen=True, slots=True)
class DeviceCapabilities:
    """What decides about backends: the device, the installed packages, and how backends are tried."""

    device: torch.device
    capability: tuple[int, int] = (0, 0)
    shared_memory: int = _SHARED_MEMORY
    multiprocessors: int = 0  # 0: not known
    has_triton: bool = False
    has_flash: bool = False
    is_rocm: bool = False
    trials: Trials = TRIALS
    cpu_kernels: CDLL | None = None  # for a model on a CPU that wants them: compiling them takes seconds


@dataclass(frozen=True, slots=True)
class HeadShape:
    """A model's attention: H query heads of this size over KV key heads, in this type.

    `windows` are those of its layers, each once; `softcap` is theirs."""

    count: int
    shared: int
    size: int
    dtype: torch.dtype
    windows: tuple[int, ...] = (0,)
    softcap: float | None = None


def capabilities_of(device: torch.device) -> DeviceCapabilities:
    """The facts about this device. Packages are looked for, not imported."""
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
    """The backend chosen by name, or the best one; raises AttentionUnavailable for one that cannot be used."""
    if choice == "auto":
        if machine.device.type == "cpu":
            if refusal("native", machine, heads):  # triton's interpreter is for tests
                return SDPA
            native = _tried("native", machine, heads)
            return native if isinstance(native, Attention) else torchs_own(machine, f"native: {native}")
        return _first_good(machine, heads) if machine.device.type == "cuda" else torchs_own(machine)
    if choice == "sdpa":
        return torchs_own(machine)
    found = refusal(choice, machine, heads) or _tried(choice, machine, heads)
    if isinstance(found, str):
        raise AttentionUnavailable(choice, found)
    return found


def torchs_own(machine: DeviceCapabilities, note: str = "") -> Attention:
    """sdpa on this machine."""
    if machine.device.type == "cpu":
        return replace(SDPA, note=note) if note else SDPA
    if machine.device.type == "cuda":
        return replace(SDPA, note=note, same_text_limit=CARD_LIMIT)
    return replace(SDPA, batch_invariant=sdpa.attend, note=note, same_text_limit=0)


def refusal(name: AttentionName, machine: DeviceCapabilities, heads: HeadShape) -> str:
    """Why this backend cannot be used here; "" when it can."""
    if name == "sdpa":
        return ""
    if name == "native":
        return _refusal_of_native(machine, heads)
    if machine.is_rocm:
        return "it was never tried on AMD's cards"
    if not (machine.has_triton if name == "triton" else machine.has_flash):
        return "it is not installed for this device"
    if heads.size > LARGEST_HEAD:
        return f"the model's heads have {heads.size} values, and it takes at most {LARGEST_HEAD}"
    return _refusal_of_device(name, machine, heads)


def _refusal_of_device(name: AttentionName, machine: DeviceCapabilities, heads: HeadShape) -> str:
    if machine.device.type == "cpu":
        from app.engine.attention.kernels import is_interpreted

        return "" if is_interpreted() else "it needs a CUDA device"
    if machine.capability < AMPERE:
        return "it needs a card of the Ampere generation or newer"
    if name == "flash" and (heads.dtype.itemsize != 2 or heads.size % 8):
        return "it needs bfloat16 or float16, and heads of a multiple of 8 values"
    return ""


def _refusal_of_native(machine: DeviceCapabilities, heads: HeadShape) -> str:
    if machine.device.type != "cpu":
        return "it is for CPUs"
    if machine.cpu_kernels is None:
        return "it needs Linux and a C compiler (cc, gcc or clang)"
    if heads.dtype != torch.float32 or heads.size % 8:
        return "it needs float32, and heads of a multiple of 8 values"
    return ""


def _first_good(machine: DeviceCapabilities, heads: HeadShape) -> Attention:
    faults: list[str] = []
    names: tuple[AttentionName, ...] = ("triton", "flash")
    for name in names:
        found = refusal(name, machine, heads) or _tried(name, machine, heads)
        if isinstance(found, Attention):
            return replace(found, note="; ".join(faults))
        if name != "flash" or machine.has_flash:  # without flash-attn, which few install, nothing is missing
            faults.append(f"{name}: {found}")
    return torchs_own(machine, "; ".join(faults))


def _tried(name: AttentionName, machine: DeviceCapabilities, heads: HeadShape) -> Attention | str:
    """The backend, if it attends as it should; else what went wrong."""
    try:
        attention = _make(name, machine, heads)
        for attend in attention.variants or (() if name == "sdpa" else (attention.attend,)):
            try_attention(attend, machine.device, heads, machine.trials)
    except Exception as error:  # a compiler's, a driver's, a broken package's: each has types of its own
        return f"its trial failed ({refused_because(error)})"
    return attention


def _make(name: AttentionName, machine: DeviceCapabilities, heads: HeadShape) -> Attention:
    if name == "triton":
        from app.engine.attention.triton_backend import TritonAttention, busy_programs, on_device

        busy = busy_programs(machine.multiprocessors)
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
    if name == "native" and machine.cpu_kernels is not None:
        attend, exact = (
            NativeAttention(machine.cpu_kernels, each) for each in (SDPA.attend, SDPA.batch_invariant)
        )
        return Attention(name, attend, exact)
    return torchs_own(machine)


@torch.inference_mode()
def try_attention(attend: Attend, device: torch.device, heads: HeadShape, trials: Trials) -> None:
    """Attend with so many rows after so many tokens; raises what goes wrong, ArithmeticError for wrong values."""
    for rows, prefix in trials:
        view = BlockView(chain_block((0,) * rows, prefix, ()), prefix, attend, device)
        query, keys, values = _random_states(heads, rows, prefix + rows, device)
        wide = LayerCache(keys.float(), values.float())
        for window in heads.windows:
            scoring = Scoring(heads.size**-0.5, window, heads.softcap)
            found = attend(query, LayerCache(keys, values), view, scoring)
            if not is_close(found, sdpa.attend(query.float(), wide, view, scoring)):
                raise ArithmeticError(f"wrong values for {rows} rows behind {prefix} tokens")


def _random_states(
    heads: HeadShape, rows: int, end: int, device: torch.device
) -> tuple[Tensor, Tensor, Tensor]:
    """Draw queries [1, H, rows, D], keys and values [1, KV, end, D], the same ones each time."""
    source = torch.Generator(device).manual_seed(0)
    shapes = ((heads.count, rows), (heads.shared, end), (heads.shared, end))
    query, keys, values = (
        torch.randn((1, *shape, heads.size), generator=source, device=device).to(heads.dtype)
        for shape in shapes
    )
    return query, keys, values
