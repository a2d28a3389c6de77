"""How much of a chat fits into the model's context, counted before anything is sent.

Nothing is left out silently. A chat of five messages, a context of 100 tokens, 25 of them reserved for the reply:

    tokens           40   10   30   10   20  = 110     too long: 110 + 25 > 100
    oldest left out   .    .   30   10   20  =  60     what the model would read

Whole turns are left out, so that the model never reads an answer without its question.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from app.engine.text.reader import FAR
from app.errors import AppError
from app.values.messages import Message

Count = Callable[[tuple[Message, ...]], int]
"""Tokens of a chat as the model would read it, its template included."""

LEAST_REPLY = 16
"""Tokens. With less room for a reply nothing is sent."""


@dataclass(frozen=True, slots=True)
class ContextFit:
    """The whole prompt has `tokens`. Without the `left_out` oldest messages it has `kept_tokens` and fits.

    `room` is what the whole prompt leaves for a reply."""

    tokens: int
    context: int
    reserve: int
    left_out: int = 0
    kept_tokens: int = 0

    @property
    def counted(self) -> str:
        """The whole prompt's tokens in words: what is far too long is not counted to its end."""
        return f"at least {self.tokens:,}" if self.tokens > FAR * self.context else f"{self.tokens:,}"

    @property
    def fits(self) -> bool:
        """Whether the whole prompt fits with a reply of the usual length behind it."""
        return self.tokens + self.reserve <= self.context

    @property
    def fits_without_oldest(self) -> bool:
        """Whether it fits without the oldest turns."""
        return self.left_out > 0 and self.kept_tokens + self.reserve <= self.context

    @property
    def room(self) -> int:
        """Tokens left for a reply to the whole prompt."""
        return max(0, self.context - self.tokens)

    @property
    def can_be_shorter(self) -> bool:
        """Whether the whole prompt fits with a shorter reply."""
        return self.room >= LEAST_REPLY


class ChatTooLong(AppError):
    """The chat does not fit any more, and the person has not chosen what to do."""

    def __init__(self, fit: ContextFit) -> None:
        super().__init__(
            f"This chat has {fit.counted} tokens and the model's context holds {fit.context:,}. Leave out the "
            "oldest messages, ask for a shorter reply, or start a new chat."
        )
        self.fit = fit


def reply_reserve(max_new_tokens: int, context: int) -> int:
    """Tokens reserved for the reply: as many as are asked for, at most a quarter of the context."""
    return min(max_new_tokens, context // 4)


def fit_context(messages: Sequence[Message], count: Count, context: int, reply: int) -> ContextFit:
    """How these messages (a system prompt first, if there is one) fit with `reply` tokens behind them."""
    head = 1 if messages and messages[0].role == "system" else 0
    tokens = count(tuple(messages))
    if tokens + reply <= context:
        return ContextFit(tokens, context, reply, 0, tokens)
    starts = [place for place in range(head + 1, len(messages)) if messages[place].role == "user"]

    def kept_from(start: int) -> int:
        return count((*messages[:head], *messages[start:]))

    start = _first_kept(starts, lambda start: kept_from(start) + reply <= context)
    if start is None:
        start = starts[-1] if starts else head
    return ContextFit(tokens, context, reply, start - head, kept_from(start))


def _first_kept(starts: Sequence[int], fits: Callable[[int], bool]) -> int | None:
    """The first start from which everything fits; None where not even the last turn does.

    A binary search: the newest 1, 2, 4, 8, … turns are tried until they are too many, then the numbers between. So
    no text much longer than the context is counted, and few texts are."""
    turns = 1
    while turns <= len(starts) and fits(starts[-turns]):
        turns *= 2
    low, high = turns // 2, min(turns, len(starts) + 1)  # so many turns fit, so many do not
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(starts[-middle]) else (low, middle)
    return starts[-low] if low else None
