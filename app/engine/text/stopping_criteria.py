"""Decides where a reply ends, and holds text back that may be the beginning of a stop string."""

from collections.abc import Sequence
from dataclasses import dataclass

from app.engine.text.detokenizer import PLAIN, Decode, Detokenizer, ThoughtText
from app.values.chat_format import ReplyFormat, beginning_at_end
from app.values.messages import StopReason


class StopFilter:
    """Holds text back while it may be the beginning of a stop string; a stop string is never returned."""

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = tuple(stops)
        self._held = ""
        self.is_stopped = False

    def push(self, text: str) -> str:
        """Add text and return what may be shown now; always "" after a stop string was found."""
        if self.is_stopped:
            return ""
        pending = self._held + text
        found = [index for index in (pending.find(stop) for stop in self._stops) if index >= 0]
        self.is_stopped = bool(found)
        shown = min(found) if found else len(pending) - beginning_at_end(pending, self._stops)
        self._held = pending[shown:]
        return pending[:shown]

    def flush(self) -> str:
        """Return the text that is held back at the end of the reply; "" after a stop string was found."""
        return "" if self.is_stopped else self._held


class ReplyText:
    """Turns one reply's ids into the text that is shown: detokenised, its thought in tags, without stop strings."""

    def __init__(
        self,
        decode: Decode,
        stops: Sequence[str],
        before: Sequence[int] = (),
        form: ReplyFormat = PLAIN,
        opens_thought: bool = False,
    ) -> None:
        """Continue a reply of this format that begins with the ids `before`, if any.

        With `opens_thought` the prompt has opened the reply's thought."""
        self._detokenizer = Detokenizer(decode, before)
        self._thoughts = ThoughtText(form, opens_thought)
        if before:
            self._thoughts.push(decode(list(before)))
            self._thoughts.flush()
        self._filter = StopFilter(stops)

    def push(self, token_ids: Sequence[int]) -> list[str]:
        """Return the text that each token of a step adds; "" if its text is incomplete or held back."""
        return [self._filter.push(self._thoughts.push(self._detokenizer.push(token))) for token in token_ids]

    def flush(self) -> str:
        """Return what is left at the end of the reply."""
        rest = self._thoughts.push(self._detokenizer.flush()) + self._thoughts.flush()
        return self._filter.push(rest) + self._filter.flush()

    @property
    def is_stopped(self) -> bool:
        return self._filter.is_stopped


@dataclass(frozen=True, slots=True)
class StopCut:
    """The number of a step's tokens that are kept, and the reason if the reply ends with them."""

    kept: int
    reason: StopReason | None = None


class StoppingCriteria:
    """Ends one reply at an end-of-text id, a stop string, the maximum number of tokens or the context's end."""

    def __init__(
        self, eos_ids: frozenset[int], max_new_tokens: int, room: int, text: ReplyText | None = None
    ) -> None:
        """Limit the reply to `room`, the tokens left in the context, and to `max_new_tokens` unless it is 0.

        `text` finds the stop strings; None if there are none."""
        self._eos_ids = eos_ids
        self._limit = min(max_new_tokens or room, room)
        self._limit_reason: StopReason = "max_tokens" if 0 < max_new_tokens <= room else "context"
        self._text = text
        self._count = 0

    @property
    def left(self) -> int:
        """Maximum number of further tokens of the reply."""
        return self._limit - self._count

    def cut(self, tokens: Sequence[int]) -> StopCut:
        """Count a step's tokens up to the first that ends the reply; return how many are kept, and the reason."""
        for place, token in enumerate(tokens, start=1):
            self._count += 1
            if token in self._eos_ids:
                return StopCut(place, "eos")
            if self._text:
                self._text.push((token,))
                if self._text.is_stopped:
                    return StopCut(place, "stop_string")
            if self._count >= self._limit:
                return StopCut(place, self._limit_reason)
        return StopCut(len(tokens))
