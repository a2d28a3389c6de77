"""Capturing work as CUDA graphs, and replaying it: the seam between steps and torch.cuda.

A graph repeats every kernel with the addresses and numbers of its capture. So whatever changes must be read from
tensors that keep their addresses, nothing may wait for the device during a capture, and tensors that the graph
reads must live as long as the graph.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any
from warnings import catch_warnings, simplefilter

import torch

from app.engine.machine.memory import clear_workspaces


class GraphCapturer:
    """Captures CUDA graphs that share one memory pool: they are replayed one after the other, never at once."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._pool: Any = torch.cuda.graph_pool_handle()

    def capture(self, work: Callable[[], None]) -> torch.cuda.CUDAGraph:
        """Do the work once, then capture it.

        Raises whatever goes wrong, and RuntimeError if the host waits for the device; then nothing is left of it.
        The first run finds that out, because an interrupted capture leaves a bad state."""
        self._stream.wait_stream(torch.cuda.current_stream(self._device))
        try:
            with torch.cuda.stream(self._stream), _waiting_refused():
                work()
        finally:  # kernels of a run that failed must not meet those of the eager step that follows
            torch.cuda.synchronize(self._device)
        torch.cuda.empty_cache()  # what the first run took on that stream serves no other
        graph = torch.cuda.CUDAGraph()
        # Not torch.cuda.graph: when the end of a capture fails, that leaves the stream as the current one.
        with torch.cuda.stream(self._stream), own_workspaces():
            # Of this thread alone: what others do, such as asking for free memory, is no matter.
            graph.capture_begin(pool=self._pool, capture_error_mode="thread_local")
            run_and_end(work, lambda: self._end(graph))
        return graph

    def release(self) -> None:
        """Use another memory pool from now on, because no earlier graph is replayed again."""
        self._pool = torch.cuda.graph_pool_handle()

    def _end(self, graph: torch.cuda.CUDAGraph) -> None:
        """End a capture. Where that fails, torch (up to 2.13) leaves the pool open: it is closed here."""
        try:
            graph.capture_end()
        except RuntimeError:
            # Refused where torch closed the pool, or under other names: then there is nothing to release, either.
            with suppress(RuntimeError, AttributeError):
                torch._C._cuda_endAllocateToPool(self._stream.device_index, self._pool)
                torch._C._cuda_releasePool(self._stream.device_index, self._pool)
            self.release()
            raise


@contextmanager
def own_workspaces(clear: Callable[[], None] = clear_workspaces) -> Iterator[None]:
    """Have cuBLAS take the workspace that a graph will write to from the graphs' own memory.

    One that was there before would be freed with the next model, or where memory runs out, under the graphs."""
    clear()
    try:
        yield
    finally:
        clear()  # what is computed next must not write to the graphs' memory


def run_and_end(work: Callable[[], None], end: Callable[[], None]) -> None:
    """Do the work between the two ends of a capture. An error of the work is raised as it is.

    The capture that it broke cannot be ended well: that error is only its consequence."""
    try:
        work()
    except BaseException:
        with suppress(RuntimeError):
            end()
        raise
    end()


@contextmanager
def _waiting_refused() -> Iterator[None]:
    """Everything that makes the host wait for the device raises RuntimeError."""
    before = torch.cuda.get_sync_debug_mode()
    _set_waiting("error")
    try:
        yield
    finally:
        _set_waiting(before)


def _set_waiting(mode: int | str) -> None:
    with catch_warnings():
        simplefilter("ignore")  # torch says that it does not find all of it
        torch.cuda.set_sync_debug_mode(mode)
