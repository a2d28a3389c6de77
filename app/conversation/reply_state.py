"""The state of a reply, folded from its events by a pure function."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Literal

from app.values.messages import Event, Failed, Finished, Loading, Piece, Prefilling, Statistics

Phase = Literal["waiting", "loading", "prefilling", "decoding", "finished", "failed"]


@dataclass(frozen=True, slots=True)
class ReplyState:
    """A reply so far."""

    phase: Phase = "waiting"
    text: str = ""
    statistics: Statistics = field(default_factory=Statistics)
    progress: tuple[int, int] = (0, 0)
    note: str = ""
    finished: Finished | None = None

    @property
    def is_done(self) -> bool:
        """Whether the reply has ended."""
        return self.phase in ("finished", "failed")


def fold(state: ReplyState, events: Iterable[Event]) -> ReplyState:
    """The state after these events. fold(fold(s, a), b) == fold(s, a + b)."""
    for event in events:
        state = _after(state, event)
    return state


def _after(state: ReplyState, event: Event) -> ReplyState:
    match event:
        case Loading(what, done, total):
            return replace(state, phase="loading", note=what, progress=(done, total))
        case Prefilling(done, total):
            return replace(state, phase="prefilling", note="", progress=(done, total))
        case Piece(text, _, _, statistics):
            return replace(state, phase="decoding", text=state.text + text, note="", statistics=statistics)
        case Finished(_, statistics, _, _):
            return replace(state, phase="finished", statistics=statistics, finished=event)
        case Failed(sentence):
            return replace(state, phase="failed", note=sentence)
