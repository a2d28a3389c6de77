"""One request from the command line: its events with progress on standard error, and what came of it."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from rich.progress import Progress

from app.commands.bars import progress_bar
from app.commands.printing import say
from app.conversation import Reply, ReplyEngine
from app.errors import AppError
from app.messages import Event, Failed, Finished, Loading, Piece, Prefilling, Request

LONG_PROMPT = 2_000
"""Prompt tokens from which on reading the prompt is worth a bar."""


class RequestFailed(AppError):
    """The engine's own sentence about a request."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """A finished reply."""

    request: Request
    text: str
    token_ids: tuple[int, ...]
    finished: Finished

    def to_json(self) -> dict[str, Any]:
        """The reply as `generate --json` prints it."""
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
            "quantisation": model.quantisation,
            "attention": model.attention,
            "graphs": model.graphs,
            "graphs_note": model.graphs_note,
            "fused_note": model.fused_note,
            "stop_reason": self.finished.reason,
            "temperature": self.request.options.sampling.temperature,
            "decoding": asdict(self.request.options.decoding),
        }


def follow(engine: ReplyEngine, request: Request) -> Iterator[Event]:
    """A request's events as they come, with progress shown; otherwise like `follow_quietly`."""
    return with_progress(follow_quietly(engine, request))


def follow_quietly(engine: ReplyEngine, request: Request) -> Iterator[Event]:
    """A request's events as they come; raises RequestFailed for Failed, and stops the reply when left early."""
    reply = Reply()
    engine.submit(request, reply)
    try:
        for event in reply.events():
            if isinstance(event, Failed):
                raise RequestFailed(event.sentence)
            yield event
    finally:
        reply.stop()


def stream(engine: ReplyEngine, request: Request) -> Outcome:
    """A reply whose text is printed while it is written; raises RequestFailed for Failed."""
    events: list[Event] = []
    for event in follow(engine, request):
        events.append(event)
        if isinstance(event, Piece):
            say(event.text, is_line=False)
    say("")
    return outcome(request, events)


def whole(engine: ReplyEngine, request: Request) -> Outcome:
    """A reply once it is finished; raises RequestFailed for Failed."""
    return outcome(request, list(follow(engine, request)))


def outcome(request: Request, events: list[Event]) -> Outcome:
    """What a whole reply came to; the last event is Finished."""
    pieces = [event for event in events if isinstance(event, Piece)]
    finished = events[-1]
    if not isinstance(finished, Finished):
        raise ValueError(f"a reply ends with Finished, got {finished!r}")
    return Outcome(
        request,
        text="".join(piece.text for piece in pieces),
        token_ids=tuple(token for piece in pieces for token in piece.token_ids),
        finished=finished,
    )


def with_progress(events: Iterator[Event]) -> Iterator[Event]:
    """The same events; while there is nothing to read yet, a bar on standard error says what is going on."""
    bar = progress_bar()
    task = bar.add_task("Starting the engine", total=None)
    bar.start()
    try:
        for event in events:
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
    finally:
        _end(bar)


def _end(bar: Progress) -> None:
    # Older releases of rich print an empty line for a bar that is stopped without having been started.
    if bar.live.is_started:
        bar.stop()
