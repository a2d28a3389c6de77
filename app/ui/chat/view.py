"""The chat's view: the thread, the reply being written, the message box, and what their events do."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import gradio as gr

from app.chat_messages import ChatVersion
from app.conversation import ChatTooLong, Continuation, NewChat, NewQuestion, Overflow, Regeneration, Turn
from app.messages import Options
from app.ui.chat.chat_settings import save_settings, settings_of
from app.ui.chat.context_meter import PendingAction, overflow_html, pending_action
from app.ui.chat.messages import MESSAGE_LIMIT
from app.ui.chat.state import ChatState
from app.ui.error_handling import Notify, succeeded, try_or_notify
from app.ui.option_controls import OptionValues, to_options
from app.ui.page_events import LISTEN, PageEvents
from app.ui.page_sessions import PageValue
from app.ui.services import Services

MESSAGES = f"foresight.thread(element); {LISTEN}"
EXAMPLES = (
    "How does lookahead decoding work?",
    "I want to book a table for two",
    "How do I list all files with ls?",
    "Write a Python function that returns the sum of a list.",
)
"""First messages that the small demo model answers well."""
WELCOME = """
<h1>Several tokens per step, all checked.</h1>
<p>Foresight chats with a model on this computer and lets it write several tokens in one forward pass,
each of them checked by the model itself. Send a message and watch the numbers beside the chat.</p>
"""
PRIVATE = (
    '<p id="private-note">This chat is private. It is never stored, and deleted when Foresight is closed.</p>'
)
NO_QUESTION = ""
OVERFLOWS: dict[str, Overflow] = {"oldest": "oldest", "shorter": "shorter"}
"""The buttons of the question that is asked before anything is left out."""
ACTIONS = ("regenerate", "answer-anyway", "continue", "edit", "version")
"""The buttons below a message that change the chat."""


class ChatActions:
    """What the chat's events do, for any page."""

    def __init__(self, services: Services, notify: Notify) -> None:
        self._services = services
        self._notify = notify

    def open_last(self, state: ChatState) -> None:
        """Have a new page show the chat that was open last."""
        if self._services.chat:
            state.open_chat(ChatVersion(self._services.chat))

    def send(self, state: ChatState, message: str, *controls: Any) -> tuple[Any, str]:
        """Send the message. Its box is emptied only once it is on its way."""
        if not message.strip():
            return gr.skip(), NO_QUESTION
        question = self._try(state, PendingAction("ask", "", message.strip()), controls)
        return (gr.skip() if question is None or question else ""), question or NO_QUESTION

    def send_example(self, text: str, state: ChatState, *controls: Any) -> tuple[Any, str]:
        """Send one of the examples."""
        return self.send(state, text, *controls)

    def act(self, state: ChatState, _message: str, event: gr.EventData, *controls: Any) -> tuple[Any, str]:
        """Do what a button in the thread or in a question says."""
        do, name, value = (str(event._data.get(key, "")) for key in ("do", "name", "value"))
        if do in OVERFLOWS:
            pending = pending_action(value)
            question = self._try(state, pending, controls, OVERFLOWS[do])
            is_sent = question == NO_QUESTION and pending.do == "ask"
            return ("" if is_sent else gr.skip()), question or NO_QUESTION
        if do == "new":
            self.new_chat(state)
        elif do == "earlier":
            state.message_limit += MESSAGE_LIMIT
        elif do == "colours":
            state.coloured |= {int(name)}
        elif do in ACTIONS:
            return gr.skip(), self._try(state, PendingAction(do, name, value), controls) or NO_QUESTION
        return gr.skip(), NO_QUESTION

    def type(self, state: ChatState, message: str) -> None:
        """Have what is being typed counted."""
        state.draft = message

    def stop(self, state: ChatState) -> None:
        """Stop the reply that is being written in this chat; its text stays."""
        self._services.conversations.stop(state.version.chat)

    def new_chat(self, state: ChatState) -> None:
        """Show an empty page for a new chat. A reply in another chat continues."""
        state.new_chat()
        self._services.chat = 0

    def new_private_chat(self, state: ChatState) -> None:
        """The same for a chat that is never stored."""
        state.new_chat(is_private=True)
        self._services.chat = 0

    def choose_collection(self, state: ChatState, event: gr.EventData) -> None:
        """Have this chat ask a collection of documents, or no longer."""
        do, name = (str(event._data.get(key, "")) for key in ("do", "name"))
        if do == "choose-collection":
            succeeded(self._notify, lambda: self._toggle_collection(state, int(name)))

    def _toggle_collection(self, state: ChatState, collection: int) -> None:
        settings = settings_of(self._services, state)
        others = tuple(one for one in settings.collections if one != collection)
        chosen = others if collection in settings.collections else (*others, collection)
        save_settings(self._services, state, replace(settings, collections=chosen))

    def _try(
        self, state: ChatState, pending: PendingAction, controls: tuple[Any, ...], overflow: Overflow = "ask"
    ) -> str | None:
        """Do it. The result is "" once it is done, the question to answer first, or None where it was refused."""

        def run() -> str:
            try:
                self._do(state, pending, controls, overflow)
            except ChatTooLong as error:
                return overflow_html(error.fit, pending)
            return NO_QUESTION

        return try_or_notify(self._notify, run, None)

    def _do(
        self, state: ChatState, pending: PendingAction, controls: tuple[Any, ...], overflow: Overflow
    ) -> None:
        version, opened = state.version, state.opened
        if pending.do == "version":
            version = self._services.conversations.stores.of(version.chat).show(version, int(pending.name))
        else:
            options = to_options(OptionValues(*controls), self._services.settings.options)
            version = self._services.conversations.start(self._turn(state, pending, options, overflow))
        if state.finish(version, opened):  # an action may take seconds, and the person need not wait for it
            self._services.chat = version.chat

    def _turn(self, state: ChatState, pending: PendingAction, options: Options, overflow: Overflow) -> Turn:
        version = state.version
        settings = self._services.asked(options, overflow)
        match pending.do:
            case "edit":
                parent = self._services.conversations.stores.of(version.chat).parent(int(pending.name))
                return NewQuestion(version, settings, pending.value, parent)
            case "continue":
                return Continuation(version, settings, int(pending.name))
            case "answer-anyway":
                return Regeneration(version, settings, int(pending.name), is_search_skipped=True)
            case "regenerate":
                answer = int(pending.name)
                anew = self._services.asked_anew(version.chat, answer, options, overflow)
                return Regeneration(version, anew, answer)
        if version.chat:
            return NewQuestion(version, settings, pending.value)
        return NewChat(version, settings, pending.value, state.settings, state.is_private)


