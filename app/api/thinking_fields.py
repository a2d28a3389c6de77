"""The fields by which clients choose how much a model thinks, and set variables of its chat template.

Each server has its own names for them: reasoning_effort and reasoning are OpenAI's, chat_template_kwargs are vLLM's
and llama.cpp's. Any level can be chosen for any model: if its template does not have the level, the nearest
one is used.
"""

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field

from app.api.errors import ApiError
from app.values.chat_format import Thinking, ThinkingLevel

Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
LEVELS: Mapping[Any, ThinkingLevel] = {
    **{level: level for level in get_args(ThinkingLevel)}, "none": "off", "xhigh": "max", True: "on", False: "off",
}  # fmt: skip
OF_THE_APP = (
    "messages", "tools", "documents", "conversations", "chat_template", "add_generation_prompt",
    "continue_final_message", "return_assistant_tokens_mask",
)  # fmt: skip
"""Variables of templates that requests set by other fields, or not at all."""
SWITCHES = ("reasoning_effort", "enable_thinking", "thinking")
"""Variables of templates that are read as a level, too: words, or true and false."""
Budget = Annotated[int, Field(ge=0, le=2**31)]


class ReasoningFields(BaseModel):
    """The field `reasoning` of responses, which some clients also send to chat completions."""

    model_config = ConfigDict(extra="ignore")

    effort: Effort | None = None
    max_tokens: Budget | None = None


class ThinkingFields(BaseModel):
    model_config = ConfigDict(extra="ignore")

    reasoning_effort: Effort | None = None
    reasoning: ReasoningFields | None = None
    enable_thinking: bool | None = None
    thinking_budget: Budget | None = None
    max_thinking_tokens: Budget | None = None
    chat_template_kwargs: dict[str, Any] | None = None

    @property
    def thinking(self) -> Thinking:
        """The level and the budget, each from the first field that has it. A budget of 0 switches thinking off."""
        reasoning, values = self.reasoning or ReasoningFields(), self.chat_template_kwargs or {}
        budgets = (self.thinking_budget, self.max_thinking_tokens, reasoning.max_tokens)
        budget = next((one for one in budgets if one is not None), None)
        asked = (self.reasoning_effort, reasoning.effort, self.enable_thinking, *map(values.get, SWITCHES))
        usual = "off" if budget == 0 else "default"
        level = next((one for one in asked if isinstance(one, str | bool) and one in LEVELS), usual)
        return Thinking(LEVELS[level], budget or 0)

    @property
    def template_variables(self) -> str:
        """The variables for the chat template as JSON. Raises ApiError for one that the app sets itself."""
        values = self.chat_template_kwargs or {}
        if taken := [name for name in values if name in OF_THE_APP]:
            raise ApiError(
                f"chat_template_kwargs: {taken[0]} is set by Foresight: leave it out.", "chat_template_kwargs"
            )
        if wrong := [name for name in SWITCHES if not isinstance(values.get(name), str | bool | None)]:
            raise ApiError(
                f"chat_template_kwargs: {wrong[0]} must be a word, true or false.", "chat_template_kwargs"
            )
        return json.dumps(values) if values else ""
