"""The settings of one chat: its system prompt, answers as JSON, and presets of system prompt and sampling."""

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import gradio as gr

from app.chats.chats import Chats
from app.errors import BadOption
from app.ui.chat.state import ChatState
from app.ui.frame.event_handlers import (
    UNCHECKED,
    Actions,
    PageEvents,
    done_html,
    done_line,
    faults_html,
    try_at_box,
)  # fmt: skip
from app.ui.frame.option_controls import OptionValues, to_options, to_values
from app.ui.frame.page_connections import PageValue
from app.ui.frame.services import Services
from app.values.chat import ChatPreset, ChatSettings
from app.values.json_answers import JsonAnswers, schema_problem

T = TypeVar("T")


def settings_of(services: Services, state: ChatState) -> ChatSettings:
    """Return the settings of the chat that the page shows."""
    chat = state.version.chat
    return services.conversations.stores.of(chat).settings(chat) if chat else state.settings


def change_settings(
    services: Services, state: ChatState, chat: int, change: Callable[[ChatSettings], ChatSettings]
) -> None:
    """Change and save a chat's settings. Chat 0 has not begun, so only the page keeps its settings."""
    store = services.conversations.stores.of(chat)
    if not chat:
        state.settings = change(state.settings)
    elif change(before := store.settings(chat)) != before:
        store.change_settings(chat, change)


def switched(chosen: tuple[T, ...], one: T) -> tuple[T, ...]:
    """Return the choices without `one` if it is chosen, else with it."""
    return tuple(each for each in chosen if each != one) if one in chosen else (*chosen, one)


def typed_in(settings: ChatSettings) -> str:
    """Return the contents of the boxes of a chat's settings as one string, to detect changes."""
    return json.dumps([settings.system, settings.json_answers.is_on, settings.json_answers.schema])


class ChatSettingsActions(Actions):
    """The event handlers of the controls, shared by all pages."""

    @property
    def _store(self) -> Chats:
        return self._services.conversations.stores.stored

    def change_system_prompt(self, state: ChatState, system: str) -> None:
        self._change(state, lambda settings: replace(settings, system=system))

    def change_json(self, state: ChatState, is_on: bool, schema: str) -> str:
        """Save whether the chat's answers are JSON, and their schema. Returns any fault of the schema as HTML."""
        json_answers = JsonAnswers(is_on, schema)
        self._change(state, lambda settings: replace(settings, json_answers=json_answers))

        def check() -> None:
            if grammar := json_answers.grammar:  # raises BadOption if the schema is invalid JSON
                self._services.engine.check_grammar(grammar)

        return try_at_box("json-schema", check)[1]

    def shown(self, state: ChatState) -> tuple[Any, ...]:
        """Return the values of the boxes for the chat: system prompt, JSON switch, schema, and any problem with the
        schema. The schema is only parsed here; it is compiled when it is typed or used."""
        state.boxed = state.opened
        settings = self._try(lambda: settings_of(self._services, state))
        if settings is None:
            return (gr.skip(),) * 4
        json_answers = settings.json_answers
        problem = schema_problem(json_answers.schema) if json_answers.is_on else ""
        return settings.system, json_answers.is_on, json_answers.schema, faults_html({"json-schema": problem})

    def _change(self, state: ChatState, change: Callable[[ChatSettings], ChatSettings]) -> None:
        """Change the settings of the chat whose settings are in the boxes; the page may have just left the chat."""
        is_shown, sent = state.boxed == state.opened, state.sent_settings
        chat = state.version.chat if is_shown else state.left

        def noted(settings: ChatSettings) -> ChatSettings:
            changed = change(settings)
            if is_shown:
                sent.add(typed_in(changed))
            return changed

        if is_shown or chat:
            self._succeeded(lambda: change_settings(self._services, state, chat, noted))

    def list_presets(self) -> Any:
        """Return the box of presets with their current names."""
        return self._try(lambda: gr.update(choices=self._names()), gr.skip())

    def apply_preset(self, state: ChatState, name: str | None) -> tuple[Any, ...]:
        """Apply a preset to this chat's system prompt and to the sampling of all chats, and save both.

        Returns the values of the system prompt's box and of the option controls."""
        unchanged = (gr.skip(),) * (1 + len(OptionValues._fields))
        preset = self._try(lambda: self._preset(name))
        if preset is None:
            return unchanged
        self.change_system_prompt(state, preset.settings.system)
        sampling = preset.settings.sampling
        if sampling is None:
            return (preset.settings.system, *unchanged[1:])
        self._succeeded(lambda: self._services.change_options(lambda now: replace(now, sampling=sampling)))
        return (preset.settings.system, *to_values(self._services.settings.options))

    def save_preset(self, name: str | None, system: str, *controls: Any) -> tuple[Any, str, str]:
        """Save this system prompt and this sampling as a preset; Undo restores the preset that it replaces. Returns
        the box of presets, and two texts as HTML: what was done, and what is wrong with the name."""
        stripped = " ".join((name or "").split())

        def save() -> None:
            if not stripped:
                raise BadOption("Type a name for the preset, then save.")
            options = to_options(OptionValues(*controls), self._services.settings.options)
            before, preset = (
                self._preset(stripped),
                ChatPreset(stripped, ChatSettings(system, options.sampling)),
            )
            if before is None or before == preset:
                self._store.save_preset(preset)
                return
            self._services.deletions.delete(
                f"The preset \u201c{stripped}\u201d was replaced.",
                lambda: self._store.save_preset(preset),
                lambda: self._store.save_preset(before),
            )

        is_saved, faults = try_at_box("presets", save)
        return self.list_presets(), done_html(f"“{stripped}” is saved." if is_saved else ""), faults

    def delete_preset(self, name: str | None) -> Any:
        """Delete a preset, which Undo can restore."""

        def delete() -> Any:
            if before := self._preset(name):
                self._services.deletions.delete(
                    f"The preset \u201c{name}\u201d was deleted.",
                    lambda: self._store.delete_preset(before.name),
                    lambda: self._store.save_preset(before),
                )
            return gr.update(choices=self._names(), value=None)

        return self._try(delete, gr.skip())

    def _names(self) -> list[str]:
        return [preset.name for preset in self._store.presets()]

    def _preset(self, name: str | None) -> ChatPreset | None:
        return next((preset for preset in self._store.presets() if preset.name == name), None)


