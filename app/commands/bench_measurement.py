"""Runs `bench`: contestants answer prompts in turn, so that changes of the machine's speed affect all alike."""

from collections.abc import Callable, Iterator, MutableMapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from statistics import mean, median

from app.commands.console import progress_bar
from app.commands.prompts import PromptItem, PromptSet
from app.conversation import Reply, ReplyEngine
from app.conversation.race.lane_comparison import Lane, lane_request, read_lane, run_to_end, warm_up_options
from app.values.messages import ModelChoice, Options, Prompt


@dataclass(frozen=True, slots=True)
class BenchRun:
    """A contestant's reply. `token_ids` has all tokens; the numbers exclude the prefill and the first token."""

    token_ids: tuple[int, ...]
    tokens: int
    steps: int
    seconds: float
    rows: int = 0
    hits: int = 0
    text: str = ""

    @property
    def tokens_per_second(self) -> float:
        """The speed of decoding; 0.0 if it is unknown because no step followed the prefill."""
        return self.tokens / self.seconds if self.steps and self.seconds else 0.0


@dataclass(frozen=True, slots=True)
class Contestant:
    """A decoder that answers prompts.

    `settings` describes everything that its runs depend on: the model and the decoder's sizes."""

    name: str
    settings: str
    answer: Callable[[Prompt, Options], BenchRun]
    is_plain: bool = False

    def key(self, place: str, prompt: Prompt, options: Options) -> str:
        """Return a run's key: `place`, the contestant's name, and a hash of its settings, prompt and options."""
        digest = sha256(repr((self.settings, prompt, options)).encode("utf-8", "surrogatepass")).hexdigest()
        return f"{place}, {self.name}, {digest[:16]}"


@dataclass(frozen=True, slots=True)
class BenchPlan:
    sets: Sequence[PromptSet]
    contestants: Sequence[Contestant]
    options: Options
    rounds: int

    def __post_init__(self) -> None:
        names = [one.name for one in self.contestants]
        if self.rounds < 1:
            raise ValueError(f"the number of rounds must be at least 1; it is {self.rounds}")
        if not names or len(set(names)) != len(names):
            raise ValueError(f"decoders must differ from each other; they are “{','.join(names)}”")
        if not self.sets or not all(one.prompts for one in self.sets):
            empty = ", ".join(one.name for one in self.sets if not one.prompts)
            raise ValueError(f"each set must have prompts; there are none in {empty or 'the list of sets'}")

    @property
    def plain(self) -> int | None:
        """The index of the plain contestant, the reference for speed; None if there is none."""
        return next((i for i, one in enumerate(self.contestants) if one.is_plain), None)


@dataclass(frozen=True, slots=True)
class LaneNumbers:
    """One contestant's results for a set, or their means over the sets.

    `speeds` has a ratio for each contestant: the median over replies of this contestant's tokens/s divided by the
    other's. The reference is plain, or else the first contestant. `same_text` is the share of replies that have
    exactly the reference's tokens, and `identical` is whether all replies have them."""

    decoder: str
    tokens_per_step: float
    tokens_per_second: float
    ms_per_step: float
    rows_per_step: float
    hit_rate: float
    speed_vs_plain: float | None
    identical: bool
    same_text: float
    speeds: dict[str, float]


AVERAGED = ("tokens_per_step", "tokens_per_second", "ms_per_step", "rows_per_step", "hit_rate", "same_text")


@dataclass(frozen=True, slots=True)
class SetResults:
    """The results of all contestants over one prompt set; `replies` is the number of replies of each contestant."""

    name: str
    prompts: int
    results: tuple[LaneNumbers, ...]
    replies: int


def engine_contestant(engine: ReplyEngine, model: ModelChoice, lane: Lane) -> Contestant:
    """Make a contestant of one of the app's decoders. No reply reuses an earlier reply's cache."""

    def answer(prompt: Prompt, options: Options) -> BenchRun:
        reply = Reply()
        run_to_end(engine, lane_request(model, prompt, options, lane.decoding), reply)
        run = read_lane(lane.decoding, reply)
        numbers = run.statistics
        return BenchRun(
            run.token_ids,
            numbers.tokens,
            numbers.steps,
            numbers.seconds,
            numbers.rows,
            numbers.hits,
            run.text,
        )

    return Contestant(lane.name, f"{model} {lane.decoding}", answer, lane.decoding.decoder == "plain")


