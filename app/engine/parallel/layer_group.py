"""The processes that add up their shares of a layer, as torch's default process group: transformers wants it there.

On CPUs gloo adds them, on cards NCCL."""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any

import torch
from torch import distributed

from app.engine.parallel.meeting import MEETING

_SLOWEST = timedelta(minutes=10)
"""For one rank to come to a sum that another one waits for."""
_BETWEEN_LOOKS = 0.2
"""Seconds."""


def join_layers(place: str, rank: int, size: int, device: str) -> None:
    """Meet the other ranks by a file at this place, which all of them can read. Raises RuntimeError."""
    distributed.Backend.register_backend("loopback", _loopback, devices=["cpu"])
    store = distributed.FileStore(place, size)  # type: ignore[attr-defined]
    store.set_timeout(MEETING)
    distributed.init_process_group(
        "loopback" if device == "cpu" else "nccl",
        store=store,
        rank=rank,
        world_size=size,
        timeout=_SLOWEST,
        device_id=None if device == "cpu" else torch.device(device),
    )


def leave_layers() -> None:
    """Hang up: a rank that waits for a sum with this one has an error. Safe to repeat."""
    if distributed.is_initialized():
        _abort()
        distributed.destroy_process_group()


class Watch:
    """Cuts sums short where another rank has ended: on cards this one would wait for it for ever."""

    def __init__(self, has_ended: Callable[[], bool]) -> None:
        self.has_cut = False
        self._has_ended = has_ended
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._look, name="ranks", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Look no more: ranks may end now."""
        self._is_over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._is_over.wait(_BETWEEN_LOOKS):
            if self._has_ended():
                self.has_cut = True
                _abort()
                return


@contextmanager
def card_by_number(device: str) -> Iterator[None]:
    """transformers learns which card is a rank's as torchrun tells it: by a variable of the environment."""
    before = os.environ.get("LOCAL_RANK")
    os.environ["LOCAL_RANK"] = str(torch.device(device).index or 0)
    try:
        yield
    finally:
        os.environ.pop("LOCAL_RANK")
        if before is not None:
            os.environ["LOCAL_RANK"] = before


def _abort() -> None:
    group: Any = distributed.group.WORLD
    for device in ("cpu", "cuda"):
        with suppress(RuntimeError):  # it adds up on the other one
            group._get_backend(torch.device(device)).abort()


def _loopback(store: Any, rank: int, size: int, timeout: timedelta) -> Any:
    """gloo between processes of this machine."""
    from torch.distributed import ProcessGroupGloo as Gloo  # not before there are ranks

    options: Any = Gloo._Options()  # type: ignore[attr-defined]
    # By itself gloo would listen at the address that this machine's name has.
    options._devices = [Gloo.create_device(hostname="127.0.0.1")]
    options._timeout = timeout
    return Gloo(store, rank, size, options)
