"""The result of one check."""

from dataclasses import dataclass
from typing import Literal

from app.validation import require_one_of

Verdict = Literal["good", "bad", "unknown"]


@dataclass(frozen=True, slots=True)
class Check:
    """What was checked, how it came out, and what was seen in a sentence."""

    name: str
    verdict: Verdict
    words: str

    def __post_init__(self) -> None:
        require_one_of(Verdict, "verdict", self.verdict)


def judged(name: str, problem: str, praise: str) -> Check:
    """Bad with a problem, else good."""
    return Check(name, "bad", problem) if problem else Check(name, "good", praise)
