"""Options that change or report logits, separate from `Sampling`, which is stored with chats and settings."""

import json
import re
from dataclasses import dataclass
from typing import Literal

from app.values.chat_format import ANY
from app.values.validation import require, require_one_of

GrammarKind = Literal["json_schema", "regex", "lark"]
MOST_LOGPROBS = 20
"""Maximum number of alternative tokens that a request may ask for at each position, as in OpenAI's API."""


@dataclass(frozen=True, slots=True)
class Grammar:
    """A pattern that a reply has to match: a JSON Schema as JSON, a regular expression, or a Lark grammar."""

    kind: GrammarKind
    source: str

    def __post_init__(self) -> None:
        require_one_of(GrammarKind, "grammar", self.kind)
        require(bool(self.source), "a grammar must not be empty", self.source)


_CONTROL = re.compile(rf"(<[^<>\s]+>|\[[A-Z_]+\]|{ANY})")
"""Matches texts in calls that may be control tokens ("<x>", "[X]"), and ANY, the placeholder of an id."""
_BORDER = re.compile(rf"{_CONTROL.pattern}|(\n+)|(?=<)")
"""Matches what is quoted separately, and the beginnings of tags."""


def control_rule(token: str) -> str:
    """Return the placeholder of this control token in a rule of a Lark grammar."""
    return f"<[control:{token}]>"


def lark_text(text: str) -> str:
    """Quote a text for a Lark grammar. ANY becomes a pattern. A control token becomes a placeholder, because its
    characters in quotes would match other tokens.

    Line ends and tags are quoted separately, because the grammar library expects the longest quoted text that has
    begun: where "\\n<a>" or "\\n" and "</a>" may follow, it would refuse the second after the line end."""
    return " ".join(map(_lark_part, filter(None, _BORDER.split(text))))


def _lark_part(part: str) -> str:
    if part == ANY:
        return "/[a-zA-Z0-9]{1,9}/"
    return control_rule(part) if _CONTROL.fullmatch(part) else json.dumps(part, ensure_ascii=False)


CONTROL_RULE = r"<\[control:(.+?)\]>"
"""The regular expression of what `control_rule` returns; its group is the control token."""


@dataclass(frozen=True, slots=True)
class LogitsSettings:
    """How a reply's logits are changed and reported. The penalties count the tokens of the reply only.

    `logit_bias` has (token id, number to add to its logit). At each position the chosen token and the
    `top_logprobs` likeliest tokens are reported; -1 reports nothing. With `of_prompt` the prompt's tokens are
    reported, too."""

    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    logit_bias: tuple[tuple[int, float], ...] = ()
    grammar: Grammar | None = None
    top_logprobs: int = -1
    of_prompt: bool = False

    def __post_init__(self) -> None:
        frequency, presence = self.frequency_penalty, self.presence_penalty
        require(-2 <= frequency <= 2, "frequency penalty must be from -2 to 2", frequency)
        require(-2 <= presence <= 2, "presence penalty must be from -2 to 2", presence)
        are_biases = all(token >= 0 and -100 <= bias <= 100 for token, bias in self.logit_bias)
        require(are_biases, "a logit bias must be from -100 to 100, for a token id", self.logit_bias)
        require(
            -1 + self.of_prompt <= self.top_logprobs <= MOST_LOGPROBS,
            "top logprobs must be from 0 to 20",
            self.top_logprobs,
        )


@dataclass(frozen=True, slots=True)
class LikelyToken:
    """A token's bytes and the logarithm of its probability, by the model's own logits."""

    spelled: bytes
    logprob: float

    @property
    def text(self) -> str:
        """The token's text, with U+FFFD for a part of a character."""
        return self.spelled.decode(errors="replace")


@dataclass(frozen=True, slots=True)
class TokenLogprobs:
    """The chosen token, and the likeliest tokens at its position."""

    chosen: LikelyToken
    likeliest: tuple[LikelyToken, ...] = ()
