"""A reply's chunks as events. There are no tokens and no steps: a piece is the text of a chunk.

How many tokens a forward pass wrote is known at the end, from servers that tell: Foresight, llama.cpp, vLLM with
--per-request-spec-decode-metrics, and any that counts accepted prediction tokens.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from time import monotonic
from typing import Any

from app.errors import ServerError
from app.system.answer_limits import AnswerRefused, of_type
from app.values.messages import Finished, ModelChoice, Piece, Statistics, StopReason
from app.values.server import remote_info

REASONS: Mapping[str, StopReason] = {"stop": "eos", "length": "max_tokens"}
NUMBERS = ("usage", "foresight", "timings", "metrics")
"""The parts of a chunk that tell numbers."""
LARGEST = 10**9
"""A larger number is not believed."""
LONGEST_REPLY, MOST_PIECES = 2_000_000, 300_000
"""Characters and pieces of a reply. The longest that models write have a third of it."""
HALF_PAIR = re.compile("[\ud800-\udfff]")
"""Half of a surrogate pair, which JSON can hold and no text."""
THOUGHTS = ("reasoning_content", "reasoning")
"""Where servers put what a model thinks if they take it out of the text."""


class RemoteReply:
    """Reads the chunks of one reply, one after the other."""

    def __init__(self, model: ModelChoice) -> None:
        self._model = model
        self._started = monotonic()
        self._first = 0.0
        self._reason = ""
        self._is_thinking = False
        self._pieces = self._characters = 0
        self._told: dict[str, Any] = {}
        """The parts of the last chunks that tell numbers."""

    @property
    def has_begun(self) -> bool:
        """Whether any text has come."""
        return self._first > 0

    def take(self, chunk: Any) -> Iterator[Piece]:
        """Yields the text of a chunk. Raises ServerError if a filter ended the reply, AnswerRefused, WrongType."""
        chunk = of_type(chunk or {}, dict, "chunk")
        self._told |= {name: chunk[name] for name in NUMBERS if isinstance(chunk.get(name), dict)}
        for each in of_type(chunk.get("choices") or [], list, "choices"):
            choice = of_type(each or {}, dict, "choice")
            if text := self._text(of_type(choice.get("delta") or {}, dict, "delta")):
                self._first = self._first or monotonic()
                self._pieces, self._characters = self._pieces + 1, self._characters + len(text)
                if self._pieces > MOST_PIECES or self._characters > LONGEST_REPLY:
                    raise AnswerRefused("sent a reply without end")
                yield Piece(text, (), (), self._times())
            self._reason = of_type(choice.get("finish_reason") or "", str, "finish_reason") or self._reason
        if self._reason == "content_filter":
            raise ServerError("The server's content filter ended this reply.")

    @property
    def reason(self) -> StopReason | None:
        """Why the reply ended; None until the server tells."""
        return REASONS.get(self._reason, "eos") if self._reason else None

    def finished(self, reason: StopReason) -> Finished:
        """The end of the reply."""
        return Finished(reason, with_usage(self._times(), self._told), remote_info(self._model), "auto")

    def _text(self, delta: Mapping[str, Any]) -> str:
        """The delta's text, a thought in the tags that the app knows."""
        thought = next((_words(delta, name) for name in THOUGHTS if delta.get(name)), "")
        text = _words(delta, "content")
        opening = "<think>\n" if thought and not self._is_thinking else ""
        closing = "\n</think>\n\n" if text and self._is_thinking else ""
        self._is_thinking = bool(thought) or (self._is_thinking and not text)
        return f"{opening}{thought}{closing}{text}"

    def _times(self) -> Statistics:
        if not self._first:
            return Statistics()
        return Statistics(
            time_to_first_token=self._first - self._started, seconds=max(monotonic() - self._first, 1e-6)
        )


def with_usage(times: Statistics, told: Mapping[str, Any]) -> Statistics:
    """Adds what the server told at the end. As everywhere, the first token belongs to no step."""
    usage = _part(told, "usage")
    written = _count(usage, "completion_tokens")
    numbers = replace(
        times,
        prompt_tokens=_count(usage, "prompt_tokens"),
        reused_tokens=_count(_part(usage, "prompt_tokens_details"), "cached_tokens"),
        tokens=max(0, written - 1),
    )
    return replace(numbers, steps=_steps(numbers.tokens, told))


def _steps(tokens: int, told: Mapping[str, Any]) -> int:
    """The forward passes that wrote these tokens; 0 if the server does not tell.

    Each wrote the drafted tokens that it accepted, and one more."""
    mean = _part(told, "foresight").get("tokens_per_step")
    if tokens and isinstance(mean, int | float) and 1 <= mean <= LARGEST:
        return round(tokens / mean)
    accepted = _accepted(told)
    return max(1, tokens - accepted) if tokens and accepted is not None else 0


def _accepted(told: Mapping[str, Any]) -> int | None:
    """How many drafted tokens were accepted; None if the server does not tell, or drafts nothing."""
    details = _part(_part(told, "usage"), "completion_tokens_details")
    for part, accepted, drafted in (
        (_part(told, "timings"), "draft_n_accepted", "draft_n"),
        (
            _part(_part(told, "metrics"), "speculative_decoding"),
            "num_accepted_draft_tokens",
            "num_draft_tokens",
        ),
        (details, "accepted_prediction_tokens", "accepted_prediction_tokens"),
    ):
        if _count(part, drafted):
            return _count(part, accepted)
    return None


def _part(whole: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = whole.get(name)
    return found if isinstance(found, dict) else {}


def _count(part: Mapping[str, Any], name: str) -> int:
    found = part.get(name)
    return found if isinstance(found, int) and 0 < found <= LARGEST else 0


def _words(delta: Mapping[str, Any], name: str) -> str:
    return HALF_PAIR.sub("\N{REPLACEMENT CHARACTER}", of_type(delta.get(name) or "", str, name))
