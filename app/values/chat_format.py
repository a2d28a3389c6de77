"""How a model talks: what its chat template accepts, what can be switched in it, and how its replies are marked up.

The engine finds all of this when it loads a model, by rendering the model's chat template with probe messages.
"""

from dataclasses import dataclass, field
from typing import Literal

from app.values.validation import require, require_one_of

ThinkingLevel = Literal["default", "off", "on", "minimal", "low", "medium", "high", "max"]
"""How much a model thinks before it answers; "default" leaves it to the chat template."""


@dataclass(frozen=True, slots=True)
class Thinking:
    """A person's choice for a reply: a level, and the most tokens of the thought (`budget`; 0: no limit)."""

    level: ThinkingLevel = "default"
    budget: int = 0

    def __post_init__(self) -> None:
        require_one_of(ThinkingLevel, "thinking", self.level)
        require(self.budget >= 0, "the thinking budget must not be negative", self.budget)


@dataclass(frozen=True, slots=True)
class ThinkingMode:
    """A level that a chat template offers. `values` is a JSON object of variables for the template.

    With `opens_thought` the prompt ends inside a thought, so that the reply begins without the opening marker."""

    level: ThinkingLevel
    values: str = "{}"
    opens_thought: bool = False


@dataclass(frozen=True, slots=True)
class ReplyFormat:
    """How a reply marks its thought; both markers are "" for a model that does not think."""

    thought_opening: str = ""
    thought_closing: str = ""


@dataclass(frozen=True, slots=True)
class ChatFormat:
    """What is known about a model's chat template.

    `modes` are the levels of thinking that can be chosen, the template's own default first. Without `takes_system`
    the template refuses a system message, without `takes_user_runs` several messages of the user in a row.
    `turn_ends` are the control tokens that end a turn."""

    reply: ReplyFormat = field(default_factory=ReplyFormat)
    modes: tuple[ThinkingMode, ...] = ()
    takes_system: bool = True
    takes_user_runs: bool = True
    turn_ends: tuple[str, ...] = ()
