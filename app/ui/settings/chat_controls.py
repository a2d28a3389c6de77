"""Chat defaults, in the Settings view: what new chats begin with, and what holds for all chats."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import gradio as gr

from app.settings import ChatDefaults, Settings
from app.ui.frame.error_handling import Notify, succeeded
from app.ui.frame.option_controls import SAMPLING, OptionActions, OptionValues, build_sampling
from app.ui.frame.page_events import EVENT_OPTIONS, UNCHECKED, PageEvents
from app.ui.frame.services import Services

SWITCHES = (
    ("rolling_context", "Rolling context", "A chat that is too long goes on without its oldest messages, unasked"),
    ("keeps_thoughts", "Send earlier reasoning", "The model reads the reasoning of earlier answers, too"),
    ("titles_by_model", "Titles by the model", "The model titles a new chat once it is idle"),
)  # fmt: skip
"""The field of `ChatDefaults`, the label, and what it does."""


@dataclass(frozen=True, slots=True)
class ChatControls:
    """The components. `sampling` has the values of `SAMPLING` once more: they are those beside the chat."""

    system: gr.Textbox
    sampling: tuple[gr.components.Component, ...]
    problem: gr.HTML
    switches: tuple[gr.Checkbox, ...]

    def connect(self, services: Services, notify: Notify, events: PageEvents) -> None:
        """Join system prompt and switches with the settings."""
        choose = _choose(services, notify)
        events.on(self.system.input, partial(choose, "system"), self.system, trigger_mode="always_last")
        for (name, _, _), switch in zip(SWITCHES, self.switches, strict=True):
            events.on(switch.input, partial(choose, name), switch)

    def connect_sampling(
        self, options: OptionActions, controls: Sequence[gr.components.Component], events: PageEvents
    ) -> None:
        """Join the boxes with the settings, and with those of `controls`, which are all of `OptionValues`."""
        own = dict(zip(SAMPLING, self.sampling, strict=True))
        values = [own.get(name, other) for name, other in zip(OptionValues._fields, controls, strict=True)]
        for name, other in zip(OptionValues._fields, controls, strict=True):
            if name in own:
                _follow(own[name].input, own[name], other)  # type: ignore[attr-defined]
                _follow(other.change, other, own[name])  # type: ignore[attr-defined]
                save = partial(options.choose_options, (name,))
                listener = own[name].input  # type: ignore[attr-defined]
                events.on(listener, save, values, self.problem, trigger_mode="always_last", **UNCHECKED)


def _follow(
    listener: Callable[..., object], box: gr.components.Component, other: gr.components.Component
) -> None:
    """Have the other box show what this one shows, by the page itself."""
    listener(None, box, other, js="value => value", **EVENT_OPTIONS)


def _choose(services: Services, notify: Notify) -> Callable[[str, str | bool], None]:
    def choose(name: str, value: str | bool) -> None:
        succeeded(notify, lambda: services.choose_chat_defaults(**{name: value}))

    return choose


def build_chat_controls(settings: Settings) -> ChatControls:
    """Build the controls inside the current Blocks."""
    defaults = settings.chats
    with gr.Column(elem_classes="part"):
        gr.HTML("<h3>New chats</h3>", js_on_load=None)
        system = gr.Textbox(
            defaults.system, elem_id="default-system", label="System prompt", lines=3, max_lines=8,
            placeholder="You are a careful editor.", info="New chats begin with it",
        )  # fmt: skip
    with gr.Column(elem_id="default-sampling", elem_classes="part"):
        gr.HTML("<h3>Replies</h3><p class='hint'>As beside the chat.</p>", js_on_load=None)
        sampling, problem = build_sampling(settings.options, "default-", is_open=True)
    with gr.Column(elem_id="chat-defaults", elem_classes="part"):
        gr.HTML("<h3>All chats</h3>", js_on_load=None)
        switches = tuple(_switch(defaults, name, label, info) for name, label, info in SWITCHES)
    return ChatControls(system, sampling, problem, switches)


def _switch(defaults: ChatDefaults, name: str, label: str, info: str) -> gr.Checkbox:
    elem_id = name.replace("_", "-")
    return gr.Checkbox(
        getattr(defaults, name), label=label, info=info, elem_id=elem_id, elem_classes="switch"
    )
