"""An engine whose decoders each say what they are told, at speeds of their own, and what else a race needs."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from itertools import cycle

from app.conversation import Reply
from app.conversation.race.race import Race
from app.errors import AppError
from app.values.messages import (
    Decoding,
    Failed,
    Finished,
    ModelChoice,
    ModelInfo,
    Options,
    Piece,
    Prefilling,
    Request,
    Statistics,
)
from app.values.race import RacePlan, RacePrompt, RaceResult, RaceSummary, SpeedByKind
from app.values.reply_statistics import Margin
from tests.fakes import DEMO, ScriptedEngine

HALF = replace(DEMO, dtype="bfloat16")
TEXT = "one two three four five six seven eight"
PLAIN, AUTO = Decoding("plain"), Decoding("auto")
LOOKAHEAD, JACOBI = Decoding("lookahead"), Decoding("jacobi", window=8)


class LaneEngine:
    """Writes at once. Plain takes 10 ms a word, 20 ms where same text pads it; the others 12 ms for two words.

    `paces` has other seconds a word for decoders, in turn; `single` ones write one word a step."""

    def __init__(
        self,
        model: ModelInfo = DEMO,
        texts: dict[str, str] | None = None,
        paces: dict[str, Sequence[float]] | None = None,
        single: tuple[str, ...] = ("plain",),
    ) -> None:
        self.model = model
        self.texts = texts or {}
        self.single = single
        self.paces = {decoder: cycle(each) for decoder, each in (paces or {}).items()}
        self.failure = ""
        self.requests: list[Request] = []
        self.on_submit: Callable[[Request], None] = lambda _request: None
        self.closeness: Margin | None = None
        self.weighed: list[tuple[Request, tuple[int, ...]]] = []

    def submit(self, request: Request, reply: Reply) -> None:
        self.requests.append(request)
        self.on_submit(request)
        if self.failure:
            reply.append(Failed(self.failure))
            return
        decoding = request.options.decoding
        words = self.texts.get(decoding.decoder, TEXT).split()[: request.options.max_new_tokens]
        reply.append(Prefilling(9, 9))
        statistics = Statistics(prompt_tokens=9, time_to_first_token=0.05)
        reply.append(_piece(words[:1], statistics))
        at_once, seconds, seconds_a_word = self._pace(decoding)
        for start in range(1, len(words), at_once):
            step = words[start : start + at_once]
            statistics = replace(
                statistics,
                tokens=statistics.tokens + len(step),
                steps=statistics.steps + 1,
                rows=statistics.rows + (1 if at_once == 1 else 21),
                seconds=statistics.seconds + seconds + seconds_a_word * len(step),
            )
            reply.append(_piece(step, statistics))
        reason = "stopped" if reply.is_stopping else "eos"
        reply.append(Finished(reason, statistics, self.model, decoding.decoder))

    def margin(self, request: Request, written: Sequence[int]) -> Future[Margin]:
        """`closeness`, whatever is asked."""
        self.weighed.append((request, tuple(written)))
        answer: Future[Margin] = Future()
        if self.closeness:
            answer.set_result(self.closeness)
        else:
            answer.set_exception(AppError("No model is loaded."))
        return answer

    def _pace(self, decoding: Decoding) -> tuple[int, float, float]:
        """Words a step, seconds a step, and seconds a word."""
        at_once = 1 if decoding.decoder in self.single else 2
        if decoding.decoder in self.paces:
            return at_once, 0.0, next(self.paces[decoding.decoder])
        if decoding.decoder != "plain":
            return at_once, 0.012, 0.0
        is_padded = decoding.same_text and self.model.dtype != "float32"
        return 1, 0.020 if is_padded else 0.010, 0.0


class SlowEngine(ScriptedEngine):
    """Writes on a thread of its own, word by word, and knows no margins."""

    def margin(self, _request: Request, _written: Sequence[int]) -> Future[Margin]:
        answer: Future[Margin] = Future()
        answer.set_exception(AppError("No model is loaded."))
        return answer


def _piece(words: list[str], statistics: Statistics) -> Piece:
    text = "".join(f"{word} " for word in words)
    ends = tuple(len("".join(f"{word} " for word in words[: i + 1])) for i in range(len(words)))
    # A word's id is the word itself, as a number.
    ids = tuple(int.from_bytes(word.encode()) for word in words)
    return Piece(text, ids, ("model",) * len(words), statistics, ends)


class RememberedRaces:
    def __init__(self) -> None:
        self.results: list[RaceResult] = []

    def add(self, result: RaceResult) -> None:
        self.results.append(result)

    def last(self, model: ModelInfo, limit: int) -> list[RaceSummary]:
        mine = [result for result in self.results if result.model == model]
        return [RaceSummary(one.at, one.plan.prompt.kind, one.plan.prompt.text, ()) for one in mine[-limit:]]

    def summary(self, model: ModelInfo) -> list[SpeedByKind]:
        mine = [result for result in self.results if result.model == model]
        return [
            SpeedByKind(one.plan.prompt.kind, lane.run.name, lane.speed_up.median, 2.0, 1)
            for one in mine
            for lane in one.lanes
        ]


def make_plan(*lanes: Decoding, same_text: bool = True, tokens: int = 64, text: str = "Say it.") -> RacePlan:
    """A race of these lanes; plain and auto where none are named."""
    options = Options(decoding=Decoding(same_text=same_text), max_new_tokens=tokens)
    prompt = RacePrompt("code", text)
    return RacePlan(prompt, lanes or (PLAIN, AUTO), options, ModelChoice("demo"))


def make_race(engine: LaneEngine | SlowEngine, is_chat_busy: Callable[[], bool] = lambda: False) -> Race:
    """A race on this engine, with a history in a list."""
    return Race(engine, is_chat_busy, RememberedRaces(), lambda device: f"a {device}")


def run_race(engine: LaneEngine, plan: RacePlan) -> RaceResult:
    """The result of a race that is run to its end."""
    race = make_race(engine)
    race.start(plan)
    race.wait(300)
    result = race.state.result
    assert result is not None, race.state.note
    return result
