"""Captures work on a CUDA device as graphs, which repeat every kernel with the captured addresses and values. So
values that change between steps must be read from tensors that live as long as the graph.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any
from warnings import catch_warnings, simplefilter

import torch

from app.engine.machine.process_memory import clear_workspaces


class GraphCapturer:
    """Captures CUDA graphs. They can share one memory pool, because they never run at the same time."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._pool: Any = torch.cuda.graph_pool_handle()

    def capture(self, work: Callable[[], None]) -> torch.cuda.CUDAGraph:
        """Do the work once, then capture it.

        Raises any error of the work, and RuntimeError if the host waits for the device. The work runs once before
        the capture, because an error that interrupts a capture leaves torch in a bad state."""
        self._stream.wait_stream(torch.cuda.current_stream(self._device))
        try:
            with torch.cuda.stream(self._stream), _waiting_refused():
                work()
        finally:  # the kernels of a failed run must end before the next eager step
            torch.cuda.synchronize(self._device)
        torch.cuda.empty_cache()  # other streams cannot reuse the memory that the first run took on this stream
        graph = torch.cuda.CUDAGraph()
        # torch.cuda.graph is not used, because it leaves its stream current if the end of a capture fails.
        with torch.cuda.stream(self._stream), own_workspaces():
            # Only calls of this thread can break the capture, so other threads may, for example, query free memory.
            graph.capture_begin(pool=self._pool, capture_error_mode="thread_local")
            run_and_end(work, lambda: self._end(graph))
        return graph

    def release(self) -> None:
        """Use a new memory pool for later captures. The old pool is freed with the last of its graphs."""
        self._pool = torch.cuda.graph_pool_handle()

    def _end(self, graph: torch.cuda.CUDAGraph) -> None:
        """End a capture. If this fails, close the memory pool, because torch (up to 2.13) leaves it open."""
        try:
            graph.capture_end()
        except RuntimeError:
            # These calls fail if torch has closed the pool itself, or has renamed them.
            with suppress(RuntimeError, AttributeError):
                torch._C._cuda_endAllocateToPool(self._stream.device_index, self._pool)
                torch._C._cuda_releasePool(self._stream.device_index, self._pool)
            self.release()
            raise


@contextmanager
def own_workspaces(clear: Callable[[], None] = clear_workspaces) -> Iterator[None]:
    """Make cuBLAS allocate its workspace in the graphs' own memory during a capture.

    An earlier workspace would be freed with the next model or when memory runs out, while graphs still use it."""
    clear()
    try:
        yield
    finally:
        clear()  # later work outside the graphs must not write to their memory


def run_and_end(work: Callable[[], None], end: Callable[[], None]) -> None:
    """Do the work, then end the capture. If the work fails, its error is raised and a RuntimeError of `end`
    is suppressed, because a broken capture cannot end properly."""
    try:
        work()
    except BaseException:
        with suppress(RuntimeError):
            end()
        raise
    end()


@contextmanager
def _waiting_refused() -> Iterator[None]:
    """Make calls that wait for the device raise RuntimeError within the context, as far as torch detects them."""
    before = torch.cuda.get_sync_debug_mode()
    _set_waiting("error")
    try:
        yield
    finally:
        _set_waiting(before)


def _set_waiting(mode: int | str) -> None:
    with catch_warnings():
        simplefilter("ignore")  # torch warns that it does not detect every wait
        torch.cuda.set_sync_debug_mode(mode)
