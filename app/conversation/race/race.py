"""A race: one prompt through several decoders, in turn and in rounds on the one engine, on the race's own thread.

    warm-up of every lane -> (references -> lanes -> remote) * rounds -> margins at differences -> the history

Each run is a reply of its own. `state` is an immutable snapshot; readers follow the replies' logs themselves. The
engine has nothing to do while a server writes the remote lane, and the other way round.
"""

import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from time import time
from typing import Literal, Protocol

from app import __version__
from app.conversation.engine_protocol import ReplyEngine
from app.conversation.race.decoder_comparison import (
    fastest_plain,
    first_difference,
    median_run,
    read_lane,
    speed,
    speed_up,
    warm_up_request,
)
from app.conversation.race.lane_runners import AskServer, EngineRunner, LaneRunner, ServerRunner
from app.conversation.race.race_setup import (
    all_lanes_of,
    extra_references,
    lanes_of,
    plain_references,
    race_request,
)
from app.conversation.race.remote_lane import remote_result, remote_run
from app.conversation.reply import Reply
from app.errors import AppError, RaceRefused
from app.values.messages import Decoding, ModelChoice, ModelInfo, Request
from app.values.race import (
    Difference,
    LaneResult,
    RacePlan,
    RaceResult,
    RaceSummary,
    RemoteResult,
    SpeedByKind,
)
from app.values.race_runs import LaneChoice, LaneRun
from app.values.trace import Margin

log = logging.getLogger(__name__)

RacePhase = Literal["idle", "warming", "racing", "judging", "done", "stopped", "failed"]
RUNNING: tuple[RacePhase, ...] = ("warming", "racing", "judging")
ROUNDS = 3
"""How often each decoding runs, in turn (A B A B A B): one run alone says nothing about which is faster."""
BUSY = "A reply is still being written. Wait until it ends, or stop it first."
MARGIN_SECONDS = 60.0
"""How long to wait for a margin: the model reads the prompt and the reply up to there again."""
STOPPED = "The race was stopped. It has no result."
REMOTE = (
    "The lanes race on a model of this machine: choose an installed one first. {name} can be the remote lane."
)
RACING = "A race is already running. Wait until it ends, or stop it first."


class RacingEngine(ReplyEngine, Protocol):
    """What a race needs of the engine."""

    def margin(self, request: Request, written: Sequence[int]) -> Future[Margin]:
        """The two likeliest tokens after a request's prompt and the first tokens of its reply."""


class RaceHistory(Protocol):
    """The finished races: `app.conversation.race.race_log.RaceLog`, or a list in tests."""

    def add(self, result: RaceResult) -> None:
        """Saves a race."""

    def last(self, model: ModelInfo, limit: int) -> Sequence[RaceSummary]:
        """The newest races of this model with its dtype, device and quantisation."""

    def summary(self, model: ModelInfo) -> Sequence[SpeedByKind]:
        """The median speed-up of each decoder on each kind of text."""


Runs = Sequence[LaneRun]
"""The runs of one decoding, one for each round."""


@dataclass(frozen=True, slots=True)
class LaneReply:
    """One run of a race and its event log. `is_reference` for a run that is no lane and only measured against."""

    lane: LaneChoice
    reply: Reply
    round: int = 1
    is_reference: bool = False


@dataclass(frozen=True, slots=True)
class RaceState:
    """A snapshot of a race. The newest of `replies` may still be running; `note` tells why a race ended early."""

    phase: RacePhase = "idle"
    plan: RacePlan | None = None
    replies: tuple[LaneReply, ...] = ()
    result: RaceResult | None = None
    note: str = ""

    @property
    def is_running(self) -> bool:
        """Whether the race is running."""
        return self.phase in RUNNING