@dataclass(frozen=True, slots=True)
class ChatView:
    """The chat's components."""

    thread: gr.HTML
    live: gr.HTML
    examples: tuple[gr.Button, ...]
    message: gr.Textbox
    send: gr.Button
    stop: gr.Button
    collection_picker: gr.HTML

    def connect(
        self,
        question: gr.HTML,
        actions: ChatActions,
        state: PageValue[ChatState],
        controls: list[gr.components.Component],
        events: PageEvents,
    ) -> None:
        """Join the chat's events with their actions; `question` shows what must be answered first."""
        inputs, outputs = [state, self.message, *controls], [self.message, question]
        for sending in (self.send.click, self.message.submit):
            events.on(sending, actions.send, inputs, outputs)
        for text, button in zip(EXAMPLES, self.examples, strict=True):
            events.on(button.click, partial(actions.send_example, text), [state, *controls], outputs)
        for buttons in (self.thread, question):
            events.on(buttons.click, actions.act, inputs, outputs)
        events.on(self.message.input, actions.type, [state, self.message], trigger_mode="always_last")
        events.on(self.stop.click, actions.stop, state)
        events.on(self.collection_picker.click, actions.choose_collection, state)


def build_chat() -> ChatView:
    """Build the chat inside the current Blocks."""
    with gr.Column(elem_id="chat", scale=1):
        with gr.Column(elem_id="thread"):
            with gr.Column(elem_id="welcome"):
                gr.HTML(WELCOME)
                with gr.Row(elem_id="examples"):
                    examples = tuple(gr.Button(text, size="sm") for text in EXAMPLES)
            gr.HTML(PRIVATE, elem_id="private")
            thread = gr.HTML(elem_id="messages", js_on_load=MESSAGES)
            live = gr.HTML(elem_id="live", js_on_load=MESSAGES)
            gr.HTML(elem_id="reply-note", js_on_load=None)
        picker = gr.HTML(
            elem_id="collection-picker", js_on_load=f"foresight.collectionPicker(element); {LISTEN}"
        )
        message, send, stop = _build_composer()
        gr.HTML(elem_id="meter", js_on_load=None)
    return ChatView(thread, live, examples, message, send, stop, picker)


def _build_composer() -> tuple[gr.Textbox, gr.Button, gr.Button]:
    with gr.Row(elem_id="composer"):
        message = gr.Textbox(
            elem_id="message",
            show_label=False,
            label="Message",
            container=False,
            lines=1,
            max_lines=8,
            autofocus=True,
            placeholder="Write a message. Enter sends, Shift+Enter starts a new line.",
            scale=1,
        )
        send = gr.Button("Send", elem_id="send", variant="primary", scale=0, min_width=0)
        stop = gr.Button("Stop", elem_id="stop", variant="primary", scale=0, min_width=0)
    return message, send, stop
