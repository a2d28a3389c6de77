"""Asking a real engine from a test: replies that react, a locate that waits, and what a reply came to."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from app.conversation import Reply
from app.engine import Engine
from app.engine.session.session import Session, no_progress
from app.values.messages import Event, Failed, Finished, ModelChoice, ModelFolder, Options, Piece, Request
from tests.engine.places import Places
from tests.support.waiting import until

CPU = ModelChoice("tiny", dtype="float32", device="cpu")
SHORT = Options(max_new_tokens=12, ignore_eos=True)
LONG = Options(max_new_tokens=100, ignore_eos=True)
PROMPT = "Once upon a time"
SECONDS = 300.0


class Watched(Reply):
    """A reply that does something at an event: what a person might do just then."""

    def __init__(self, at: type[Event], do: Callable[["Watched"], None]) -> None:
        super().__init__()
        self._at = at
        self._do = do

    def append(self, event: Event) -> None:
        super().append(event)
        if isinstance(event, self._at):
            self._do(self)


@dataclass
class Gate:
    """A `locate` that waits at the gate, telling its progress all the while, and then knows every place."""

    places: Places
    entered: threading.Event = field(default_factory=threading.Event)
    opened: threading.Event = field(default_factory=threading.Event)

    def __call__(self, name: str, progress: Callable[[str, int, int], None]) -> ModelFolder:
        self.entered.set()
        while not self.opened.wait(0.005):
            progress("Downloading", 1, 4)
        return self.places(name, progress)


def ask(
    engine: Engine,
    model: str = "tiny",
    prompt: str = PROMPT,
    options: Options = SHORT,
    reply: Reply | None = None,
) -> Reply:
    reply = reply or Reply()
    engine.submit(Request(replace(CPU, name=model), prompt, options), reply)
    return reply


def tokens_and_end(session: Session, request: Request) -> tuple[list[int], Finished]:
    """The tokens that a session writes, and its last event."""
    events = list(session.events(request, no_progress))
    finished = events[-1]
    assert isinstance(finished, Finished)
    return [token for event in events if isinstance(event, Piece) for token in event.token_ids], finished


def events_of(reply: Reply) -> list[Event]:
    """Every event, once the reply has ended; fails a test that would wait for ever."""
    until(lambda: reply.is_done)
    return list(reply.events())


def ids_of(reply: Reply) -> list[int]:
    return [token for event in events_of(reply) if isinstance(event, Piece) for token in event.token_ids]


def failure(reply: Reply) -> str:
    last = events_of(reply)[-1]
    assert isinstance(last, Failed), last
    assert "\n" not in last.sentence
    return last.sentence


def reason(reply: Reply) -> str:
    last = events_of(reply)[-1]
    assert isinstance(last, Finished), last
    return last.reason
