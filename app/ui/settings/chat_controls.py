"""What holds for all chats: what the model reads of them."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import gradio as gr

from app.settings import ChatDefaults
from app.ui.error_handling import Notify, succeeded
from app.ui.page_events import PageEvents
from app.ui.services import Services

SWITCHES = (
    ("rolling_context", "Rolling context", "A chat that is too long goes on without its oldest messages, unasked"),
    ("titles_by_model", "Titles by the model", "The model titles a new chat once it is idle"),
    ("keeps_thoughts", "Send earlier reasoning", "The model reads the reasoning of earlier answers, too"),
)  # fmt: skip
"""The field of `ChatDefaults`, the label, and what it does."""


@dataclass(frozen=True, slots=True)
class ChatControls:
    """The switches, in the order of `SWITCHES`."""

    switches: tuple[gr.Checkbox, ...]

    def connect(self, services: Services, notify: Notify, events: PageEvents) -> None:
        """Join the switches with the settings."""
        for (name, _, _), switch in zip(SWITCHES, self.switches, strict=True):
            events.on(switch.input, partial(_choose(services, notify), name), switch)


def _choose(services: Services, notify: Notify) -> Callable[[str, bool], None]:
    def choose(name: str, is_on: bool) -> None:
        succeeded(notify, lambda: services.choose_chat_defaults(**{name: is_on}))

    return choose


def build_chat_controls(defaults: ChatDefaults) -> ChatControls:
    """Build the switches inside the current Blocks."""
    with gr.Column(elem_id="chat-defaults", elem_classes="part"):
        gr.HTML("<h3>Chats</h3>", js_on_load=None)
        switches = tuple(
            gr.Checkbox(
                getattr(defaults, name),
                label=label,
                info=info,
                elem_id=name.replace("_", "-"),
                elem_classes="switch",
            )
            for name, label, info in SWITCHES
        )
    return ChatControls(switches)
