"""The settings of one chat: its system prompt, and presets of system prompt and sampling."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import gradio as gr

from app.chat_messages import ChatPreset, ChatSettings
from app.ui.chat.state import ChatState
from app.ui.error_handling import Notify, succeeded, try_or_notify
from app.ui.option_controls import OptionValues, to_options, to_values
from app.ui.page_events import PageEvents
from app.ui.page_sessions import PageValue
from app.ui.services import Services


def settings_of(services: Services, state: ChatState) -> ChatSettings:
    """Return the settings of the chat that the page shows."""
    chat = state.version.chat
    return services.conversations.stores.of(chat).settings(chat) if chat else state.settings


def save_settings(services: Services, state: ChatState, settings: ChatSettings) -> None:
    """Save the settings of that chat; a chat that is not begun yet will have them."""
    chat = state.version.chat
    if not chat:
        state.settings = settings
    elif settings != settings_of(services, state):
        services.conversations.stores.of(chat).set_settings(chat, settings)


class ChatSettingsActions:
    """What the controls do, for any page."""

    def __init__(self, services: Services, notify: Notify) -> None:
        self._services = services
        self._notify = notify
        self._store = services.conversations.stores.stored

    def change_system_prompt(self, state: ChatState, system: str) -> None:
        """Save this system prompt for the chat."""
        state.sent_prompts.add(system)
        self._try(
            lambda: save_settings(
                self._services, state, replace(settings_of(self._services, state), system=system)
            )
        )

    def list_presets(self) -> Any:
        """List the presets in their box."""
        return try_or_notify(self._notify, lambda: gr.update(choices=self._names()), gr.skip())

    def apply_preset(self, state: ChatState, name: str | None) -> tuple[Any, ...]:
        """Take over a preset. The results are the system prompt's box, then the option controls."""
        unchanged = (gr.skip(),) * (1 + len(OptionValues._fields))
        preset = try_or_notify(self._notify, lambda: self._preset(name), None)
        if preset is None:
            return unchanged
        self.change_system_prompt(state, preset.settings.system)
        if preset.settings.sampling is None:
            return (preset.settings.system, *unchanged[1:])
        options = replace(self._services.settings.options, sampling=preset.settings.sampling)
        self._try(lambda: self._services.choose_options(options))
        return (preset.settings.system, *to_values(options))

    def save_preset(self, name: str | None, system: str, *controls: Any) -> Any:
        """Save this system prompt and this sampling as a preset."""
        stripped = (name or "").strip()
        if not stripped:
            self._notify("Type a name for the preset into its box, then save.")
            return self.list_presets()
        self._try(lambda: self._save(stripped, system, OptionValues(*controls)))
        return self.list_presets()

    def delete_preset(self, name: str | None) -> Any:
        """Delete a preset."""
        return try_or_notify(self._notify, lambda: self._delete(name or ""), gr.skip())

    def _names(self) -> list[str]:
        return [preset.name for preset in self._store.presets()]

    def _preset(self, name: str | None) -> ChatPreset | None:
        return next((preset for preset in self._store.presets() if preset.name == name), None)

    def _delete(self, name: str) -> Any:
        self._store.delete_preset(name)
        return gr.update(choices=self._names(), value=None)

    def _save(self, name: str, system: str, values: OptionValues) -> None:
        options = to_options(values, self._services.settings.options)
        self._store.save_preset(ChatPreset(name, ChatSettings(system, options.sampling)))

    def _try(self, action: Callable[[], None]) -> None:
        succeeded(self._notify, action)


@dataclass(frozen=True, slots=True)
class ChatSettingsPanel:
    """The components."""

    system: gr.Textbox
    presets: gr.Dropdown
    save: gr.Button
    delete: gr.Button

    def connect(
        self,
        actions: ChatSettingsActions,
        state: PageValue[ChatState],
        controls: list[gr.components.Component],
        events: PageEvents,
    ) -> None:
        """Join the components' events with their actions."""
        system, presets = self.system, self.presets
        events.on(system.input, actions.change_system_prompt, [state, system], trigger_mode="always_last")
        events.on(presets.focus, actions.list_presets, outputs=presets)
        events.on(presets.input, actions.apply_preset, [state, presets], [system, *controls])
        events.on(self.save.click, actions.save_preset, [presets, system, *controls], presets)
        events.on(self.delete.click, actions.delete_preset, presets, presets)


def build_chat_settings() -> ChatSettingsPanel:
    """Build the panel inside the current Blocks."""
    with gr.Column(elem_id="chat-settings"):
        with gr.Row(elem_id="preset-row"):
            presets = gr.Dropdown(
                [], elem_id="presets", label="Preset", allow_custom_value=True, value=None, min_width=100,
            )  # fmt: skip
            save = gr.Button("Save", elem_id="save-preset", size="sm", scale=0, min_width=0)
            delete = gr.Button("Delete", elem_id="delete-preset", size="sm", scale=0, min_width=0)
        system = gr.Textbox(
            elem_id="system", label="System prompt", lines=3, max_lines=8, placeholder="You are a careful editor.",
            info="For this chat, from the next message on. A preset has it and the sampling below.",
        )  # fmt: skip
    return ChatSettingsPanel(system, presets, save, delete)
