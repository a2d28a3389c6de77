"""The control above the message box for how much the model thinks: the levels that the chat template has, and a
maximum if the template shows how a thought ends."""

from typing import Any

import gradio as gr

from app.errors import impossible_values
from app.ui.frame.event_handlers import Actions
from app.ui.frame.gradio_internals import pressed
from app.ui.frame.templates import render
from app.values.chat_format import AMOUNTS, ChatFormat, Thinking
from app.values.dataclass_json import parse_json

BUDGETS = (0, 250, 500, 1_000, 2_000, 4_000, 8_000)
NAMES = {"default": "Automatic"}
"""The labels that differ from the name of their level."""


def thinking_html(chat_format: ChatFormat, chosen: Thinking) -> str:
    """Return the control with the user's choice selected."""
    modes = sorted(chat_format.modes, key=lambda mode: AMOUNTS[mode.level])
    level = chat_format.mode(chosen.level).level
    levels = [(one.level, NAMES.get(one.level, one.level.capitalize())) for one in modes if len(modes) > 1]
    has_budget = bool(chat_format.reply.thought_end) and level != "off"
    budgets = sorted({*BUDGETS, chosen.budget}) if has_budget else []
    if not levels and not budgets:
        return ""
    return render("thinking.html", levels=levels, level=level, budgets=budgets, budget=chosen.budget)


class ThinkingActions(Actions):
    def choose(self, event: gr.EventData) -> None:
        """Save the choice for the current model; it applies from the next reply on."""
        given: dict[str, Any] = parse_json(pressed(event).value)
        now = self._services.settings.options.thinking

        def choose() -> None:
            with impossible_values():
                chosen = Thinking(given.get("level", now.level), int(given.get("budget", now.budget)))
            self._services.change(lambda settings: settings.with_thinking(chosen))

        self._succeeded(choose)
