"""Every backend as tests can have it here: real ones, and flash-attn's function written out for a CPU."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from app.engine.attention import Attend, sdpa
from app.engine.attention.backend_choice import capabilities_of
from app.engine.attention.flash import FlashAttention
from app.engine.attention.native import NativeAttention
from app.engine.cpu_kernels import cpu_kernels
from tests.engine.attention.cases import DEVICE


def triton_backend(busy: int = 64, scratch: int = 1 << 26, many_spans: int = 64) -> Attend:
    pytest.importorskip("triton", reason="triton is not installed")
    from app.engine.attention.triton_backend import TritonAttention, on_device

    memory = capabilities_of(DEVICE).shared_memory
    return on_device(TritonAttention(memory, busy, scratch, many_spans=many_spans), DEVICE)


def interprets_triton() -> bool:
    """Whether triton was imported for a CPU; skips where it is not installed."""
    pytest.importorskip("triton", reason="triton is not installed")
    from app.engine.attention.kernels import is_interpreted

    return is_interpreted()


def flash_backend() -> Attend:
    return FlashAttention(over_cache, sdpa.attend)


def native_backend() -> Attend:
    kernels = cpu_kernels()
    if kernels is None:
        pytest.skip("there is no C compiler here")
    return NativeAttention(kernels, sdpa.attend)


BACKENDS: dict[str, Callable[[], Attend]] = {
    "sdpa": lambda: sdpa.attend,
    "sdpa in float64": lambda: sdpa.attend_batch_invariant,
    "triton": triton_backend,
    "flash": flash_backend,
    "native": native_backend,
}


def over_cache(
    query: Tensor, keys: Tensor, values: Tensor, lengths: Tensor, scale: float, softcap: float
) -> tuple[Tensor, Tensor]:
    """What flash-attn promises of its function: no mask, as many keys as `lengths` says, out in half precision."""
    count, sizer = int(lengths), query.shape[2] // keys.shape[2]
    key, value = (
        states[0, :count].float().repeat_interleave(sizer, dim=1).transpose(0, 1) for states in (keys, values)
    )
    scores = query[0].float().transpose(0, 1) @ key.transpose(1, 2) * scale
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    out = scores.softmax(dim=-1) @ value
    return out.transpose(0, 1)[None].to(query.dtype), scores.logsumexp(dim=-1)[None]
