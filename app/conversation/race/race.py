"""Runs races, in which several decoders write replies to the same prompt, in turn and in rounds.

In half precision with `same_text`, the steps of all decoders are padded to row counts that give bitwise identical
results. Padding makes plain decoding slower, so it also runs without padding, and speeds are compared with the
faster of both. But without padding the numbers may be rounded differently, so texts are compared with padded plain
decoding. These two plain decodings are the references. They run in each round, too, if they are not lanes."""

import json
import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, replace
from time import time
from typing import Literal

from app import __version__
from app.conversation.race.lane_comparison import (
    fastest_plain,
    first_difference,
    lane_request,
    median_run,
    read_lane,
    run_to_end,
    speed,
    speed_up,
    warm_up_request,
)
from app.conversation.race.race_log import RaceLog
from app.conversation.reply import Reply
from app.engine import Engine
from app.errors import AppError, RaceRefused, ReplyFailed
from app.settings import assets_dir
from app.values.messages import Decoding, ModelInfo, Request
from app.values.race import Difference, LaneResult, LaneRun, RacePlan, RacePrompt, RaceResult, TextKind
from app.values.reply_statistics import Margin

log = logging.getLogger(__name__)

RacePhase = Literal["idle", "warming", "racing", "judging", "done", "stopped", "failed"]
RUNNING: tuple[RacePhase, ...] = ("warming", "racing", "judging")
ROUNDS = 3
"""Number of runs of each decoding, in turn (A B A B A B), because single runs do not show which is faster."""
HALF = ("bfloat16", "float16")
MARGIN_SECONDS = 60.0
"""Seconds to wait for a margin (see `_margin`). The model must read the prompt and the reply up to a difference."""
BUSY = "A reply is still being written. Wait until it ends, or stop it first."
STOPPED = "The race was stopped. It has no result."
UNKNOWN_MARGINS = "The race was stopped while the texts were compared, so margins may be missing."
REMOTE = "A race needs a model on this machine: choose an installed model first."
RACING = "A race is already running. Wait until it ends, or stop it first."

Runs = Sequence[LaneRun]
"""The runs of one decoding, one for each round."""


@dataclass(frozen=True, slots=True)
class LaneReply:
    """One run of a race and its event log. If `is_reference`, the run is not a lane; the lanes are compared with
    it."""

    lane: Decoding
    reply: Reply
    round: int = 1
    is_reference: bool = False


@dataclass(frozen=True, slots=True)
class RaceState:
    """A snapshot of a race. The newest of `replies` may still be running. `note` says why the race ended early, or
    why its result was not saved."""

    phase: RacePhase = "idle"
    plan: RacePlan | None = None
    replies: tuple[LaneReply, ...] = ()
    result: RaceResult | None = None
    note: str = ""

    @property
    def is_running(self) -> bool:
        return self.phase in RUNNING


