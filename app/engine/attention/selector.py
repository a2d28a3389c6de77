"""Which backend a model's attention gets on this machine.

    asked    gets
    auto     the first of triton, flash and sdpa that can be used and that passes a trial
    triton   triton; on a CPU only in triton's interpreter, for tests
    flash    flash over the prefix, in half precision; what it cannot do goes to the best other one
    sdpa     sdpa

The trial is one tiny block: triton needs a C compiler on the machine, and a head may be too large for a card. What
a person asks for by name is used, or refused with a sentence.
"""

from dataclasses import dataclass, replace
from importlib.util import find_spec

import torch

from app.engine.attention import sdpa
from app.engine.attention.signature import Attend, BlockView, LayerCache, Scoring
from app.engine.attention.tiles import busy_programs
from app.engine.block import chain_block
from app.engine.memory import is_out_of_memory
from app.errors import AttentionUnavailable, first_line
from app.messages import AttentionChoice, AttentionName

AMPERE = (8, 0)
"""The oldest compute capability that multiplies bfloat16."""

LARGEST_HEAD = 256

_SHARED_MEMORY = 48 << 10
"""Bytes that every device has for one program."""


@dataclass(frozen=True, slots=True)
class Attention:
    """A backend. `batch_invariant` attends so that a row's bits do not depend on what else is computed with it."""

    name: AttentionName
    attend: Attend
    batch_invariant: Attend
    note: str = ""  # why it is not the one that is best on this machine
    variants: tuple[Attend, ...] = ()  # together they need every kernel that `attend` may come to need


SDPA = Attention("sdpa", sdpa.attend, sdpa.attend_batch_invariant)


@dataclass(frozen=True, slots=True)
class DeviceCapabilities:
    """What decides about backends: the device and the packages that are there."""

    device: torch.device
    capability: tuple[int, int] = (0, 0)
    shared_memory: int = _SHARED_MEMORY
    multiprocessors: int = 0  # 0: not known
    has_triton: bool = False
    has_flash: bool = False


@dataclass(frozen=True, slots=True)
class HeadShape:
    """A model's attention: H query heads of this size over KV key heads, in this type."""

    count: int
    shared: int
    size: int
    dtype: torch.dtype


def capabilities_of(device: torch.device) -> DeviceCapabilities:
    """The facts about this device. Packages are looked for, not imported."""
    has_triton = find_spec("triton") is not None
    if device.type != "cuda" or torch.version.cuda is None:
        return DeviceCapabilities(device, has_triton=has_triton and device.type == "cpu")
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
        # Triton's interpreter is for tests: on a CPU there is nothing to choose from.
        return SDPA if machine.device.type == "cpu" else _first_good(machine, heads)
    found = refusal(choice, machine, heads) or _tried(choice, machine, heads)
    if isinstance(found, str):
        raise AttentionUnavailable(choice, found)
    return found


def refusal(name: AttentionName, machine: DeviceCapabilities, heads: HeadShape) -> str:
    """Why this backend cannot be used here; "" when it can."""
    if name == "sdpa":
        return ""
    if not (machine.has_triton if name == "triton" else machine.has_flash):
        return "it is not installed for this device"
    if heads.size > LARGEST_HEAD:
        return f"the model's heads have {heads.size} values, and it takes at most {LARGEST_HEAD}"
    if machine.device.type == "cpu":
        return "" if _is_interpreted() else "it needs a CUDA device"
    if machine.capability < AMPERE:
        return "it needs a card of the Ampere generation or newer"
    if name == "flash" and (heads.dtype.itemsize != 2 or heads.size % 8):
        return "it needs bfloat16 or float16, and heads of a multiple of 8 values"
    return ""


def _first_good(machine: DeviceCapabilities, heads: HeadShape) -> Attention:
    faults: list[str] = []
    names: tuple[AttentionName, ...] = ("triton", "flash")
    for name in names:
        if refusal(name, machine, heads):
            continue
        found = _tried(name, machine, heads)
        if isinstance(found, Attention):
            return replace(found, note="; ".join(faults))
        faults.append(f"{name}: {found}")
    return replace(SDPA, note="; ".join(faults))


def _tried(name: AttentionName, machine: DeviceCapabilities, heads: HeadShape) -> Attention | str:
    """The backend, if it attends to one tiny block as it should; else what went wrong."""
    try:
        attention = _make(name, machine, heads)
        for attend in attention.variants or (() if name == "sdpa" else (attention.attend,)):
            _try(attend, machine.device, heads)
    except Exception as error:  # a compiler's, a driver's, a broken package's: each has types of its own
        if is_out_of_memory(error):
            raise
        return f"its trial failed ({first_line(error)[:200]})"
    return attention


def _make(name: AttentionName, machine: DeviceCapabilities, heads: HeadShape) -> Attention:
    if name == "triton":
        from app.engine.attention.triton_backend import TritonAttention, on_device

        busy = busy_programs(machine.multiprocessors)
        fused = TritonAttention(machine.shared_memory, busy, major=machine.capability[0])
        attend, *variants = (on_device(each, machine.device) for each in (fused, *fused.variants()))
        return Attention(name, attend, attend, variants=tuple(variants))
    if name == "flash":
        from app.engine.attention.flash import FlashAttention, flash_over_cache

        other = SDPA if refusal("triton", machine, heads) else _make("triton", machine, heads)
        flash = FlashAttention(flash_over_cache(), other.attend)
        return Attention(name, flash, other.batch_invariant, variants=(flash, *other.variants))
    return SDPA


def _is_interpreted() -> bool:
    from app.engine.attention.kernels import is_interpreted

    return is_interpreted()


@torch.inference_mode()
def _try(attend: Attend, device: torch.device, heads: HeadShape) -> None:
    """Attend with one row to a prefix of 64; raises whatever goes wrong, ArithmeticError for wrong values."""
    view = BlockView(chain_block((0,), 64, ()), 64, attend, device)
    query = torch.ones((1, heads.count, 1, heads.size), dtype=heads.dtype, device=device)
    states = query.new_ones((1, heads.shared, 65, heads.size))
    out = attend(query, LayerCache(states, states), view, Scoring(heads.size**-0.5))
    if not torch.allclose(out, torch.ones_like(out), rtol=0.02):
        raise ArithmeticError("wrong values")
