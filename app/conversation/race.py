"""A race: heats one after the other on the one engine, each a reply of its own, on a thread of the race's own.

    warm-up of every heat -> plains beside -> lanes -> margins at differences -> kept in the log

Readers look at `state`, which is replaced whole at every turn, and read the heats' logs themselves.
"""

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from time import time
from typing import Literal, Protocol

from app import __version__
from app.conversation.conversations import Decodes
from app.conversation.lane_reading import read_lane
from app.conversation.race_rules import (
    Heat,
    beside,
    fastest_plain,
    first_difference,
    lanes_of,
    plains_of,
    request_for,
    speed_up,
    warm_up_for,
)
from app.conversation.reply import Reply
from app.errors import AppError, LaneFailed, RaceRefused
from app.messages import Decoding, Failed, Finished, ModelInfo, Request
from app.race_messages import (
    Difference,
    LaneResult,
    LaneRun,
    RacePlan,
    RaceResult,
    RaceSummary,
    SpeedByKind,
)
from app.step_trace import Margin

log = logging.getLogger(__name__)

RacePhase = Literal["idle", "warming", "racing", "judging", "done", "stopped", "failed"]
RUNNING: tuple[RacePhase, ...] = ("warming", "racing", "judging")
BUSY = "A reply is still being written: wait for its end, or stop it first."
PATIENCE = 60.0
"""Seconds to wait for a margin: the prompt and the reply up to there are read once more."""
STOPPED = "Stopped: a race that was not run to its end counts for nothing."
RACING = "A race is already under way: wait for its end, or stop it first."


class RacingEngine(Decodes, Protocol):
    """What a race needs of the engine."""

    def margin(self, request: Request, written: Sequence[int]) -> Future[Margin]:
        """The two likeliest tokens behind a request's prompt and the first tokens of its reply."""


class KeepsRaces(Protocol):
    """The history of races."""

    def add(self, result: RaceResult) -> None:
        """Keep a race."""

    def last(self, model: ModelInfo, limit: int) -> Sequence[RaceSummary]:
        """The newest races of this model, as it runs here."""

    def summary(self, model: ModelInfo) -> Sequence[SpeedByKind]:
        """The median speed-up of each decoder on each kind of text."""


@dataclass(frozen=True, slots=True)
class RaceState:
    """A race as it stands. The newest heat may still be running; `note` says why one ended early."""

    phase: RacePhase = "idle"
    plan: RacePlan | None = None
    heats: tuple[Heat, ...] = ()
    result: RaceResult | None = None
    note: str = ""

    @property
    def is_running(self) -> bool:
        """Whether the engine is at it."""
        return self.phase in RUNNING