class ChatSettingsPanel:
    """The controls of a chat's settings, built inside the current Blocks."""

    def __init__(self) -> None:
        with gr.Column(elem_id="chat-settings"):
            with gr.Row(elem_id="preset-row"):
                self.presets = gr.Dropdown(
                    [], elem_id="presets", label="Preset", allow_custom_value=True, value=None, min_width=100,
                )  # fmt: skip
                self.save = gr.Button("Save", elem_id="save-preset", size="sm", scale=0, min_width=0)
                self.delete = gr.Button("Delete", elem_id="delete-preset", size="sm", scale=0, min_width=0)
            self.saved = done_line("preset-saved")
            self.system = gr.Textbox(
                elem_id="system", label="System prompt", lines=3, max_lines=8,
                placeholder="You are a careful editor.",
                info="For this chat, from the next message on. A preset keeps it together with the sampling below.",
            )  # fmt: skip
            self.is_json = gr.Checkbox(
                False, label="Answer as JSON", info="For this chat, from the next reply on", elem_id="answer-json",
                elem_classes="switch",
            )  # fmt: skip
            self.schema = gr.Textbox(
                elem_id="json-schema", label="JSON Schema", lines=4, max_lines=12, placeholder='{"type": "object"}',
                info="Leave it empty to allow any JSON object.",
            )  # fmt: skip

    @property
    def boxes(self) -> list[gr.components.Component]:
        """The components that show a chat's settings, in the order of `ChatSettingsActions.shown`."""
        return [self.system, self.is_json, self.schema]

    def connect(
        self,
        actions: ChatSettingsActions,
        state: PageValue[ChatState],
        controls: list[gr.components.Component],
        events: PageEvents,
    ) -> None:
        system, presets = self.system, self.presets
        events.on(system.input, actions.change_system_prompt, [state, system], trigger_mode="always_last")
        changed = partial(gr.on, [self.is_json.input, self.schema.input])
        given = [state, self.is_json, self.schema]
        events.on(changed, actions.change_json, given, events.faults, trigger_mode="always_last")
        events.on(presets.focus, actions.list_presets, outputs=presets)
        events.on(presets.input, actions.apply_preset, [state, presets], [system, *controls])
        saved = [presets, system, *controls]
        shown = [presets, self.saved, events.faults]
        events.on(self.save.click, actions.save_preset, saved, shown, **UNCHECKED)
        events.on(self.delete.click, actions.delete_preset, presets, presets)
