"""A page's eyes on the race: what its parts show, made anew only when something changed."""

from collections.abc import Callable
from dataclasses import dataclass

from app.conversation.decoder_comparison import LaneReader
from app.conversation.race import Race, RaceState
from app.conversation.reply import Reply
from app.messages import ModelInfo
from app.race_messages import LaneRun
from app.ui.page_stream import Parts
from app.ui.race.board import board_html, notes_html, status_html
from app.ui.race.course import course
from app.ui.race.history import history_html
from app.ui.race.texts import texts_html

LAST_RACES = 8


@dataclass(frozen=True, slots=True)
class RaceScreen:
    """The view's parts as HTML, and which buttons there are."""

    status: str = ""
    board: str = ""
    notes: str = ""
    texts: str = ""
    history: str = ""
    is_running: bool = False
    has_result: bool = False


def race_parts(now: RaceScreen) -> Parts:
    """A screen as the parts of the page."""
    return {
        "race-status": now.status,
        "race-board": now.board,
        "race-notes": now.notes,
        "race-texts": now.texts,
        "race-history": now.history,
        "is-racing": now.is_running,
        "has-raced": now.has_result,
    }


class RaceWatcher:
    """Sees the race as screens. One reader; not shared between pages."""

    def __init__(self, race: Race, model: Callable[[], ModelInfo | None]) -> None:
        self._race = race
        self._model = model
        self._readers: dict[Reply, LaneReader] = {}
        self._seen: object = None
        self._screen = RaceScreen()
        self._told: object = None
        self._history = ""

    def has_turned(self) -> bool:
        """Whether the next look asks the database."""
        return self._told != self._told_of(self._race.state, self._model())

    def look(self) -> RaceScreen:
        """The view as it should be now; the very same object while nothing changed."""
        state, model = self._race.state, self._model()
        runs = self._read(state)
        seen = (state, tuple(map(id, runs)), model)
        if seen != self._seen:
            self._screen = self._draw(state, runs, model)
            self._seen = seen  # only now: what could not be drawn is drawn at the next look
        return self._screen

    def _read(self, state: RaceState) -> list[LaneRun]:
        """Each heat as far as it has come. What is new is read, and nothing else."""
        known = self._readers
        self._readers = {
            lane.reply: known.get(lane.reply) or LaneReader(lane.decoding, lane.reply)
            for lane in state.replies
        }
        return [reader.read() for reader in self._readers.values()]

    def _draw(self, state: RaceState, runs: list[LaneRun], model: ModelInfo | None) -> RaceScreen:
        return RaceScreen(
            status=status_html(state),
            board=board_html(course(state, runs)),
            notes=notes_html(state.result),
            texts=texts_html(state.result),
            history=self._history_of(state, model),
            is_running=state.is_running,
            has_result=state.result is not None,
        )

    def _history_of(self, state: RaceState, model: ModelInfo | None) -> str:
        """Asked of the database only when a race was added or another model came."""
        told = self._told_of(state, model)
        if told != self._told:
            log = self._race.log
            self._history = (
                history_html(model, log.summary(model), log.last(model, LAST_RACES))
                if model
                else history_html(None, (), ())
            )
            self._told = told
        return self._history

    def _told_of(self, state: RaceState, model: ModelInfo | None) -> object:
        return id(state.result), model
