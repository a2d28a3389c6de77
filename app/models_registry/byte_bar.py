"""The hub's client reports its bytes to a progress bar class; this one counts and draws nothing."""

from collections.abc import Callable
from typing import Any


class CountingBar:
    """Has what the client's downloaders, plain and Xet, expect of a bar."""

    @staticmethod
    def report(count: int) -> None:
        """Hear how many bytes of the file are here; may raise to stop the download."""

    def __init__(self, *_: Any, initial: int = 0, total: int | None = None, **__: Any) -> None:
        self.n = initial
        self.total = total

    def update(self, count: float | None = 1) -> None:
        """Count bytes that have come; some may be taken back."""
        self.n += int(count or 0)
        self.report(self.n)

    def __enter__(self) -> "CountingBar":
        return self

    def __exit__(self, *_: object) -> None: ...
    def close(self) -> None: ...
    def refresh(self) -> None: ...
    def update_transfer(self, count: float | None = 1) -> None: ...
    def set_postfix_str(self, *_: Any, **__: Any) -> None: ...
    def set_transfer_postfix_str(self, *_: Any, **__: Any) -> None: ...


def counting_bar(report: Callable[[int], None]) -> type[CountingBar]:
    """A bar class whose bars tell `report` how many bytes of their file are here."""
    return type("ReportingBar", (CountingBar,), {"report": staticmethod(report)})
