"""How this chat is answered: its system prompt, and presets of one with sampling, to begin chats with."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import gradio as gr

from app.chat_messages import ChatPreset, ChatSettings
from app.ui.chat.seat import Seat
from app.ui.controls import OptionControls, read_options, show_options
from app.ui.error_handling import Notify, succeeded, try_or_notify
from app.ui.page_events import PageEvents
from app.ui.page_sessions import PageValue
from app.ui.services import Services


@dataclass(frozen=True, slots=True)
class MannerArea:
    """The components."""

    system: gr.Textbox
    presets: gr.Dropdown
    save: gr.Button
    delete: gr.Button


def build_manner_area() -> MannerArea:
    """Build them inside the current Blocks."""
    with gr.Accordion("Instructions for this chat", open=False, elem_id="manner"):
        system = gr.Textbox(
            elem_id="system", label="System prompt", lines=3, max_lines=8, placeholder="You are a careful editor.",
            info="What the model reads before the chat. Holds for this chat from the next message on.",
        )  # fmt: skip
        presets = gr.Dropdown(
            [], elem_id="presets", label="Preset", allow_custom_value=True, value=None, min_width=100,
            info="Choose one, or type a name and save: instructions with the sampling below.",
        )  # fmt: skip
        with gr.Row(elem_classes="pair"):
            save = gr.Button("Save preset", elem_id="save-preset", size="sm")
            delete = gr.Button("Delete preset", elem_id="delete-preset", size="sm")
    return MannerArea(system, presets, save, delete)


class MannerActions:
    """The events of the app's instructions and presets."""

    def __init__(self, services: Services, notify: Notify) -> None:
        self._services = services
        self._notify = notify
        self._store = services.conversations.book.stored

    def choose_system(self, seat: Seat, system: str) -> None:
        """Have this chat answered with these instructions."""
        seat.instructions.send(system)
        self._try(
            lambda: have_manner(self._services, seat, replace(manner_of(self._services, seat), system=system))
        )

    def names(self) -> Any:
        """The presets there are."""
        return try_or_notify(self._notify, lambda: gr.update(choices=self._listed()), gr.skip())

    def choose(self, seat: Seat, name: str | None) -> tuple[Any, ...]:
        """Take a preset's instructions for this chat, and its sampling: the system box, then the controls."""
        nothing = (gr.skip(),) * (1 + len(OptionControls._fields))
        preset = try_or_notify(self._notify, lambda: self._preset(name), None)
        if preset is None:
            return nothing
        self.choose_system(seat, preset.manner.system)
        if preset.manner.sampling is None:
            return (preset.manner.system, *nothing[1:])
        options = replace(self._services.settings.options, sampling=preset.manner.sampling)
        self._try(lambda: self._services.choose_options(options))
        return (preset.manner.system, *show_options(options))

    def save(self, name: str | None, system: str, *controls: Any) -> Any:
        """Keep these instructions and this sampling under a name."""
        named = (name or "").strip()
        if not named:
            self._notify("A preset needs a name: type one into its box, then save.")
            return self.names()
        self._try(lambda: self._save(named, system, OptionControls(*controls)))
        return self.names()

    def delete(self, name: str | None) -> Any:
        """Forget a preset."""
        return try_or_notify(self._notify, lambda: self._delete(name or ""), gr.skip())

    def _listed(self) -> list[str]:
        return [preset.name for preset in self._store.presets()]

    def _preset(self, name: str | None) -> ChatPreset | None:
        return next((preset for preset in self._store.presets() if preset.name == name), None)

    def _delete(self, name: str) -> Any:
        self._store.delete_preset(name)
        return gr.update(choices=self._listed(), value=None)

    def _save(self, name: str, system: str, controls: OptionControls) -> None:
        options = read_options(controls, self._services.settings.options)
        self._store.save_preset(ChatPreset(name, ChatSettings(system, options.sampling)))

    def _try(self, deed: Callable[[], None]) -> None:
        succeeded(self._notify, deed)


def manner_of(services: Services, seat: Seat) -> ChatSettings:
    """How the chat that is looked at is answered."""
    chat = seat.place.chat
    return services.conversations.book.of(chat).manner(chat) if chat else seat.manner


def have_manner(services: Services, seat: Seat, manner: ChatSettings) -> None:
    """Have that chat answered so; one that is not begun yet will be."""
    chat = seat.place.chat
    if not chat:
        seat.manner = manner
    elif manner != manner_of(services, seat):
        services.conversations.book.of(chat).set_manner(chat, manner)


def wire_manner(
    area: MannerArea,
    actions: MannerActions,
    seat: PageValue[Seat],
    controls: list[gr.components.Component],
    events: PageEvents,
) -> None:
    """Join the components' events with what they do."""
    events.on(area.system.input, actions.choose_system, [seat, area.system], trigger_mode="always_last")
    events.on(area.presets.focus, actions.names, outputs=area.presets)
    events.on(area.presets.input, actions.choose, [seat, area.presets], [area.system, *controls])
    events.on(area.save.click, actions.save, [area.presets, area.system, *controls], area.presets)
    events.on(area.delete.click, actions.delete, area.presets, area.presets)
