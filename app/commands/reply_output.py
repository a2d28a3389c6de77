"""Runs a request: shows its progress on standard error, prints its text if wanted, and returns the reply."""

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, wait
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any, get_args

from rich.progress import Progress, TaskID

from app.commands.console import print_text, progress_bar
from app.conversation import Reply, ReplyEngine, ReplySoFar
from app.errors import ReplyFailed
from app.values.messages import (
    EngineStatus,
    Event,
    Failed,
    Finished,
    Loading,
    NoteName,
    Origin,
    Piece,
    Prefilling,
    Request,
)

LONG_PROMPT = 2_000
"""While a prompt of at least this many tokens is read, a progress bar is shown."""
LOOK_SECONDS = 0.1
"""Seconds between two checks of what is being loaded."""


@dataclass(frozen=True, slots=True)
class FinishedReply:
    """A finished reply. `sources` counts its tokens by the source that proposed them."""

    request: Request
    text: str
    token_ids: tuple[int, ...]
    finished: Finished
    sources: Mapping[Origin, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the reply as `generate --json` prints it."""
        numbers, model = self.finished.statistics, self.finished.model
        return {
            "text": self.text,
            "token_ids": list(self.token_ids),
            "steps": numbers.steps,
            "tokens_per_step": numbers.tokens_per_step,
            "hit_rate": numbers.hit_rate,
            "coverage": numbers.coverage,
            "rows_per_step": numbers.rows_per_step,
            "tokens_per_second": numbers.tokens_per_second,
            "time_to_first_token": numbers.time_to_first_token,
            "decoder": self.finished.decoder,
            "seed": self.request.options.sampling.seed,
            "model": model.name,
            "dtype": model.dtype,
            "device": model.device,
            "devices": list(model.devices),
            "quantisation": model.quantisation,
            "bits_per_weight": model.kept_bits,
            "draft_model": model.draft_model,
            "sources": dict(self.sources),
            "attention": model.attention,
            "graphs": model.graphs,
            **{f"{name.replace('-', '_')}_note": model.note(name) for name in get_args(NoteName)},
            "stop_reason": self.finished.reason,
            "temperature": self.request.options.sampling.temperature,
            "thinking": asdict(self.request.options.thinking),
            "decoding": asdict(self.request.options.decoding),
        }


def print_statistics(reply: FinishedReply) -> None:
    """Print to standard error how a reply was written, and a note if the requested thinking level was not used."""
    numbers = reply.finished.statistics
    line = (
        f"[{reply.finished.decoder}: {numbers.tokens_per_step:.2f} tokens per step, "
        f"{numbers.tokens_per_second:.1f} tokens/s, guesses in {numbers.coverage:.0%} of steps, "
        f"right ones in {numbers.hit_rate:.0%}, {numbers.rows_per_step:.1f} rows per step, "
        f"first token after {numbers.time_to_first_token:.2f} s]"
    )
    print_text(line, err=True)
    if note := thinking_note(reply):
        print_text(note, err=True)


def thinking_note(reply: FinishedReply) -> str:
    """Return a note if the model did not use the requested level of thinking; "" if it did."""
    asked, model = reply.request.options.thinking.level, reply.finished.model
    levels, used = [mode.level for mode in model.chat_format.modes], model.chat_format.mode(asked).level
    if asked in ("default", used):
        return ""
    if len(levels) < 2:
        return f"[--thinking {asked} changes nothing: {model.name} has no levels to choose from.]"
    return f"[{model.name} thinks at the levels {', '.join(levels)}: it used {used} for --thinking {asked}.]"


def events_of(engine: ReplyEngine, request: Request) -> Iterator[Event]:
    """Submit a request and yield its events. Raises ReplyFailed. If the caller stops iterating, the reply stops."""
    reply = Reply()
    engine.submit(request, reply)
    try:
        for event in reply.events():
            if isinstance(event, Failed):
                raise ReplyFailed(event.sentence)
            yield event
    finally:
        reply.stop()


def stream_reply(engine: ReplyEngine, request: Request) -> FinishedReply:
    """Print a reply's text while it is written, and return the finished reply. Raises ReplyFailed."""
    events: list[Event] = []
    for event in events_with_progress(engine, request):
        events.append(event)
        if isinstance(event, Piece):
            print_text(event.text, is_line=False)
    print_text("")
    return finished_reply(request, events)


def wait_for_reply(engine: ReplyEngine, request: Request) -> FinishedReply:
    return finished_reply(request, list(events_with_progress(engine, request)))


def finished_reply(request: Request, events: list[Event]) -> FinishedReply:
    """Build the finished reply from its events. Raises ValueError if the last event is not Finished."""
    written = ReplySoFar()
    written.take(events)
    if not written.finished:
        raise ValueError(f"a reply ends with Finished, not {events[-1]!r}")
    return FinishedReply(request, written.text, tuple(written.token_ids), written.finished, written.sources)


def events_with_progress(engine: ReplyEngine, request: Request) -> Iterator[Event]:
    """Yield a request's events as `events_of` does. Meanwhile shows the progress on standard error."""
    with _engine_bar() as (bar, task):
        for event in events_of(engine, request):
            match event:
                case Loading(what, done, total):
                    bar.update(task, description=what, completed=done, total=total or None)
                    bar.start()
                case Prefilling(done, total) if total >= LONG_PROMPT:
                    bar.update(task, description="Reading the prompt", completed=done, total=total)
                    bar.start()
                case _:
                    _end(bar)
            yield event


def wait_for_load(status: Callable[[], EngineStatus], loaded: Future[bool]) -> bool:
    """Wait until a load has ended, and return whether the model is loaded.

    Meanwhile shows the name of the current step on standard error."""
    with _engine_bar() as (bar, task):
        while not loaded.done():
            bar.update(task, description=status().note)
            wait([loaded], LOOK_SECONDS)
    return loaded.result()


@contextmanager
def _engine_bar() -> Iterator[tuple[Progress, TaskID]]:
    """Show a progress bar on standard error until the block ends or stops it."""
    bar = progress_bar()
    task = bar.add_task("Starting the engine", total=None)
    bar.start()
    try:
        yield bar, task
    finally:
        _end(bar)


def _end(bar: Progress) -> None:
    # Without a terminal a bar never starts, and older releases of rich print an empty line when it is stopped.
    if bar.live.is_started:
        bar.stop()
