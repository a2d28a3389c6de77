"""A page's eyes on the race: what its parts show, made anew only when something changed."""

from dataclasses import dataclass

from app.conversation.lane_reading import LaneReader
from app.conversation.race import Race, RaceState
from app.conversation.reply import Reply
from app.messages import ModelInfo
from app.race_messages import LaneRun
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


class RaceWatcher:
    """Sees the race as screens. One reader; not shared between pages."""

    def __init__(self, race: Race) -> None:
        self._race = race
        self._readers: dict[Reply, LaneReader] = {}
        self._seen: object = None
        self._screen = RaceScreen()
        self._told: object = None
        self._history = ""

    def look(self, model: ModelInfo | None) -> RaceScreen:
        """The view as it should be now; the very same object while nothing changed."""
        state = self._race.state
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
            heat.reply: known.get(heat.reply) or LaneReader(heat.decoding, heat.reply) for heat in state.heats
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
        told = (id(state.result), model)
        if told != self._told:
            log = self._race.log
            self._history = (
                history_html(model, log.summary(model), log.last(model, LAST_RACES))
                if model
                else history_html(None, (), ())
            )
            self._told = told
        return self._history
