"""Measures that a reader of text takes linear time: four times as long for four times as much, not sixteen times.

A reader gets a seed of `text_seeds.py` over and over, twice as often from one size to the next. What is
measured is processor time of this thread, not how late it is; what looks too slow is measured again.
"""

import gc
import time
from collections.abc import Callable, Iterable, Mapping
from itertools import count

import pytest

from tests.text_seeds import SEEDS, repeated

Read = Callable[[str], object]

SMALLEST, LARGEST, QUICK = 2**10, 2**20, 2**14
NOISE = 0.06
"""Seconds below which nothing is said about how a time grows."""
MOST_GROWTH = 9.0
"""How much longer a text of four times the size may take: linear is 4, the square 16."""
MOST_SECONDS = 100e-6
"""Seconds a character at most: far more than any reader needs on a machine that does something else besides."""


def read_all(parts: Iterable[object]) -> None:
    for _ in parts:
        pass


QUICK_SEEDS = (
    "newlines", "tabs and newlines", "camel case", "capitals", "full stops", "opened brackets of formulas",
    "marks of two classes",
)  # fmt: skip
"""What was too slow for some reader before, apart from what has a test of its own below."""

anew = count()


def seconds(read: Read, seed: str, size: int) -> float:
    """Processor time for a text that was never read before: some readers remember."""
    text = f"{repeated(seed, size)}x{next(anew)}"
    gc.disable()  # what it takes depends on everything else that is in memory
    try:
        begin = time.thread_time()
        read(text)
        return time.thread_time() - begin
    finally:
        gc.enable()


def require_linear(read: Read, seed: str, largest: int, noise: float = NOISE) -> None:
    """Double a seed; a time that is too long by what was measured once is measured again."""
    times: dict[int, float] = {}
    size = SMALLEST
    while size <= largest:
        times[size] = seconds(read, seed, size)
        if is_too_long(times, size, noise):
            for one in (size, size // 4) if size // 4 in times else (size,):
                times[one] = min(seconds(read, seed, one) for _ in range(3))
        assert not is_too_long(times, size, noise), f"{times}"
        size *= 2


def is_too_long(times: dict[int, float], size: int, noise: float = NOISE) -> bool:
    before = max(times.get(size // 4, times[size]), noise / MOST_GROWTH)
    return times[size] > MOST_GROWTH * before or times[size] > 1 + MOST_SECONDS * size


def linear_time_tests(
    readers: Mapping[str, Read], time_limit: float = 0.0
) -> tuple[Callable[[str], None], Callable[[str, str], None]]:
    """Two tests of each reader: quick seeds, and with --thorough a megabyte of every seed.

    `time_limit`: seconds of processor time after which a part of a reader gives up, however its time grew."""

    @pytest.mark.parametrize("reader", readers)
    def quick(reader: str) -> None:
        for seed in QUICK_SEEDS:
            require_linear(readers[reader], SEEDS[seed], QUICK)

    @pytest.mark.thorough
    @pytest.mark.timeout(1200)
    @pytest.mark.parametrize("seed", SEEDS)
    @pytest.mark.parametrize("reader", readers)
    def megabyte(reader: str, seed: str) -> None:
        require_linear(readers[reader], SEEDS[seed], LARGEST, NOISE + time_limit)

    return quick, megabyte