class Race:
    """Runs one race at a time. All methods return at once and may be called from any thread."""

    def __init__(
        self,
        engine: RacingEngine,
        is_chat_busy: Callable[[], bool],
        log: RaceHistory,
        machine: Callable[[str], str],
        ask_server: AskServer,
    ) -> None:
        """`machine` gives the name of a device's processor. `ask_server` has a server write a reply."""
        self.log = log
        self._engine = engine
        self._is_chat_busy = is_chat_busy
        self._machine_name = machine
        self._ask_server = ask_server
        self._runners: Mapping[ModelChoice, LaneRunner] = {}
        self._state = RaceState()
        self._is_stopping = threading.Event()
        self._current = Reply()
        self._lock = threading.Lock()
        self._thread = threading.Thread()

    @property
    def state(self) -> RaceState:
        """The current snapshot."""
        return self._state

    def start(self, plan: RacePlan) -> None:
        """Starts a race. Raises RaceRefused while a reply or another race is running, and for a server's model."""
        if plan.model.server:
            raise RaceRefused(REMOTE.format(name=plan.model.name))
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
        """Stops the race after its current step, if there is one."""
        with self._lock:
            self._is_stopping.set()
            self._current.stop()

    def wait(self, timeout: float) -> None:
        """Waits until the race has ended."""
        if self._thread.ident:
            self._thread.join(timeout)

    def close(self, timeout: float = 10.0) -> None:
        """Stops, and waits until nothing more is saved. Then engine and history may be closed."""
        self.stop()
        self.wait(timeout)

    def _run(self, plan: RacePlan) -> None:
        """The race's thread. Every error becomes a sentence in the state."""
        try:
            result = self._race(plan)
        except AppError as error:
            # When it is stopped while the model loads, the engine fails the reply with a sentence of its own.
            if self._is_stopping.is_set():
                self._end("stopped", STOPPED)
            else:
                self._end("failed", str(error))
        except Exception as error:
            log.exception("a race failed")
            self._end("failed", f"The race failed ({error}). Please try again.")
        else:
            if result is None:
                self._end("stopped", STOPPED)
            else:
                self._done(result)

    def _race(self, plan: RacePlan) -> RaceResult | None:
        """Runs the race. Returns None when it was stopped."""
        here = EngineRunner(self._engine)
        self._runners = {plan.model: here} | {one: ServerRunner(self._ask_server) for one in plan.remote}
        model = self._warm_up(plan)
        if model is None:
            return None
        for lane in _runs(plan, model):
            if self._is_stopping.is_set():
                return None
            self._state = replace(self._state, phase="racing", replies=(*self._state.replies, lane))
            self._run_lane(race_request(plan, lane.lane), lane.reply)
        if self._is_stopping.is_set():
            return None
        self._state = replace(self._state, phase="judging")
        return self._compare(plan, model)

    def _warm_up(self, plan: RacePlan) -> ModelInfo | None:
        """Runs every lane for a few tokens, so that everything is set up. Returns None when it was stopped."""
        first, *others = all_lanes_of(plan)
        model = self._run_lane(warm_up_request(race_request(plan, first)), Reply())
        for lane in (*extra_references(plan, model), *others):
            if self._is_stopping.is_set():
                return None
            self._run_lane(warm_up_request(race_request(plan, lane)), Reply())
        return model

    def _run_lane(self, request: Request, reply: Reply) -> ModelInfo:
        """Runs one lane to its end, and returns the model that it ran on. Raises ReplyFailed."""
        with self._lock:
            self._current = reply
            if self._is_stopping.is_set():
                reply.stop()
        return self._runners[request.model].run(request, reply)

    def _compare(self, plan: RacePlan, model: ModelInfo) -> RaceResult:
        columns: dict[LaneChoice, list[Reply]] = {}
        for each in self._state.replies:
            columns.setdefault(each.lane, []).append(each.reply)
        lanes, remote = _here(columns), tuple(_remote(columns))
        reference = lanes[plain_references(plan, model).same_bucket]
        fastest = fastest_plain(lanes.values()) or reference
        results = tuple(self._lane(plan, lanes[lane], fastest, reference) for lane in lanes_of(plan))
        machine = self._machine_name(model.device)
        return RaceResult(plan, model, results, median_run(fastest), machine, __version__, time(), remote)

    def _lane(self, plan: RacePlan, column: Runs, fastest: Runs, reference: Runs) -> LaneResult:
        speeds, ratio = tuple(map(speed, column)), speed_up(column, fastest)
        for run, plain in zip(column, reference, strict=True):
            if difference := first_difference(run, plain):
                difference = replace(difference, margin=self._margin(plan, run, difference))
                return LaneResult(run, speeds, ratio, difference)
        return LaneResult(median_run(column), speeds, ratio)

    def _margin(self, plan: RacePlan, run: LaneRun, difference: Difference) -> Margin | None:
        """How close the model's decision was; None where the model cannot tell."""
        written = run.token_ids[: difference.index]
        try:
            return self._engine.margin(race_request(plan, run.decoding), written).result(MARGIN_SECONDS)
        except (AppError, TimeoutError):
            log.warning("the margin at a difference is unknown", exc_info=True)
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


def _runs(plan: RacePlan, model: ModelInfo) -> Iterator[LaneReply]:
    """Every run of the race. References first, so that every lane's speed-up is known when it ends."""
    references = extra_references(plan, model)
    for number in range(1, ROUNDS + 1):
        yield from (LaneReply(each, Reply(), number, is_reference=True) for each in references)
        yield from (LaneReply(each, Reply(), number) for each in all_lanes_of(plan))


def _here(replies: Mapping[LaneChoice, Sequence[Reply]]) -> dict[Decoding, Runs]:
    """The runs of each decoding on this machine."""
    return {
        lane: [read_lane(lane, reply) for reply in column]
        for lane, column in replies.items()
        if isinstance(lane, Decoding)
    }


def _remote(replies: Mapping[LaneChoice, Sequence[Reply]]) -> Iterator[RemoteResult]:
    """What came of each model on a server."""
    for lane, column in replies.items():
        if isinstance(lane, ModelChoice):
            yield remote_result([remote_run(lane, reply.wait(0, timeout=0)) for reply in column])
