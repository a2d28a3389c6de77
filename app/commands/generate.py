"""`generate`: replies on standard output, as text while they are written or as JSON lines."""

from collections.abc import Iterable

import typer

from app.commands.printing import show_json
from app.commands.prompts import Asked
from app.commands.replying import stream, whole
from app.conversation import ReplyEngine
from app.messages import ModelChoice, Options, Request, Statistics


def generate(
    engine: ReplyEngine, model: ModelChoice, prompts: Iterable[Asked], options: Options, as_json: bool
) -> None:
    """Answer the prompts one after the other; the first failure ends it, what was printed stays."""
    show = _show_json if as_json else _show_text
    for asked in prompts:
        show(engine, Request(model, asked.prompt, asked.options(options), is_cold=True))


def _show_json(engine: ReplyEngine, request: Request) -> None:
    show_json(whole(engine, request).to_json())


def _show_text(engine: ReplyEngine, request: Request) -> None:
    finished = stream(engine, request).finished
    typer.echo(f"[{finished.decoder}: {numbers(finished.statistics)}]", err=True)


def numbers(statistics: Statistics) -> str:
    """The numbers of a reply in one line."""
    return (
        f"{statistics.tokens_per_step:.2f} tokens per step, {statistics.tokens_per_second:.1f} tokens/s, "
        f"hit rate {statistics.hit_rate:.0%}, coverage {statistics.coverage:.0%}, "
        f"{statistics.rows_per_step:.1f} rows per step, first token after {statistics.time_to_first_token:.2f} s"
    )