Runs = MutableMapping[str, BenchRun]
"""Runs by their keys. A run with a known key is not measured again."""


def measure(plan: BenchPlan, known: Runs) -> Iterator[SetResults]:
    """Measure the sets, and yield the results of each set as soon as it is measured. Adds runs to `known`.

    Raises ReplyFailed."""
    item = plan.sets[0].prompts[0]
    for contestant in plan.contestants:  # a warm-up keeps most one-time work out of the measured runs
        contestant.answer(item.prompt, warm_up_options(item.options(plan.options)))
    for prompt_set in plan.sets:
        columns = list(zip(*_runs(plan, prompt_set, known), strict=True))
        results = tuple(_numbers(plan, columns, place) for place in range(len(columns)))
        yield SetResults(prompt_set.name, len(prompt_set.prompts), results, len(columns[0]))


def means(sets: Sequence[SetResults]) -> tuple[LaneNumbers, ...]:
    """Return each contestant's means over the sets; every set has the same weight."""
    return tuple(_mean(column) for column in zip(*(one.results for one in sets), strict=True))


def _runs(plan: BenchPlan, prompt_set: PromptSet, known: Runs) -> Iterator[list[BenchRun]]:
    """Yield a list with a run of each contestant for every turn of every prompt, in each round.

    A chat's next turn follows the reply of the plain contestant, or else of the first contestant."""
    turns = sum(1 + len(item.later_turns) for item in prompt_set.prompts)
    with progress_bar() as bar:
        task = bar.add_task(
            f"Benchmark: {prompt_set.name}", total=plan.rounds * turns * len(plan.contestants)
        )
        for number in range(plan.rounds):
            for question, item in enumerate(prompt_set.prompts):
                place = f"{prompt_set.name} {question + 1}, round {number + 1}"
                for runs in _chat(plan, item, place, known):
                    bar.advance(task, len(runs))
                    yield runs


def _chat(plan: BenchPlan, item: PromptItem, place: str, known: Runs) -> Iterator[list[BenchRun]]:
    """Yield a list with a run of each contestant, known or measured, for every turn of a chat."""
    turn: PromptItem | None = item
    while turn:
        options, runs = turn.options(plan.options), list[BenchRun]()
        for one in plan.contestants:
            key = one.key(place, turn.prompt, options)
            if key not in known:
                known[key] = one.answer(turn.prompt, options)
            runs.append(known[key])
        yield runs
        turn = turn.next_turn(runs[plan.plain or 0].text)


def _numbers(plan: BenchPlan, columns: Sequence[Sequence[BenchRun]], place: int) -> LaneNumbers:
    runs, reference = columns[place], columns[plan.plain or 0]
    steps = sum(run.steps for run in runs) or 1
    seconds, tokens = sum(run.seconds for run in runs), sum(run.tokens for run in runs)
    same = [run.token_ids == other.token_ids for run, other in zip(runs, reference, strict=True)]
    names = [one.name for one in plan.contestants]
    return LaneNumbers(
        decoder=names[place],
        tokens_per_step=tokens / steps,
        tokens_per_second=tokens / seconds if seconds else 0.0,
        ms_per_step=1000 * seconds / steps,
        rows_per_step=sum(run.rows for run in runs) / steps,
        hit_rate=sum(run.hits for run in runs) / steps,
        speed_vs_plain=None if plan.plain is None else _speed(runs, reference) or None,
        identical=all(same),
        same_text=mean(same),
        speeds={name: _speed(runs, column) for name, column in zip(names, columns, strict=True)},
    )


def _speed(runs: Sequence[BenchRun], others: Sequence[BenchRun]) -> float:
    """Return the median ratio of speeds over the replies whose speeds are both known; 0.0 without such replies."""
    pairs = [(a.tokens_per_second, b.tokens_per_second) for a, b in zip(runs, others, strict=True)]
    return median([mine / theirs for mine, theirs in pairs if mine and theirs] or [0.0])


def _mean(results: Sequence[LaneNumbers]) -> LaneNumbers:
    first, *_ = results
    speeds = [result.speed_vs_plain for result in results if result.speed_vs_plain is not None]
    return replace(
        first,
        **{name: mean(getattr(result, name) for result in results) for name in AVERAGED},
        speed_vs_plain=mean(speeds) if speeds else None,
        identical=all(result.identical for result in results),
        speeds={name: mean(result.speeds[name] for result in results) for name in first.speeds},
    )
