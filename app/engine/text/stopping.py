"""Where a reply ends: decided once per step, before cache, pool, stream and history see the tokens."""

from collections.abc import Sequence
from dataclasses import dataclass

from app.engine.text.text import Decode, ReplyText
from app.values.messages import StopReason


@dataclass(frozen=True, slots=True)
class StopCut:
    """How many of a step's tokens stay, and why the reply ends with them; None: it goes on."""

    kept: int
    reason: StopReason | None = None


class StoppingCriteria:
    """The end rules of one reply: end-of-text ids, stop strings, the token limit and the context's end."""

    def __init__(
        self,
        eos_ids: frozenset[int],
        max_new_tokens: int,
        room: int,
        stops: Sequence[str],
        decode: Decode,
        before: Sequence[int] = (),
    ) -> None:
        """`before` are the ids of the reply's beginning when it is continued: they end nothing."""
        self._eos_ids = eos_ids
        self._limit = min(max_new_tokens, room)
        self._limit_reason: StopReason = "max_tokens" if max_new_tokens <= room else "context"
        self._text = ReplyText(decode, stops, before)
        self._reads_text = bool(stops)
        self._count = 0

    @property
    def left(self) -> int:
        """How many more tokens the reply may have."""
        return self._limit - self._count

    def cut(self, tokens: Sequence[int]) -> StopCut:
        """Take a step's tokens up to the first one that ends the reply; that one is kept."""
        for place, token in enumerate(tokens, start=1):
            self._count += 1
            if reason := self._reason(token):
                return StopCut(place, reason)
        return StopCut(len(tokens))

    def _reason(self, token: int) -> StopReason | None:
        if token in self._eos_ids:
            return "eos"
        if self._reads_text and self._completes_stop(token):
            return "stop_string"
        return self._limit_reason if self._count >= self._limit else None

    def _completes_stop(self, token: int) -> bool:
        self._text.push((token,))
        return self._text.is_stopped
