"""The runs of `bench`: every lane on the same prompts, in turn, so that the machine's drift cancels out."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import mean

from app.commands.console import progress_bar
from app.commands.prompts import PromptItem, PromptSet
from app.conversation import Reply, ReplyEngine
from app.conversation.decoder_comparison import (
    Lane,
    first_difference,
    lane_request,
    read_lane,
    run_to_end,
    speed_up,
    warm_up_request,
)
from app.messages import ModelChoice, ModelInfo, Options, Request
from app.race_messages import LaneRun


@dataclass(frozen=True, slots=True)
class BenchPlan:
    """What is compared: lanes, in turn, over the prompts of each set, for a number of rounds."""

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
        """The index of the plain lane, the reference for speed."""
        return next((i for i, lane in enumerate(self.lanes) if lane.decoding.decoder == "plain"), None)

    def request(self, item: PromptItem, lane: Lane) -> Request:
        """The request for one prompt in one lane."""
        return lane_request(self.model, item.prompt, item.options(self.options), lane.decoding)


@dataclass(frozen=True, slots=True)
class LaneNumbers:
    """One lane's numbers. The speed is the median over replies of their speed-up over plain."""

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
    results: tuple[LaneNumbers, ...]
    model: ModelInfo


def measure(engine: ReplyEngine, plan: BenchPlan) -> Iterator[SetResults]:
    """Yields each set's results as soon as they are measured. Raises ReplyFailed."""
    model = _warm_up(engine, plan)
    for prompt_set in plan.sets:
        columns = list(zip(*_runs(engine, plan, prompt_set), strict=True))
        reference = columns[plan.plain or 0]
        results = tuple(
            _numbers(lane.name, column, reference, plan.plain is not None)
            for lane, column in zip(plan.lanes, columns, strict=True)
        )
        yield SetResults(prompt_set.name, len(prompt_set.prompts), results, model)


def means(sets: Sequence[SetResults]) -> tuple[LaneNumbers, ...]:
    """Each lane's means over the sets; every set has the same weight."""
    return tuple(_mean(column) for column in zip(*(one.results for one in sets), strict=True))


def _warm_up(engine: ReplyEngine, plan: BenchPlan) -> ModelInfo:
    item = plan.sets[0].prompts[0]
    requests = [warm_up_request(plan.request(item, lane)) for lane in plan.lanes]
    return [run_to_end(engine, request, Reply()).model for request in requests][-1]


def _runs(engine: ReplyEngine, plan: BenchPlan, prompt_set: PromptSet) -> Iterator[list[LaneRun]]:
    """Yields one run of each lane for every round, prompt and turn: A B A B. Chats go on behind plain's reply."""
    turns = sum(1 + len(item.later_turns) for item in prompt_set.prompts)
    total = plan.rounds * turns * len(plan.lanes)
    with progress_bar() as bar:
        task = bar.add_task(f"Benchmark: {prompt_set.name}", total=total)
        for _ in range(plan.rounds):
            for item in prompt_set.prompts:
                turn: PromptItem | None = item
                while turn:
                    runs = []
                    for lane in plan.lanes:
                        reply = Reply()
                        run_to_end(engine, plan.request(turn, lane), reply)
                        runs.append(read_lane(lane.decoding, reply))
                        bar.advance(task)
                    yield runs
                    turn = turn.next_turn(runs[plan.plain or 0].text)


def _numbers(
    lane: str, column: Sequence[LaneRun], reference: Sequence[LaneRun], has_plain: bool
) -> LaneNumbers:
    statistics = [run.statistics for run in column]
    steps = sum(one.steps for one in statistics) or 1
    seconds = sum(one.seconds for one in statistics)
    tokens = sum(one.tokens for one in statistics)
    return LaneNumbers(
        decoder=lane,
        tokens_per_step=tokens / steps,
        tokens_per_second=tokens / seconds if seconds else 0.0,
        ms_per_step=1000 * seconds / steps,
        rows_per_step=sum(one.rows for one in statistics) / steps,
        hit_rate=sum(one.hits for one in statistics) / steps,
        speed_vs_plain=speed_up(column, reference).median or None if has_plain else None,
        identical=all(first_difference(*pair) is None for pair in zip(column, reference, strict=True)),
    )


def _mean(results: Sequence[LaneNumbers]) -> LaneNumbers:
    speeds = [result.speed_vs_plain for result in results if result.speed_vs_plain is not None]
    return LaneNumbers(
        decoder=results[0].decoder,
        tokens_per_step=mean(result.tokens_per_step for result in results),
        tokens_per_second=mean(result.tokens_per_second for result in results),
        ms_per_step=mean(result.ms_per_step for result in results),
        rows_per_step=mean(result.rows_per_step for result in results),
        hit_rate=mean(result.hit_rate for result in results),
        speed_vs_plain=mean(speeds) if speeds else None,
        identical=all(result.identical for result in results),
    )
