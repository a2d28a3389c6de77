"""Turns a server's chunks into a reply's events. A piece is the text of a chunk; tokens and steps are unknown."""

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
"""The parts of a chunk that may have statistics about the reply."""
LARGEST = 10**9
"""Larger numbers are ignored as impossible."""
LONGEST_REPLY, MOST_PIECES = 2_000_000, 300_000
"""Maximum numbers of characters and pieces of a reply. The longest replies of models have a third as many."""
HALF_PAIR = re.compile("[\ud800-\udfff]")
"""Half of a surrogate pair, which JSON can contain but valid text cannot."""
THOUGHTS = ("reasoning_content", "reasoning")
"""The fields in which some servers send the model's thought separately from the text."""


class RemoteReply:
    """Reads the chunks of one reply in their order."""

    def __init__(self, model: ModelChoice) -> None:
        self._model = model
        self._started = monotonic()
        self._first = 0.0
        self._reason = ""
        self._is_thinking = False
        self._pieces = self._characters = 0
        self._numbers: dict[str, Any] = {}
        """The newest part of a chunk for each name in NUMBERS."""

    @property
    def has_begun(self) -> bool:
        """Whether any text of the reply has arrived."""
        return self._first > 0

    def take(self, chunk: Any) -> Iterator[Piece]:
        """Yields the text of a chunk as pieces; keeps its statistics and the reason why the reply ended.

        Raises ServerError if a content filter ended the reply, AnswerRefused if it is too long, and WrongType."""
        chunk = of_type(chunk or {}, dict, "chunk")
        self._numbers |= {name: chunk[name] for name in NUMBERS if isinstance(chunk.get(name), dict)}
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
        """Why the reply ended; None until the server reports it."""
        return REASONS.get(self._reason, "eos") if self._reason else None

    def finished(self, reason: StopReason) -> Finished:
        """Returns the reply's last event, with the server's statistics."""
        return Finished(reason, with_usage(self._times(), self._numbers), remote_info(self._model), "auto")

    def _text(self, delta: Mapping[str, Any]) -> str:
        """Returns the delta's text, with a thought inside <think> tags."""
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


def with_usage(times: Statistics, parts: Mapping[str, Any]) -> Statistics:
    """Returns `times` with the server's counts. As in all statistics, the first token is not counted."""
    usage = _part(parts, "usage")
    numbers = replace(
        times,
        prompt_tokens=_count(usage, "prompt_tokens"),
        reused_tokens=_count(_part(usage, "prompt_tokens_details"), "cached_tokens"),
        tokens=max(0, _count(usage, "completion_tokens") - 1),
    )
    return replace(numbers, steps=_steps(numbers.tokens, parts))


def _steps(tokens: int, parts: Mapping[str, Any]) -> int:
    """Returns how many forward passes wrote these tokens; 0 if the server reports no drafts.

    Each forward pass wrote the drafted tokens that it accepted, and one token more."""
    mean = _part(parts, "foresight").get("tokens_per_step")
    if tokens and isinstance(mean, int | float) and 1 <= mean <= LARGEST:
        return round(tokens / mean)
    metrics = _part(_part(parts, "metrics"), "speculative_decoding")
    details = _part(_part(parts, "usage"), "completion_tokens_details")
    for part, accepted, drafted in (
        (_part(parts, "timings"), "draft_n_accepted", "draft_n"),
        (metrics, "num_accepted_draft_tokens", "num_draft_tokens"),
        (details, "accepted_prediction_tokens", "accepted_prediction_tokens"),
    ):
        if tokens and _count(part, drafted):
            return max(1, tokens - _count(part, accepted))
    return 0


def _part(whole: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = whole.get(name)
    return found if isinstance(found, dict) else {}


def _count(part: Mapping[str, Any], name: str) -> int:
    found = part.get(name)
    return found if isinstance(found, int) and 0 < found <= LARGEST else 0


def _words(delta: Mapping[str, Any], name: str) -> str:
    return HALF_PAIR.sub("\N{REPLACEMENT CHARACTER}", of_type(delta.get(name) or "", str, name))
