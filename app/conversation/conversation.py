"""A chat: its turns, and the one reply that may be under way. It lives in the process, not in the page."""

import threading
from dataclasses import dataclass
from typing import Protocol

from app.conversation.reply import Reply
from app.conversation.reply_state import ReplyState, fold
from app.messages import Message, ModelChoice, Options, Request


class Decodes(Protocol):
    """What a conversation needs of the engine."""

    def submit(self, request: Request, reply: Reply) -> None:
        """Write the reply to this request into `reply`, on the engine's own thread."""


@dataclass(frozen=True, slots=True)
class Turn:
    """What the person wrote, and the log of the answer."""

    question: str
    reply: Reply

    def answer(self) -> ReplyState:
        """The answer as far as it is written."""
        return fold(ReplyState(), self.reply.wait(0, timeout=0))


class Conversation:
    """The turns of one chat, safe to use from any thread."""

    def __init__(self, engine: Decodes) -> None:
        self._engine = engine
        self._turns: tuple[Turn, ...] = ()
        self._lock = threading.Lock()

    @property
    def turns(self) -> tuple[Turn, ...]:
        """All turns, oldest first; the last one may still be written."""
        return self._turns

    @property
    def is_busy(self) -> bool:
        """Whether a reply is under way."""
        return bool(self._turns) and not self._turns[-1].reply.is_done

    def ask(self, question: str, model: ModelChoice, options: Options) -> Reply:
        """Start the reply to a new question. While one is under way that one goes on and is returned."""
        with self._lock:
            if self.is_busy:
                return self._turns[-1].reply
            return self._start(self._turns, question, model, options)

    def regenerate(self, model: ModelChoice, options: Options) -> Reply | None:
        """Write the last answer anew; None when there is none."""
        with self._lock:
            if not self._turns or self.is_busy:
                return self._turns[-1].reply if self._turns else None
            return self._start(self._turns[:-1], self._turns[-1].question, model, options)

    def stop(self) -> None:
        """Stop the reply under way, if there is one. What was written stays."""
        for turn in self._turns[-1:]:
            turn.reply.stop()

    def clear(self) -> None:
        """Stop, and begin a new chat."""
        with self._lock:
            self.stop()
            self._turns = ()

    def _start(self, before: tuple[Turn, ...], question: str, model: ModelChoice, options: Options) -> Reply:
        reply = Reply()
        prompt = (*_messages(before), Message("user", question))
        # Asked first: a refused request must not leave a turn that is busy for ever.
        self._engine.submit(Request(model, prompt, options), reply)
        self._turns = (*before, Turn(question, reply))
        return reply


def _messages(turns: tuple[Turn, ...]) -> list[Message]:
    """The turns as the model is to read them; a failed turn that wrote nothing is left out."""
    messages: list[Message] = []
    for turn in turns:
        if text := turn.answer().text:
            messages += [Message("user", turn.question), Message("assistant", text)]
    return messages