class Race:
    """Runs one race at a time. Any thread may call its methods; only `wait` and `close` wait for the race."""

    def __init__(
        self, engine: Engine, is_chat_busy: Callable[[], bool], log: RaceLog, machine: Callable[[str], str]
    ) -> None:
        """Create a race that is idle. `machine` returns the name of a device's processor."""
        self.log = log
        self._engine = engine
        self._is_chat_busy = is_chat_busy
        self._machine_name = machine
        self._state = RaceState()
        self._is_stopping = threading.Event()
        self._current = Reply()
        self._asked: Future[Margin] = Future()
        self._lock = threading.Lock()
        self._thread = threading.Thread()

    @property
    def state(self) -> RaceState:
        return self._state

    def start(self, plan: RacePlan) -> None:
        """Starts a race. Raises RaceRefused while a reply or another race is running, and for a server's model."""
        if plan.model.server:
            raise RaceRefused(REMOTE)
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
        """Asks the race to stop after its current step. A race in phase "judging" ends with its result, but without
        the margins that are still unknown."""
        with self._lock:
            self._is_stopping.set()
            self._current.stop()
            self._asked.cancel()

    def wait(self, timeout: float) -> None:
        if self._thread.ident:
            self._thread.join(timeout)

    def close(self, timeout: float = 10.0) -> None:
        """Stops the race and waits until its thread has ended, at most `timeout` seconds."""
        self.stop()
        self.wait(timeout)

    def _run(self, plan: RacePlan) -> None:
        """Runs the race and saves the result, on the race's thread. Every error becomes a sentence in the state."""
        phase: RacePhase = "done"
        note, result = "", None
        try:
            result = self._race(plan)
            note = UNKNOWN_MARGINS if self._is_stopping.is_set() else ""
        except AppError as error:
            # If the race is stopped while the model loads, the engine fails the reply with a sentence of its own.
            phase, note = ("stopped", STOPPED) if self._is_stopping.is_set() else ("failed", str(error))
        except Exception as error:
            log.exception("a race failed")
            phase, note = "failed", f"The race failed ({error}). Please try again."
        if result:
            try:
                self.log.add(result)
            except AppError as error:
                note = str(error)
        self._state = replace(self._state, phase=phase, note=note, result=result)

    def _race(self, plan: RacePlan) -> RaceResult:
        """Runs the race and returns its result. Raises ReplyFailed if a reply fails or the race is stopped."""
        first, *others = lanes_of(plan)
        model = self._run_lane(warm_up_request(race_request(plan, first)), Reply())
        for lane in (*extra_references(plan, model), *others):
            self._run_lane(warm_up_request(race_request(plan, lane)), Reply())
        for run in _runs(plan, model):
            self._require_going()
            self._state = replace(self._state, phase="racing", replies=(*self._state.replies, run))
            self._run_lane(race_request(plan, run.lane), run.reply)
        self._require_going()
        self._state = replace(self._state, phase="judging")
        return self._compare(plan, model)

    def _require_going(self) -> None:
        if self._is_stopping.is_set():
            raise ReplyFailed(STOPPED)

    def _run_lane(self, request: Request, reply: Reply) -> ModelInfo:
        """Runs a request to its end, and returns the model that it ran on. Raises ReplyFailed."""
        with self._lock:
            self._require_going()
            self._current = reply
        return run_to_end(self._engine, request, reply).model

    def _compare(self, plan: RacePlan, model: ModelInfo) -> RaceResult:
        lanes: dict[Decoding, list[LaneRun]] = {}
        for each in self._state.replies:
            lanes.setdefault(each.lane, []).append(read_lane(each.lane, each.reply))
        reference = lanes[text_reference(plan)]
        fastest = fastest_plain(lanes.values()) or reference
        results = tuple(self._lane(plan, lanes[lane], fastest, reference) for lane in lanes_of(plan))
        machine = self._machine_name(model.device)
        return RaceResult(plan, model, results, median_run(fastest), machine, __version__, time())

    def _lane(self, plan: RacePlan, column: Runs, fastest: Runs, reference: Runs) -> LaneResult:
        speeds, ratio = tuple(map(speed, column)), speed_up(column, fastest)
        for run, plain in zip(column, reference, strict=True):
            if difference := first_difference(run, plain):
                difference = replace(difference, margin=self._margin(plan, run, difference))
                return LaneResult(run, speeds, ratio, difference)
        return LaneResult(median_run(column), speeds, ratio)

    def _margin(self, plan: RacePlan, run: LaneRun, difference: Difference) -> Margin | None:
        """Returns the model's two likeliest tokens at the difference, and their margin; None if the race is
        stopped, or the engine fails or needs more than MARGIN_SECONDS."""
        written = run.token_ids[: difference.index]
        with self._lock:
            if self._is_stopping.is_set():
                return None
            self._asked = self._engine.margin(race_request(plan, run.decoding), written)
        try:
            return self._asked.result(MARGIN_SECONDS)
        except (AppError, TimeoutError, CancelledError):
            self._asked.cancel()
            log.warning("the margin at a difference is unknown", exc_info=True)
            return None


def _runs(plan: RacePlan, model: ModelInfo) -> Iterator[LaneReply]:
    """Yields every run of the race.

    In each round the references run first, so that a lane's speed-up is known when the lane ends."""
    references = extra_references(plan, model)
    for number in range(1, ROUNDS + 1):
        yield from (LaneReply(each, Reply(), number, is_reference=True) for each in references)
        yield from (LaneReply(each, Reply(), number) for each in lanes_of(plan))


def lanes_of(plan: RacePlan) -> tuple[Decoding, ...]:
    return tuple(replace(lane, same_text=plan.same_text) for lane in plan.lanes)


def text_reference(plan: RacePlan) -> Decoding:
    """Returns the plain decoding with which texts are compared. It has the plan's `same_text`, and may be a
    lane."""
    lane = next((lane for lane in lanes_of(plan) if lane.decoder == "plain"), None)
    return lane or Decoding("plain", same_text=plan.same_text)


def extra_references(plan: RacePlan, model: ModelInfo) -> tuple[Decoding, ...]:
    """Returns the plain decodings to run besides the lanes: unpadded to compare speeds, padded to compare texts."""
    is_padded = plan.same_text and model.dtype in HALF
    one_row = (Decoding("plain", same_text=False),) if is_padded else ()
    return tuple(plain for plain in (*one_row, text_reference(plan)) if plain not in lanes_of(plan))


def race_request(plan: RacePlan, lane: Decoding) -> Request:
    return lane_request(plan.model, plan.messages, plan.options, lane)


def ready_prompts() -> tuple[RacePrompt, ...]:
    """Reads the prompts of assets/race/prompts.jsonl, one `{"kind": "code", "text": "..."}` a line."""
    lines = (assets_dir() / "race" / "prompts.jsonl").read_text(encoding="utf-8").splitlines()
    return tuple(RacePrompt(**json.loads(line)) for line in lines if line.strip())


def next_prompt(prompts: tuple[RacePrompt, ...], kind: TextKind, text: str) -> str:
    """Returns the prompt of this kind after the prompt `text`, or else the first; "" if the kind has none."""
    texts = [prompt.text for prompt in prompts if prompt.kind == kind]
    if not texts:
        return ""
    return texts[(texts.index(text) + 1) % len(texts)] if text in texts else texts[0]
