"""Renders the toast that offers to undo the last deletion, for a minute."""

from collections.abc import Callable
from time import monotonic

from app.ui.chat.state import ChatState, Deletion
from app.ui.page_stream import Parts
from app.ui.templates import render

UNDO_SECONDS = 60.0


class UndoRenderer:
    """Renders the toast of one page."""

    def __init__(self, state: ChatState, now: Callable[[], float] = monotonic) -> None:
        self._state = state
        self._now = now
        self._shown: Deletion | None = None
        self._parts: Parts = {"undo": ""}

    def render(self) -> Parts:
        """The toast's part; the same object while nothing changed."""
        last = next(reversed(self._state.deletions), None)
        if last and self._now() - last.at > UNDO_SECONDS:
            last = None
        if last is not self._shown:
            self._shown = last
            self._parts = {"undo": render("undo.html", deletion=last) if last else ""}
        return self._parts
