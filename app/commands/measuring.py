"""The lanes of `bench` on the same prompts in one process, in turn, so that the machine's drift cancels."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import mean, median

from rich.progress import Progress, TaskID

from app.commands.bars import progress_bar
from app.commands.lanes import Lane
from app.commands.prompts import Asked, PromptSet
from app.commands.replying import Outcome, follow_quietly, outcome
from app.conversation import ReplyEngine
from app.messages import ModelChoice, ModelInfo, Options, Request

WARM_UP_TOKENS = 16


@dataclass(frozen=True, slots=True)
class Plan:
    """What is compared: lanes, in turn, over the prompts of each set, so many rounds."""

    model: ModelChoice
    sets: Sequence[PromptSet]
    lanes: Sequence[Lane]
    options: Options
    rounds: int

    def __post_init__(self) -> None:
        names = [lane.name for lane in self.lanes]
        if self.rounds < 1:
            raise ValueError(f"rounds must be at least 1, got {self.rounds}")
        if not names or len(set(names)) != len(names):
            raise ValueError(f"decoders must be different ones, got {','.join(names) or 'none'}")
        if not self.sets or not all(one.prompts for one in self.sets):
            raise ValueError(f"there must be prompts in each set, got {[one.name for one in self.sets]}")

    @property
    def plain(self) -> int | None:
        """Which lane is plain decoding, the measure of speed."""
        return next((i for i, lane in enumerate(self.lanes) if lane.decoding.decoder == "plain"), None)

    def requests(self, asked: Asked) -> list[Request]:
        """One request for each lane, over the same prompt."""
        options = asked.options(self.options)
        return [
            Request(self.model, asked.prompt, replace(options, decoding=lane.decoding), is_cold=True)
            for lane in self.lanes
        ]


@dataclass(frozen=True, slots=True)
class Result:
    """One lane's numbers. Speed is the median over replies of plain's seconds per token over its own."""

    decoder: str
    tokens_per_step: float
    tokens_per_second: float
    ms_per_step: float
    rows_per_step: float
    hit_rate: float
    speed_vs_plain: float | None
    identical: bool


@dataclass(frozen=True, slots=True)
class SetResults:
    """The lanes' numbers over one prompt set, and the model that they were measured on."""

    name: str
    prompts: int
    results: tuple[Result, ...]
    model: ModelInfo


def measure(engine: ReplyEngine, plan: Plan) -> Iterator[SetResults]:
    """Each set's results as soon as they are there."""
    _warm_up(engine, plan)
    for prompt_set in plan.sets:
        columns = list(zip(*_runs(engine, plan, prompt_set), strict=True))
        reference = columns[plan.plain or 0]
        results = tuple(
            _result(lane.name, column, reference, plan.plain is not None)
            for lane, column in zip(plan.lanes, columns, strict=True)
        )
        yield SetResults(prompt_set.name, len(prompt_set.prompts), results, columns[0][0].finished.model)


def means(sets: Sequence[SetResults]) -> tuple[Result, ...]:
    """Each lane's mean over the sets, every set counting the same."""
    return tuple(_mean(column) for column in zip(*(one.results for one in sets), strict=True))


def _warm_up(engine: ReplyEngine, plan: Plan) -> None:
    tokens = min(WARM_UP_TOKENS, plan.options.max_new_tokens)
    for request in plan.requests(plan.sets[0].prompts[0]):
        _run(engine, replace(request, options=replace(request.options, max_new_tokens=tokens)))


def _runs(engine: ReplyEngine, plan: Plan, prompt_set: PromptSet) -> Iterator[list[Outcome]]:
    """For each round and prompt, one outcome a lane: A B A B."""
    total = plan.rounds * len(prompt_set.prompts) * len(plan.lanes)
    with progress_bar() as bar:
        task = bar.add_task(f"Benchmark: {prompt_set.name}", total=total)
        for _ in range(plan.rounds):
            for asked in prompt_set.prompts:
                yield [_counted(engine, request, bar, task) for request in plan.requests(asked)]


def _counted(engine: ReplyEngine, request: Request, bar: Progress, task: TaskID) -> Outcome:
    result = _run(engine, request)
    bar.advance(task)
    return result


def _run(engine: ReplyEngine, request: Request) -> Outcome:
    return outcome(request, list(follow_quietly(engine, request)))


def _result(lane: str, column: Sequence[Outcome], reference: Sequence[Outcome], has_plain: bool) -> Result:
    numbers = [item.finished.statistics for item in column]
    steps = sum(item.steps for item in numbers) or 1
    seconds = sum(item.seconds for item in numbers)
    tokens = sum(item.tokens for item in numbers)
    return Result(
        decoder=lane,
        tokens_per_step=tokens / steps,
        tokens_per_second=tokens / seconds if seconds else 0.0,
        ms_per_step=1000 * seconds / steps,
        rows_per_step=sum(item.rows for item in numbers) / steps,
        hit_rate=sum(item.hits for item in numbers) / steps,
        speed_vs_plain=_speed(column, reference) if has_plain else None,
        identical=all(a.token_ids == b.token_ids for a, b in zip(column, reference, strict=True)),
    )


def _speed(column: Sequence[Outcome], reference: Sequence[Outcome]) -> float | None:
    pairs = [
        (item.finished.statistics.tokens_per_second, plain.finished.statistics.tokens_per_second)
        for item, plain in zip(column, reference, strict=True)
    ]
    ratios = [mine / plain for mine, plain in pairs if plain]
    return median(ratios) if ratios else None


def _mean(results: Sequence[Result]) -> Result:
    speeds = [result.speed_vs_plain for result in results if result.speed_vs_plain is not None]
    return Result(
        decoder=results[0].decoder,
        tokens_per_step=mean(result.tokens_per_step for result in results),
        tokens_per_second=mean(result.tokens_per_second for result in results),
        ms_per_step=mean(result.ms_per_step for result in results),
        rows_per_step=mean(result.rows_per_step for result in results),
        hit_rate=mean(result.hit_rate for result in results),
        speed_vs_plain=mean(speeds) if speeds else None,
        identical=all(result.identical for result in results),
    )