class Race:
    """Runs one race at a time. All methods return at once and may be called from any thread."""

    def __init__(
        self,
        engine: RacingEngine,
        is_chat_busy: Callable[[], bool],
        log: KeepsRaces,
        machine: Callable[[str], str],
    ) -> None:
        """`machine` names what a device of this machine is."""
        self.log = log
        self._engine = engine
        self._is_chat_busy = is_chat_busy
        self._machine_name = machine
        self._state = RaceState()
        self._is_stopping = threading.Event()
        self._current = Reply()
        self._lock = threading.Lock()
        self._thread = threading.Thread()

    @property
    def state(self) -> RaceState:
        """How the race stands."""
        return self._state

    def start(self, plan: RacePlan) -> None:
        """Begin. Raises RaceRefused while a reply or another race is under way."""
        with self._lock:
            if self._state.is_running:
                raise RaceRefused(RACING)
            if self._is_chat_busy():
                raise RaceRefused(BUSY)
            self._is_stopping.clear()
            self._state = RaceState("warming", plan)
            self._thread = threading.Thread(target=self._run, args=(plan,), name="race", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """End the race behind its current step, if there is one."""
        with self._lock:
            self._is_stopping.set()
            self._current.stop()

    def wait(self, timeout: float) -> None:
        """Wait for the end of the race under way."""
        if self._thread.ident:
            self._thread.join(timeout)

    def close(self, timeout: float = 10.0) -> None:
        """Stop, and wait until nothing is kept any more: the engine and the history may go then."""
        self.stop()
        self.wait(timeout)

    def _run(self, plan: RacePlan) -> None:
        """The race's own thread: as in the engine's, every error becomes a sentence."""
        try:
            result = self._raced(plan)
        except AppError as error:
            # Stopped while the model was on its way, the engine ends the lane with a sentence of its own.
            if self._is_stopping.is_set():
                self._end("stopped", STOPPED)
            else:
                self._end("failed", str(error))
        except Exception as error:
            log.exception("a race failed")
            self._end("failed", f"Something went wrong in the race ({error}): please try again.")
        else:
            if result is None:
                self._end("stopped", STOPPED)
            else:
                self._done(result)

    def _raced(self, plan: RacePlan) -> RaceResult | None:
        """The result; None when it was stopped."""
        model = self._warm_up(plan)
        for decoding in self._heats(plan, model):
            if self._is_stopping.is_set():
                return None
            is_beside = decoding not in lanes_of(plan)
            heat = Heat(decoding, Reply(), is_beside)
            self._state = replace(self._state, phase="racing", heats=(*self._state.heats, heat))
            model = self._ride(request_for(plan, decoding), heat.reply).model
        if self._is_stopping.is_set() or model is None:
            return None
        self._state = replace(self._state, phase="judging")
        return self._judged(plan, model)

    def _heats(self, plan: RacePlan, model: ModelInfo | None) -> Iterator[Decoding]:
        """What is run: the plains beside first, so that every lane's speed-up is known when it ends."""
        if model is not None:
            yield from beside(plan, model)
            yield from lanes_of(plan)

    def _warm_up(self, plan: RacePlan) -> ModelInfo | None:
        """Every decoding a little, so that the engine has made what it makes once; None when stopped."""
        model = self._ride(warm_up_for(plan, lanes_of(plan)[0]), Reply()).model
        for decoding in (*lanes_of(plan)[1:], *beside(plan, model)):
            if self._is_stopping.is_set():
                return None
            self._ride(warm_up_for(plan, decoding), Reply())
        return model

    def _ride(self, request: Request, reply: Reply) -> Finished:
        """Run one heat to its end. Raises LaneFailed."""
        with self._lock:
            self._current = reply
            if self._is_stopping.is_set():
                reply.stop()
        self._engine.submit(request, reply)
        *_, last = reply.events()
        if isinstance(last, Failed):
            raise LaneFailed(last.sentence)
        if not isinstance(last, Finished):
            raise LaneFailed("A lane did not come to its end: try the race again.")
        return last

    def _judged(self, plan: RacePlan, model: ModelInfo) -> RaceResult:
        runs = {heat.decoding: read_lane(heat.decoding, heat.reply) for heat in self._state.heats}
        reference = runs[plains_of(plan, model).same_class]
        fastest = fastest_plain(runs.values()) or reference
        lanes = tuple(self._lane(plan, runs[lane], fastest, reference) for lane in lanes_of(plan))
        return RaceResult(plan, model, lanes, fastest, self._machine_name(model.device), __version__, time())

    def _lane(self, plan: RacePlan, run: LaneRun, fastest: LaneRun, reference: LaneRun) -> LaneResult:
        difference = first_difference(run, reference)
        if difference:
            difference = replace(difference, margin=self._margin(plan, run, difference))
        return LaneResult(run, speed_up(run, fastest), difference)

    def _margin(self, plan: RacePlan, run: LaneRun, difference: Difference) -> Margin | None:
        """How close the model's decision was; nothing where it cannot be asked."""
        written = run.token_ids[: difference.index]
        try:
            return self._engine.margin(request_for(plan, run.decoding), written).result(PATIENCE)
        except (AppError, TimeoutError):
            log.warning("the margin at a difference could not be asked", exc_info=True)
            return None

    def _done(self, result: RaceResult) -> None:
        note = ""
        try:
            self.log.add(result)
        except AppError as error:
            note = str(error)
        self._state = replace(self._state, phase="done", result=result, note=note)

    def _end(self, phase: RacePhase, note: str) -> None:
        self._state = replace(self._state, phase=phase, note=note)
