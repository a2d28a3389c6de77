"""`bench`: the decoders on the same prompts in one process, in turn, so that the machine's drift cancels."""

import json
import platform
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import typer
from rich.box import SIMPLE
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from app.commands.prompts import Prompt
from app.commands.replying import Outcome, follow_quietly, outcome, progress_bar
from app.conversation import Decodes
from app.errors import BadOption
from app.messages import DecoderName, ModelChoice, Options, Request

WARM_UP_TOKENS = 16


@dataclass(frozen=True, slots=True)
class Plan:
    """What is compared: decoders, in turn, over prompts, so many rounds."""

    model: ModelChoice
    prompts: Sequence[Prompt]
    decoders: Sequence[DecoderName]
    options: Options
    rounds: int

    def __post_init__(self) -> None:
        if self.rounds < 1:
            raise ValueError(f"rounds must be at least 1, got {self.rounds}")
        if not self.decoders or len(set(self.decoders)) != len(self.decoders):
            raise ValueError(f"decoders must be different ones, got {','.join(self.decoders) or 'none'}")

    def requests(self, prompt: Prompt) -> list[Request]:
        """One request for each decoder, over the same prompt."""
        return [
            Request(
                self.model,
                prompt,
                replace(self.options, decoding=replace(self.options.decoding, decoder=decoder)),
            )
            for decoder in self.decoders
        ]


@dataclass(frozen=True, slots=True)
class Result:
    """One decoder's numbers. Speed is the median over replies of plain's seconds per token over its own."""

    decoder: DecoderName
    tokens_per_step: float
    tokens_per_second: float
    ms_per_step: float
    rows_per_step: float
    hit_rate: float
    speed_vs_plain: float | None
    identical: bool


def bench(engine: Decodes, plan: Plan, file: Path | None) -> None:
    """Run the plan, print the table, write the file."""
    if file:
        _check_writable(file)
    results, outcomes = measure(engine, plan)
    Console().print(_table(results))
    if file:
        _write(file, plan, results, outcomes)


def measure(engine: Decodes, plan: Plan) -> tuple[list[Result], list[list[Outcome]]]:
    """The decoders' results, and each decoder's outcomes in the order they ran."""
    runs = list(_runs(engine, plan))
    columns = [list(column) for column in zip(*runs, strict=True)]
    reference = columns[plan.decoders.index("plain")] if "plain" in plan.decoders else columns[0]
    has_plain = "plain" in plan.decoders
    return [_result(column, reference, has_plain) for column in columns], columns


def _runs(engine: Decodes, plan: Plan) -> Iterator[list[Outcome]]:
    """For each round and prompt, one outcome a decoder: A B A B."""
    with progress_bar() as bar:
        task = bar.add_task("Benchmark", total=plan.rounds * len(plan.prompts) * len(plan.decoders))
        for request in plan.requests(plan.prompts[0]):
            short = replace(
                request.options, max_new_tokens=min(WARM_UP_TOKENS, request.options.max_new_tokens)
            )
            _run(engine, replace(request, options=short))
        for _ in range(plan.rounds):
            for prompt in plan.prompts:
                yield [_counted(engine, request, bar, task) for request in plan.requests(prompt)]


def _counted(engine: Decodes, request: Request, bar: Progress, task: Any) -> Outcome:
    result = _run(engine, request)
    bar.advance(task)
    return result


def _run(engine: Decodes, request: Request) -> Outcome:
    return outcome(request, list(follow_quietly(engine, request)))


def _result(column: list[Outcome], reference: list[Outcome], has_plain: bool) -> Result:
    numbers = [item.finished.statistics for item in column]
    steps = sum(item.steps for item in numbers) or 1
    seconds = sum(item.seconds for item in numbers)
    tokens = sum(item.tokens for item in numbers)
    return Result(
        decoder=column[0].finished.decoder,
        tokens_per_step=tokens / steps,
        tokens_per_second=tokens / seconds if seconds else 0.0,
        ms_per_step=1000 * seconds / steps,
        rows_per_step=sum(item.rows for item in numbers) / steps,
        hit_rate=sum(item.hits for item in numbers) / steps,
        speed_vs_plain=_speed(column, reference) if has_plain else None,
        identical=all(a.token_ids == b.token_ids for a, b in zip(column, reference, strict=True)),
    )


def _speed(column: list[Outcome], reference: list[Outcome]) -> float | None:
    pairs = [
        (item.finished.statistics.tokens_per_second, plain.finished.statistics.tokens_per_second)
        for item, plain in zip(column, reference, strict=True)
    ]
    ratios = [mine / plain for mine, plain in pairs if plain]
    return median(ratios) if ratios else None


def _table(results: list[Result]) -> Table:
    table = Table(box=SIMPLE, padding=(0, 0, 0, 1), pad_edge=False)
    # Headings of two lines: the whole table must fit a terminal of 80 columns, or rich leaves columns out.
    table.add_column("decoder", no_wrap=True)
    for heading in (
        "tokens\nper step",
        "tokens/s",
        "against\nplain",
        "identical",
        "ms per\nstep",
        "rows\nper step",
        "hit\nrate",
    ):
        table.add_column(heading, justify="right", no_wrap=True)
    for result in results:
        table.add_row(
            result.decoder,
            f"{result.tokens_per_step:.2f}",
            f"{result.tokens_per_second:.1f}",
            f"{result.speed_vs_plain:.2f}x" if result.speed_vs_plain else "-",
            "yes" if result.identical else "no",
            f"{result.ms_per_step:.2f}",
            f"{result.rows_per_step:.1f}",
            f"{result.hit_rate:.0%}",
        )
    return table


def _check_writable(file: Path) -> None:
    """Raise BadOption now rather than after minutes of measuring."""
    try:
        file.open("a").close()
    except OSError as error:
        raise BadOption(
            f"{file} cannot be written ({error.strerror}): choose another place for --json."
        ) from error


def _write(file: Path, plan: Plan, results: list[Result], outcomes: list[list[Outcome]]) -> None:
    model = outcomes[0][0].finished.model
    report = {
        "model": asdict(model),
        "machine": {
            "platform": platform.platform(),
            "processor": platform.processor() or platform.machine(),
            "python": platform.python_version(),
        },
        "prompts": len(plan.prompts),
        "rounds": plan.rounds,
        "options": asdict(plan.options),
        "decoders": [asdict(result) for result in results],
    }
    try:
        file.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        typer.echo(json.dumps(report), err=True)
        raise BadOption(
            f"The report could not be written to {file} ({error.strerror}): it is printed above."
        ) from error
