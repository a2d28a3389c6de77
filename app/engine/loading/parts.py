"""Reports the progress of a load, which has several parts. Successors are the likeliest tokens after each token.

reading   quantising   trying kernels   measuring steps   measuring successors
0 to 20   to 35        to 45            to 70             to 100 percent
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from time import perf_counter

from torch import nn
from torch.nn.modules.module import (
    register_module_forward_pre_hook,
    register_module_parameter_registration_hook,
)

from app.values.messages import Progress

READ, QUANTISED, PREPARED, STEPS, LOADED = 20, 35, 45, 70, 100
"""The progress of a load in percent at the end of each part."""
PASSES = 10
"""After this many passes through the whole model, half of a trial's share of the progress is shown."""
REPORT_SECONDS = 0.1
"""Minimum seconds between two reports of a trial."""
Listener = Callable[[int, int], None]


def no_progress(_what: str, _done: int, _total: int) -> None:
    """Ignore the progress of a load."""


def part_of_load(progress: Progress, what: str, begin: int, end: int) -> Listener:
    """Make a listener that reports one part of a load, from `begin` to `end` percent of the whole load.

    The reported percentage never falls."""
    furthest = begin

    def listen(done: int, total: int) -> None:
        nonlocal furthest
        furthest = max(furthest, begin + (end - begin) * done // max(total, 1))
        progress(what, furthest, LOADED)

    return listen


@contextmanager
def counting_weights(total: int, listen: Listener) -> Iterator[None]:
    """Report to `listen`, after each weight read within the context, how many of `total` parameters have been read.

    transformers reports no progress, but torch reports each parameter that a module gets. An exception that
    `listen` raises ends the reading."""
    done = 0

    def given(_module: nn.Module, _name: str, parameter: nn.Parameter | None) -> None:
        nonlocal done
        if parameter is not None and not parameter.is_meta:
            done += parameter.numel()
            listen(min(done, total), total)

    with register_module_parameter_registration_hook(given):
        yield


@contextmanager
def counting_passes(
    model: nn.Module, listen: Listener, clock: Callable[[], float] = perf_counter
) -> Iterator[None]:
    """Report forward passes within the context to `listen`, once every REPORT_SECONDS seconds at most. An
    exception that `listen` raises ends the current pass.

    The number of passes is unknown, so the reported share approaches 1 without reaching it. The passes of a model
    on a GPU are not reported, because they are short and may be compiled."""
    half, done, reported = PASSES * sum(1 for _ in model.modules()), 0, clock()

    def run(_module: nn.Module, _inputs: object) -> None:
        nonlocal done, reported
        done += 1
        if clock() - reported >= REPORT_SECONDS:
            listen(done, done + half)
            reported = clock()

    is_on_cpu = all(weights.device.type == "cpu" for weights in model.parameters())
    with register_module_forward_pre_hook(run) if is_on_cpu else nullcontext():
        yield
