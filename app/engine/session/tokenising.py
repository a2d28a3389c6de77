"""The threads on which requests become tokens, so that the engine's thread writes on meanwhile.

    short texts    one after the other on one thread
    long texts     on another, so that a short question does not wait behind a book

The tokenizer releases the interpreter's lock. What a thread makes is good for the model that is loaded now alone:
the session looks at who made it, and otherwise makes it anew.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from queue import SimpleQueue
from typing import TYPE_CHECKING

from app.engine.session.jobs import TokenisedRequest, app_error
from app.values.messages import Request

if TYPE_CHECKING:
    from app.engine.session.request_tokens import RequestTokens

LONG = 50_000
"""Characters of a text that takes its time: a twentieth of a second or more."""
CHARACTERS_OF_MESSAGE = 100
"""What a message counts besides its text: the template has work with each."""


Tokenise = Callable[[Request], "RequestTokens"]
"""Makes a request's texts tokens. Raises AppError for what the model cannot read."""


class TokenisingThreads:
    """Both threads; each starts with its first text."""

    def __init__(self) -> None:
        self._short, self._long = _TokenisingThread("tokens"), _TokenisingThread("tokens of long texts")

    def tokenise(self, request: Request, tokenise: Tokenise | None) -> "Future[TokenisedRequest]":
        """Have a request's tokens made, if anybody can make them. Until that begins it can be cancelled.

        `result()` raises AppError."""
        thread = self._long if _length(request) > LONG else self._short
        answer: Future[TokenisedRequest] = Future()
        if tokenise is None or not thread.do(_Text(request, tokenise, answer)):
            answer.set_result(TokenisedRequest(request))
        return answer

    def close(self) -> None:
        """End the threads behind what they were given. Safe to repeat."""
        self._short.close()
        self._long.close()


@dataclass(frozen=True, slots=True)
class _Text:
    request: Request
    tokenise: Tokenise
    answer: "Future[TokenisedRequest]"

    def make(self) -> None:
        if not self.answer.set_running_or_notify_cancel():
            return
        try:
            self.answer.set_result(TokenisedRequest(self.request, self.tokenise(self.request)))
        except Exception as error:
            self.answer.set_exception(app_error(error))


class _TokenisingThread:
    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._waiting: SimpleQueue[_Text | None] = SimpleQueue()
        self._is_started = self._is_closed = False

    def do(self, text: _Text) -> bool:
        """Whether it will be done."""
        with self._lock:
            if self._is_closed:
                return False
            self._waiting.put(text)
            if not self._is_started:
                threading.Thread(target=self._work, name=self._name, daemon=True).start()
            self._is_started = True
            return True

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            self._waiting.put(None)

    def _work(self) -> None:
        while text := self._waiting.get():
            text.make()
            del text  # while it waits for the next one it keeps none


def _length(request: Request) -> int:
    prompt = request.prompt
    written = [prompt] if isinstance(prompt, str) else [message.content for message in prompt]
    texts = (*written, request.tools, request.prediction, *request.documents)
    return sum(map(len, texts)) + CHARACTERS_OF_MESSAGE * len(written)
