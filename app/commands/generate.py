"""`generate`: replies on standard output, as text while they are written or as JSON lines."""

import json
from collections.abc import Iterable

import typer

from app.commands.prompts import Asked
from app.commands.replying import follow, outcome
from app.conversation import Decodes
from app.messages import Event, ModelChoice, Options, Piece, Request, Statistics


def generate(
    engine: Decodes, model: ModelChoice, prompts: Iterable[Asked], options: Options, as_json: bool
) -> None:
    """Answer the prompts one after the other; the first failure ends it, what was printed stays."""
    show = _show_json if as_json else _show_text
    for asked in prompts:
        show(engine, Request(model, asked.prompt, asked.options(options), is_cold=True))


def _show_json(engine: Decodes, request: Request) -> None:
    events = list(follow(engine, request))
    typer.echo(json.dumps(outcome(request, events).to_json(), ensure_ascii=False))


def _show_text(engine: Decodes, request: Request) -> None:
    events: list[Event] = []
    for event in follow(engine, request):
        events.append(event)
        if isinstance(event, Piece):
            typer.echo(event.text, nl=False)
    typer.echo()
    finished = outcome(request, events).finished
    typer.echo(f"[{finished.decoder}: {numbers(finished.statistics)}]", err=True)


def numbers(statistics: Statistics) -> str:
    """The numbers of a reply in one line."""
    return (
        f"{statistics.tokens_per_step:.2f} tokens per step, {statistics.tokens_per_second:.1f} tokens/s, "
        f"hit rate {statistics.hit_rate:.0%}, coverage {statistics.coverage:.0%}, "
        f"{statistics.rows_per_step:.1f} rows per step, first token after {statistics.time_to_first_token:.2f} s"
    )
