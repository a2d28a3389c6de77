"""What a report is made of: findings, each one measured thing, by the settings that it was measured at."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Finding:
    """What was measured (`kind`), where (`at`: shape, rows, ...), and what it came to; all of it JSON can carry."""

    kind: str
    at: Mapping[str, str | int]
    numbers: Mapping[str, Any]

    def __post_init__(self) -> None:
        if not self.kind or not self.numbers:
            raise ValueError(f"a finding needs a kind and numbers, got {self.kind!r} {self.numbers!r}")


@dataclass(frozen=True, slots=True)
class SectionResult:
    """All findings of a section; `fault` says in one sentence why there are not more, `trace` for a programmer."""

    name: str
    findings: tuple[Finding, ...] = ()
    seconds: float = 0.0
    fault: str = ""
    trace: str = ""

    def to_json(self) -> dict[str, Any]:
        """As the report's file has it."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that was found, and on what."""

    about: Mapping[str, Any]
    results: tuple[SectionResult, ...] = field(default=())

    def select(self, kind: str, **at: str | int) -> list[Finding]:
        """The findings of a kind whose settings include these, in the order in which they were made."""
        return [finding for result in self.results for finding in matching(result.findings, kind, **at)]

    def last(self, kind: str, **at: str | int) -> Mapping[str, Any]:
        """The numbers of the newest such finding; none where there is none."""
        found = self.select(kind, **at)
        return found[-1].numbers if found else {}

    def faults(self) -> dict[str, str]:
        """Why sections are not whole, by their names."""
        return {result.name: result.fault for result in self.results if result.fault}


def matching(findings: Iterable[Finding], kind: str, **at: str | int) -> list[Finding]:
    """The findings of a kind whose settings include these."""
    return [
        finding for finding in findings if finding.kind == kind and at.items() <= dict(finding.at).items()
    ]
