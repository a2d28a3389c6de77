"""How a model talks: what its chat template accepts, what can be switched in it, and how its replies are marked up.

The engine finds all of this when it loads a model, by rendering the model's chat template with probe messages.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from app.values.validation import require, require_one_of

ThinkingLevel = Literal["default", "off", "on", "minimal", "low", "medium", "high", "max"]
"""How much a model thinks before it answers; "default" leaves it to the chat template."""
AMOUNTS: Mapping[str, int] = MappingProxyType(
    {"off": 0, "minimal": 1, "low": 2, "medium": 3, "on": 3, "default": 3, "high": 4, "max": 5}
)
"""How much is thought at each level, to find the nearest of those that a template has."""


@dataclass(frozen=True, slots=True)
class Thinking:
    """A user's choice for a reply: a level, and the most tokens of the thought (`budget`; 0: no limit)."""

    level: ThinkingLevel = "default"
    budget: int = 0

    def __post_init__(self) -> None:
        require_one_of(ThinkingLevel, "thinking", self.level)
        require(self.budget >= 0, "the thinking budget must not be negative", self.budget)


DEFAULT_THINKING = Thinking()


@dataclass(frozen=True, slots=True)
class ThinkingMode:
    """A level that a chat template offers. `values` is a JSON object of variables for the template, and `system` a
    text that is added to the system prompt.

    With `opens_thought` the prompt ends inside a thought, so that the reply begins without the opening marker."""

    level: ThinkingLevel
    values: str = "{}"
    opens_thought: bool = False
    system: str = ""


@dataclass(frozen=True, slots=True)
class ReplyFormat:
    """How a reply marks its thought; both markers are "" for a model that does not think."""

    thought_opening: str = ""
    thought_closing: str = ""

    def is_opened_by(self, prompt: str) -> bool:
        """Return whether a prompt ends inside a thought, so that the reply begins without the opening marker."""
        opening = self.thought_opening.strip()
        return bool(opening) and prompt.rstrip().endswith(opening)


@dataclass(frozen=True, slots=True)
class ChatFormat:
    """What is known about a model's chat template.

    `modes` are the levels of thinking that can be chosen, the template's own default first. A template without
    levels has at most one, which tells whether its prompt opens a thought. Without `takes_system` the template
    refuses or omits a system message, without `takes_user_runs` several messages of the user in a row, without
    `takes_assistant_first` a chat that begins with the assistant, and without `takes_text` a content that is not
    a list of parts. `turn_ends` are the control tokens after an assistant's message, the one that ends it first;
    `thought_end` is the text between a thought and its answer."""

    reply: ReplyFormat = field(default_factory=ReplyFormat)
    modes: tuple[ThinkingMode, ...] = ()
    takes_system: bool = True
    takes_user_runs: bool = True
    takes_assistant_first: bool = True
    takes_text: bool = True
    turn_ends: tuple[str, ...] = ()
    thought_end: str = ""

    def mode(self, level: ThinkingLevel) -> ThinkingMode:
        """Return the mode of this level, or of the nearest level that the template has."""
        if level == "default" or not self.modes:
            return self.modes[0] if self.modes else ThinkingMode("default")

        def distance(mode: ThinkingMode) -> tuple[bool, int, int]:
            amount = AMOUNTS[mode.level]
            return mode.level != level, abs(amount - AMOUNTS[level]), -amount

        return min(self.modes, key=distance)


UNKNOWN_FORMAT = ChatFormat()
"""The format of a model that is not loaded, or has no chat template."""
