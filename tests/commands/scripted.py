"""An engine that writes what it was told to, one list of steps for each decoder."""

from collections.abc import Sequence

from app.conversation import Reply
from app.values.messages import (
    DecoderName,
    EngineStatus,
    Event,
    Failed,
    Finished,
    Loading,
    ModelChoice,
    Piece,
    Prefilling,
    Request,
    Statistics,
)
from tests.fakes import DEMO, after_step

Steps = Sequence[tuple[int, ...]]
"""Token ids of each step; the text of token 7 is " 7"."""

PLAIN: Steps = [(1,), (2,), (3,), (4,), (5,), (6,)]
LOOKAHEAD: Steps = [(1, 2), (3, 4, 5), (6,)]
"""The same text in half as many steps."""


class ScriptedDecoders:
    """Answers before `submit` returns, and remembers what it was asked."""

    def __init__(
        self, plain: Steps = PLAIN, lookahead: Steps = LOOKAHEAD, failure: str = "", first: str = " 0"
    ) -> None:
        self.requests: list[Request] = []
        self.replies: list[Reply] = []
        self._steps: dict[DecoderName, Steps] = {"plain": plain, "lookahead": lookahead}
        self._failure = failure
        self._first = first

    def submit(self, request: Request, reply: Reply) -> None:
        self.requests.append(request)
        self.replies.append(reply)
        for event in self._events(request):
            reply.append(event)

    def load(self, choice: ModelChoice) -> None:
        """Nothing to load."""

    def status(self) -> EngineStatus:
        """Always ready."""
        return EngineStatus("ready", model=DEMO)

    def _events(self, request: Request) -> list[Event]:
        decoder = request.options.decoding.decoder
        numbers = Statistics(prompt_tokens=9, time_to_first_token=0.5)
        events: list[Event] = [Loading("Loading demo"), Prefilling(9, 9)]
        events.append(Piece(self._first, (0,), ("model",), numbers))
        for tokens in self._steps["plain" if decoder == "plain" else "lookahead"]:
            origins = (*("prompt",) * (len(tokens) - 1), "model")
            numbers = after_step(numbers, origins)  # type: ignore[arg-type]
            text = "".join(f" {token}" for token in tokens)
            events.append(Piece(text, tokens, origins, numbers))  # type: ignore[arg-type]
        if self._failure:
            return [*events, Failed(self._failure)]
        return [*events, Finished("max_tokens", numbers, DEMO, decoder)]
