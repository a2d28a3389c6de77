"""What a reply's grammar says to its drafts: which tokens may come next at a place, and which one has to."""

from collections.abc import Callable, Sequence
from typing import Protocol


class Allowed(Protocol):
    """The tokens that a grammar allows at some place; `forced` is the one it leaves, as far as it can be told."""

    @property
    def forced(self) -> list[int]:
        """That token, or nothing."""

    def __contains__(self, token: int) -> bool: ...


Constraint = Callable[[Sequence[int], Callable[[], Sequence[int]]], Allowed | None]
"""(text, what is added to it) -> what the reply's grammar allows behind both; None without a grammar."""


def unconstrained(_text: Sequence[int], _added: Callable[[], Sequence[int]]) -> None:
    """Every token may come next."""
