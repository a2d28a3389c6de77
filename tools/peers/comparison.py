"""The contestants on the same prompts in turn (A B A B), and what came of it for each prompt set."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import mean, median

from app.commands.prompts import PromptSet
from app.messages import Options
from tools.peers.contestants import Contestant, Run

WARM_UP_TOKENS = 16


@dataclass(frozen=True, slots=True)
class Standing:
    """A contestant's numbers over one set. `speeds` are medians over replies of its tokens/s against each other's;
    `same_text` is the share of replies with the very tokens of the first contestant; where replies are sampled,
    transformers draws other ones."""

    name: str
    tokens_per_step: float
    tokens_per_second: float
    ms_per_step: float
    speeds: dict[str, float]
    same_text: float


@dataclass(frozen=True, slots=True)
class SetStandings:
    """Everybody's numbers over one prompt set."""

    set: str
    prompts: int
    standings: tuple[Standing, ...]


def compare(
    contestants: Sequence[Contestant], sets: Sequence[PromptSet], options: Options, rounds: int
) -> Iterator[SetStandings]:
    """Each set's numbers as soon as they are there; what differs between rounds is time alone."""
    _warm_up(contestants, sets[0], options)
    for prompt_set in sets:
        columns = dict[str, list[Run]]((contestant.name, []) for contestant in contestants)
        for _ in range(rounds):
            for asked in prompt_set.prompts:
                for contestant in contestants:
                    run = contestant.answer(asked.prompt, asked.options(options))
                    columns[contestant.name].append(run)
        standings = tuple(_standing(name, columns) for name in columns)
        yield SetStandings(prompt_set.name, len(prompt_set.prompts), standings)


def markdown(sets: Sequence[SetStandings], against: Sequence[str]) -> str:
    """One table: a line for each set and contestant, then the means; speeds against these contestants."""
    head = [
        "set",
        "decoder",
        "tokens per step",
        "tokens/s",
        "ms per step",
        *(f"against {one}" for one in against),
    ]
    lines = [[*head, "same text"], ["---"] * (len(head) + 1)]
    lines += [_line(one.set, standing, against) for one in sets for standing in one.standings]
    if len(sets) > 1:
        lines += [_line("mean", standing, against) for standing in means(sets)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def means(sets: Sequence[SetStandings]) -> list[Standing]:
    """Everybody's means over the sets, every set counting the same."""
    return [_mean(column) for column in zip(*(one.standings for one in sets), strict=True)]


def _warm_up(contestants: Sequence[Contestant], prompt_set: PromptSet, options: Options) -> None:
    asked = prompt_set.prompts[0]
    for contestant in contestants:
        contestant.answer(asked.prompt, asked.options(options))


def _standing(name: str, columns: dict[str, list[Run]]) -> Standing:
    runs, reference = columns[name], next(iter(columns.values()))
    passes = sum(run.passes for run in runs) or 1
    tokens, seconds = sum(run.tokens for run in runs), sum(run.seconds for run in runs)
    return Standing(
        name=name,
        tokens_per_step=tokens / passes,
        tokens_per_second=tokens / seconds if seconds else 0.0,
        ms_per_step=1000 * seconds / passes,
        speeds={other: _speed(runs, column) for other, column in columns.items()},
        same_text=mean(a.token_ids == b.token_ids for a, b in zip(runs, reference, strict=True)),
    )


def _speed(runs: Sequence[Run], others: Sequence[Run]) -> float:
    """The median ratio, over replies that both wrote in more than one pass; 0.0 where there is none."""
    pairs = [(a.tokens_per_second, b.tokens_per_second) for a, b in zip(runs, others, strict=True)]
    return median([mine / theirs for mine, theirs in pairs if mine and theirs] or [0.0])


def _mean(column: Sequence[Standing]) -> Standing:
    return Standing(
        name=column[0].name,
        tokens_per_step=mean(one.tokens_per_step for one in column),
        tokens_per_second=mean(one.tokens_per_second for one in column),
        ms_per_step=mean(one.ms_per_step for one in column),
        speeds={other: mean(one.speeds[other] for one in column) for other in column[0].speeds},
        same_text=mean(one.same_text for one in column),
    )


def _line(name: str, standing: Standing, against: Sequence[str]) -> list[str]:
    speeds = [f"{standing.speeds[one]:.2f}x" for one in against]
    numbers = [
        f"{standing.tokens_per_step:.2f}",
        f"{standing.tokens_per_second:.1f}",
        f"{standing.ms_per_step:.2f}",
    ]
    return [name, standing.name, *numbers, *speeds, f"{standing.same_text:.0%}"]
