"""What a step costs by its number of rows, and which widths write the same bits.

In half precision a row may round differently in a block of one row than in one of 32: another kernel adds in
another order. Widths whose rows come out bit by bit the same form a class, and text is the same for every decoder
that stays within one. With the classes (1,) and (16, 24, 32) and 3.0, 4.0, 4.2 and 4.5 ms a step:

    plain, free to choose           1 row     3.0 ms
    plain in the second class      16 rows    4.0 ms    its narrowest width, the block padded
    a tree of 19 rows              24 rows    4.2 ms    so the tree may as well have 24

Here are the values; `probing.py` measures them, `notes.py` remembers them.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import log2

Widths = tuple[int, ...]
"""Row counts, ascending."""

TokensPerStep = Callable[[int], float]
"""Rows of a step -> tokens that it is expected to commit."""


@dataclass(frozen=True, slots=True)
class StepTimes:
    """Measured seconds of a step at each of these widths; both are empty where nothing was measured."""

    widths: Widths = ()
    seconds: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if len(self.widths) != len(self.seconds):
            raise ValueError(f"a time for each width is needed, got {self.widths} and {self.seconds}")
        if not is_ascending(self.widths) or any(second <= 0 for second in self.seconds):
            raise ValueError(f"widths must ascend and times be above 0, got {self.widths} and {self.seconds}")

    def __bool__(self) -> bool:
        return bool(self.widths)

    def seconds_for(self, rows: int) -> float:
        """Seconds of a step of so many rows, on the line between its neighbours; 0.0 where nothing is known.

        Beyond the widest width the last line goes on."""
        if len(self.widths) < 2:
            return self.seconds[0] if self.seconds else 0.0
        right = min(max(bisect_left(self.widths, rows), 1), len(self.widths) - 1)
        (low, high), (cheap, dear) = self.widths[right - 1 : right + 1], self.seconds[right - 1 : right + 1]
        line = cheap + (dear - cheap) * (rows - low) / (high - low)
        return max(line, min(self.seconds))


@dataclass(frozen=True, slots=True)
class StepProfile:
    """A model's step on this machine: free, and held to the same bits for every row (`steady`).

    `classes` are the sets of widths within which a steady row's bits do not change. `note`
    says what was found; a profile that is not whole was cut short on a busy machine: another time may find more."""

    free: StepTimes = field(default_factory=StepTimes)
    steady: StepTimes = field(default_factory=StepTimes)
    classes: tuple[Widths, ...] = ()
    note: str = ""
    is_whole: bool = True

    def __bool__(self) -> bool:
        return bool(self.free)

    def __post_init__(self) -> None:
        for widths in self.classes:
            if not widths or not is_ascending(widths) or not set(widths) <= set(self.steady.widths):
                raise ValueError(f"a class holds measured widths, got {widths} of {self.steady.widths}")

    def times(self, widths: Widths) -> StepTimes:
        """What steps cost when blocks are padded to `widths`: () is without padding."""
        return self.steady if widths else self.free


def is_ascending(widths: Sequence[int]) -> bool:
    """Whether these are row counts, each above the one before."""
    return all(low < high for low, high in pairwise((0, *widths)))


def padded_rows(rows: int, widths: Widths) -> int:
    """The narrowest of these widths that holds so many rows; as many as there are where nothing is padded.

    Raises ValueError for a block that is too wide for all."""
    if not widths:
        return rows
    if rows > widths[-1]:
        raise ValueError(f"a block may have at most {widths[-1]} rows here, got {rows}")
    return widths[bisect_left(widths, rows)]


def modest(rows: int) -> float:
    """The tokens that a step of so many rows commits on text of middling predictability, before any is written."""
    return 1 + 0.25 * log2(rows)


EVEN = 1.5
"""Times are noisy, and the class should be the same tomorrow: only a promise so much better counts."""


def choose_class(profile: StepProfile, tokens: TokensPerStep = modest) -> Widths:
    """The class with most widths, unless another promises far more tokens per second; () where there is none.

    It depends on the profile alone, never on the decoder: both must choose the same."""

    def speed(widths: Widths) -> float:
        return max(tokens(width) / profile.steady.seconds_for(width) for width in widths)

    best = max(map(speed, profile.classes), default=0.0)
    good = [widths for widths in profile.classes if speed(widths) * EVEN >= best]
    return max(good, key=len, default=())
