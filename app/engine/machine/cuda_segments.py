"""CUDA's caching allocator with segments that grow: a KV cache that is made anew leaves no holes behind it.

Without them a freed buffer serves only what is as small or smaller, so that each larger one is reserved on top.
"""

import os
import sys
from typing import Protocol

import torch

_VARIABLES = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")

_TRIAL_BYTES = 32 << 20
"""More than the allocator's small segments, so that the driver is asked."""


class SegmentAllocator(Protocol):
    """The allocator of one device."""

    def is_configured(self) -> bool:
        """Whether the person has set the allocator up."""

    def expand_segments(self, is_wanted: bool) -> None:
        """Whether new segments are to grow."""

    def allocate(self) -> None:
        """Take some memory in a new segment, and free it; raises the driver's error where that fails."""


class TorchAllocator:
    """torch's own."""

    def __init__(self, device: torch.device) -> None:
        self._device = device

    def is_configured(self) -> bool:
        """By one of the environment variables that torch reads."""
        return any(os.environ.get(name) for name in _VARIABLES)

    def expand_segments(self, is_wanted: bool) -> None:
        """The setting, for the whole process."""
        torch._C._accelerator_setAllocatorSettings(f"expandable_segments:{is_wanted}")

    def allocate(self) -> None:
        """One tensor."""
        torch.empty(_TRIAL_BYTES, dtype=torch.uint8, device=self._device)


def expand_segments(device: torch.device) -> bool:
    """Have the device's segments grow where that is known: CUDA on Linux."""
    if device.type != "cuda" or sys.platform != "linux" or torch.version.cuda is None:
        return False
    return try_expanding(TorchAllocator(device))


def try_expanding(allocator: SegmentAllocator) -> bool:
    """Whether segments grow by our setting now. Some drivers, such as those of virtual cards, refuse it."""
    if allocator.is_configured():
        return False
    try:
        allocator.expand_segments(True)
        allocator.allocate()
    except (RuntimeError, AttributeError):
        _fix_segments(allocator)
        return False
    return True


def _fix_segments(allocator: SegmentAllocator) -> None:
    try:
        allocator.expand_segments(False)
    except (RuntimeError, AttributeError):
        return  # a torch without the setting: nothing was changed
