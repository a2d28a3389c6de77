"""The chat's view: the thread, the reply being written, the message box, and what their events do."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import gradio as gr

from app.conversation import (
    ChatStores,
    ChatTooLong,
    Continuation,
    NewChat,
    NewQuestion,
    Overflow,
    Regeneration,
    ReplySettings,
    Turn,
)
from app.ui.chat.chat_documents import ChatDocuments
from app.ui.chat.chat_settings import settings_of
from app.ui.chat.context_meter import beginning_that_fits, overflow_html
from app.ui.chat.messages import EVERYTHING, MESSAGE_LIMIT
from app.ui.chat.state import ChatState
from app.ui.chat.thinking_control import ThinkingActions
from app.ui.chat.tools_control import PERMISSIONS, answer_call, choose_tools, read_text
from app.ui.frame.event_handlers import (
    LISTEN,
    UNCHECKED,
    UPLOADED,
    Actions,
    Notify,
    PageEvents,
    hidden_output,
    toast,
)
from app.ui.frame.gradio_internals import Press, pressed
from app.ui.frame.option_controls import OptionValues, to_options
from app.ui.frame.page_connections import PageValue
from app.ui.frame.services import Services, with_drawn_seed
from app.ui.frame.templates import render, render_macro
from app.ui.welcome.view import build_welcome
from app.values.chat import ChatVersion
from app.values.display_text import title_of

MESSAGES = f"foresight.thread(element); {LISTEN}"
TEMPLATE = "chat.html"
NO_QUESTION = ""
OVERFLOWS: dict[str, Overflow] = {"oldest": "oldest", "summarise": "summarise", "shorter": "shorter"}
"""The choices of the question that is asked if a chat is too long, by the names of their buttons."""
ANSWERS = (*OVERFLOWS, "cut", "attach", "warmer", "same")
"""The buttons of all questions that are asked before a reply is begun."""
Change = Callable[[ChatStores, ChatVersion, int, str], ChatVersion]
CHANGES: dict[str, Change] = {
    "version": lambda stores, version, message, _: stores.of(version.chat).show(version, message),
    "edit-reply": lambda stores, version, *edit: stores.of(version.chat).edit_reply(version, *edit),
    "fork": lambda stores, version, message, _: stores.of(version.chat).fork(version.chat, message),
}
"""The changes of a chat, by the button's name. Each returns the version of the chat to show afterwards."""
WARMER = 0.7
"""The temperature that is offered for another answer if temperature 0 would repeat the text."""
ACTIONS = ("regenerate", "compare", "answer-anyway", "continue", "edit", "queue-send", *CHANGES)
"""The buttons that change the chat, perhaps after a question."""
QUEUED = ("queue-edit", "queue-earlier", "queue-remove")
"""The buttons that edit, move or remove a message that waits to be sent."""


class ChatActions(Actions):
    """The event handlers of the chat, shared by all pages."""

    def __init__(self, services: Services, notify: Notify = toast) -> None:
        super().__init__(services, notify)
        self.documents = ChatDocuments(services, notify)
        self.thinking = ThinkingActions(services, notify)

    def open_last(self, state: ChatState) -> None:
        """Show the chat that was open last, on a new page."""
        if self._services.chat:
            state.open_chat(ChatVersion(self._services.chat))

    def open_chat(self, state: ChatState, event: gr.EventData) -> None:
        """Show the chat in the page's address; a new chat if there is none, or if it cannot be opened."""
        name = pressed(event).name
        chat = int(name) if name.isdecimal() else 0

        def open_it() -> None:
            state.open_chat(self._services.conversations.thread(chat, 1).version)
            self._services.chat = chat

        if not chat or not self._succeeded(open_it):
            self.new_chat(state)

    def turn_to(self, state: ChatState, left: str, typed: str, opened: int) -> None:
        """Save what was typed in the chat that the page has left, and read the draft of the chat shown now.
        `opened` is what `state.opened` was when the page drew this chat. `left` is "" for a new page, which keeps
        what was typed before it was drawn."""
        drafts, chat = self._services.conversations.drafts, state.version.chat
        state.filled = opened
        if left == "" and typed:
            self.type(state, typed)
            return
        if left.isdecimal() and typed.strip() != state.sent:
            drafts.keep(int(left), typed)
        # A private chat that has not begun cannot store a draft.
        is_kept = chat or not state.is_private
        state.draft = self._try(lambda: drafts.of(chat), "") if is_kept else ""

    def act(self, state: ChatState, event: gr.EventData, *controls: Any) -> str:
        """Handle a sent message, or a button in the thread or in a question. Returns the question to ask next."""
        press = pressed(event)
        do, name, value = press
        if do in ANSWERS:
            return self._answer(state, do, Press(*json.loads(value)), controls)
        if do == "ask":
            return self._send(state, value, controls)
        if do == "starter":
            # The starters were selected by the answers that models give at temperature 0.
            cold = OptionValues(*controls)._replace(temperature=0)
            return self._ask(state, Press("ask", "", value), cold) or NO_QUESTION
        if do in ACTIONS:
            return self._ask(state, press, controls) or NO_QUESTION
        if do == "new":
            self.new_chat(state)
        elif delete := {"delete": self._delete, "remove-summary": self._remove_summary}.get(do):
            self._succeeded(lambda: delete(state, int(name)))
        elif do == "earlier":
            state.message_limit = EVERYTHING if value == "all" else state.message_limit + MESSAGE_LIMIT
        elif do == "colours":
            state.coloured |= {int(name)}
        elif do in QUEUED:
            self._succeeded(lambda: self._change_queue(state, press))
        return NO_QUESTION

    def _send(self, state: ChatState, message: str, controls: tuple[Any, ...]) -> str:
        """Send the text that was taken from the message box, and return it to the box if it was not accepted."""
        if not message.strip():
            return NO_QUESTION
        opened = state.opened
        question = self._ask(state, Press("ask", "", message.strip()), controls)
        if state.opened == opened:
            state.change_box(**{"taken" if question == NO_QUESTION else "given": message})
        return question or NO_QUESTION

    def _change_queue(self, state: ChatState, press: Press) -> None:
        """Change a waiting message. Editing swaps its text with the text in the message box."""
        chat, message = state.version.chat, int(press.name)
        store = self._services.conversations.stores.of(chat)
        if press.do == "queue-earlier":
            store.advance_queued(chat, message)
        elif press.do == "queue-remove":
            queue = self._services.conversations.queue
            if removed := next((one for one in queue.of(chat) if one.id == message), None):
                self._services.deletions.delete(
                    f"“{title_of(removed.text)}” was removed.",
                    lambda: store.replace_queued(message),
                    lambda: queue.restore(chat, removed),
                )
        elif text := store.replace_queued(message, press.value.strip()):
            state.change_box(press.value, text)

    def _answer(self, state: ChatState, answer: str, pending: Press, controls: tuple[Any, ...]) -> str:
        """Apply the answer to a question, and continue the action that waited for it."""
        match answer:
            case "cut":
                return self._send_beginning(state, pending.value, controls)
            case "attach":
                if self.documents.attach_text(state, pending.value):
                    state.change_box(pending.value)
                return NO_QUESTION
            case "warmer" | "same":
                values = OptionValues(*controls)
                values = values._replace(temperature=WARMER) if answer == "warmer" else values
                return self._ask(state, pending, values, is_meant=True) or NO_QUESTION
        question = self._ask(state, pending, controls, OVERFLOWS[answer], is_meant=True)
        if question == NO_QUESTION and pending.do == "ask":
            state.change_box(pending.value)
        return question or NO_QUESTION

    def type(self, state: ChatState, message: str) -> None:
        """Store the draft that is being typed, so that its tokens are counted and it is not lost."""
        if state.sent and message.strip() == state.sent:
            return  # the event is late, because the message was already sent
        state.draft, state.sent = message, ""
        # The box may still have the former chat's text, and a private chat that has not begun stores no draft.
        if state.filled == state.opened and not (state.is_private and not state.version.chat):
            self._services.conversations.drafts.keep(state.version.chat, message)

    def choose_source(self, state: ChatState, event: gr.EventData) -> None:
        """Turn a collection or a server's tools on or off for the chat, or use a text that a server offers."""
        do, name, value = pressed(event)
        if do == "choose-tools":
            self._succeeded(lambda: choose_tools(self._services, state, name))
        elif do == "use-text":
            self._succeeded(lambda: self._use_text(state, name, value))
        else:
            self.documents.choose_collection(state, event)

    def _use_text(self, state: ChatState, server: str, name: str) -> None:
        """Attach a resource of a tool server to the chat, or write a prompt's text into the message box."""
        opened = state.opened
        offered, text = read_text(self._services, server, name)
        if state.opened == opened and offered.uri:
            self.documents.attach_text(state, text, offered.name)
        elif state.opened == opened:
            state.change_box(given=text)

    def permit(self, state: ChatState, event: gr.EventData) -> None:
        """Answer a call of a tool that waits for the user."""
        do, call, _ = pressed(event)
        if do in PERMISSIONS:
            self._succeeded(lambda: answer_call(self._services, state, call, PERMISSIONS[do]))

    def stop(self, state: ChatState) -> None:
        """Stop the reply that is being written in this chat; its text so far is kept."""
        self._services.conversations.stop(state.version.chat)

    def new_chat(self, state: ChatState, is_private: bool = False) -> None:
        """Show an empty page for a new chat. A reply in another chat continues."""
        state.new_chat(is_private)
        self._services.chat = 0

    def new_private_chat(self, state: ChatState) -> None:
        self.new_chat(state, is_private=True)

    def _send_beginning(self, state: ChatState, text: str, controls: tuple[Any, ...]) -> str:
        """Send as much of the message's beginning as fits. The rest stays in the box."""
        options = to_options(OptionValues(*controls), self._services.settings.options)
        settings = settings_of(self._services, state)
        sent = beginning_that_fits(self._services.conversations, settings, text, options)
        question = self._ask(state, Press("ask", "", sent), controls, "oldest") if sent else None
        if question == NO_QUESTION:
            state.change_box(text, text[len(sent) :].lstrip())
        return question or NO_QUESTION

    def _ask(
        self,
        state: ChatState,
        pending: Press,
        controls: tuple[Any, ...],
        overflow: Overflow = "ask",
        is_meant: bool = False,
    ) -> str | None:
        """Try the action. Returns "" if it is done, the question to answer first, or None if it was refused."""

        def run() -> str:
            try:
                if not is_meant and self._writes_the_same(state, pending, controls):
                    question = json.dumps(pending)
                    return render("regenerate_question.html", warmer=WARMER, pending=question)
                self._do(state, pending, controls, overflow)
            except ChatTooLong as error:
                return overflow_html(error.fit, pending)
            return NO_QUESTION

        return cast(str | None, self._try(run))

    def _delete(self, state: ChatState, message: int) -> None:
        version, store = state.version, self._services.conversations.stores.of(state.version.chat)
        ids = [each.id for each in store.thread(version.chat, state.message_limit).messages]
        following = len(ids) - ids.index(message) - 1 if message in ids else 0
        after = f"the {following:,} messages" if following > 1 else "the one"
        others = f" and {after} after it were" if following else " was"

        def delete() -> None:
            state.version = store.remove(version, message)

        self._services.deletions.delete(
            f"The message{others} deleted.", delete, lambda: store.put_back(version.chat)
        )

    def _remove_summary(self, state: ChatState, message: int) -> None:
        store = self._services.conversations.stores.of(state.version.chat)
        before = store.message(message).content.summary
        self._services.deletions.delete(
            "The summary was removed.",
            lambda: store.summarise(message, ""),
            lambda: store.summarise(message, before),
        )

    def _writes_the_same(self, state: ChatState, pending: Press, controls: tuple[Any, ...]) -> bool:
        """Return whether regenerating at temperature 0 with this model would repeat an existing answer."""
        services = self._services
        if pending.do != "regenerate" or settings_of(services, state).collections:
            return False  # documents may have changed in the meantime
        options = with_drawn_seed(to_options(OptionValues(*controls), services.settings.options))
        model, chat = services.engine.status().model, state.version.chat
        is_greedy = options.sampling.temperature == 0 and not (model and model.server)
        return is_greedy and services.conversations.has_written(chat, int(pending.name), options, model)

    def _do(self, state: ChatState, pending: Press, controls: tuple[Any, ...], overflow: Overflow) -> None:
        version, opened = state.version, state.opened
        asked, is_secret = version.chat, state.is_private and not version.chat
        conversations = self._services.conversations
        if change := CHANGES.get(pending.do):
            version = change(conversations.stores, version, int(pending.name), pending.value)
        else:
            options = to_options(OptionValues(*controls), self._services.settings.options)
            settings = self._services.asked(options, overflow)
            if pending.do == "ask" and conversations.queue.takes(asked):
                conversations.queue.add(asked, pending.value, settings)
            else:
                version = conversations.start(self._turn(state, pending, settings))
            if pending.do == "queue-send":
                conversations.queue.send(asked, settings)
        if pending.do == "ask":
            self._drop_draft(state, version.chat if is_secret else asked, version.chat, pending.value.strip())
        if version.chat != asked and asked:
            state.open_chat(version)
            self._services.chat = version.chat
        elif state.finish(version, opened):  # the user may have opened another chat meanwhile
            self._services.chat = version.chat

    def _drop_draft(self, state: ChatState, asked: int, chat: int, sent: str) -> None:
        """Forget the draft that was sent; what was typed meanwhile is the chat's draft."""
        drafts, typed = self._services.conversations.drafts, state.draft
        state.sent = sent
        if sent.startswith(typed.strip()):  # the last typed characters may arrive late
            state.draft = ""
        if asked != chat:
            drafts.keep(asked, "")
        drafts.keep(chat, state.draft)

    def _turn(self, state: ChatState, pending: Press, settings: ReplySettings) -> Turn:
        version = state.version
        match pending.do:
            case "edit":
                parent = self._services.conversations.stores.of(version.chat).parent(int(pending.name))
                return NewQuestion(version, settings, pending.value, parent)
            case "continue":
                return Continuation(version, settings, int(pending.name))
            case "answer-anyway":
                return Regeneration(version, settings, int(pending.name), is_search_skipped=True)
            case "compare":
                switched = self._services.asked_switched(version.chat, int(pending.name))
                switched = replace(switched, overflow=settings.overflow)
                return Regeneration(version, switched, int(pending.name), is_compared=True)
            case "regenerate":
                answer = int(pending.name)
                anew = self._services.asked_anew(version.chat, answer, settings)
                return Regeneration(version, anew, answer)
            case "queue-send":
                return NewQuestion(version, settings, pending.value, queued=int(pending.name))
        if version.chat:
            return NewQuestion(version, settings, pending.value)
        return NewChat(version, settings, pending.value, state.settings, state.is_private)


class ChatView:
    """The components of the chat, built inside the current Blocks."""

    def __init__(self) -> None:
        with gr.Column(elem_id="chat", scale=1):
            with gr.Column(elem_id="thread"):
                gr.HTML(render_macro(TEMPLATE, "private"), elem_id="private")
                self.starters, self.offers = build_welcome()
                self.thread = gr.HTML(elem_id="messages", js_on_load=MESSAGES)
                self.live = gr.HTML(elem_id="live", js_on_load=MESSAGES)
                gr.HTML(elem_id="reply-note", js_on_load=None)
            gr.HTML(render_macro(TEMPLATE, "jump"), elem_id="jump", js_on_load=None)
            with gr.Row(elem_id="above-composer"):
                self.collection_picker = gr.HTML(
                    elem_id="collection-picker", js_on_load=f"foresight.collectionPicker(element); {LISTEN}"
                )
                self.thinking = gr.HTML(elem_id="thinking", js_on_load=LISTEN)
            self.queue = gr.HTML(elem_id="queue", js_on_load=LISTEN)
            with gr.Row(elem_id="composer"):
                self.attach = gr.UploadButton(
                    "Attach", elem_id="attach", size="sm", scale=0, min_width=0, file_count="multiple",
                )  # fmt: skip
                gr.HTML(render_macro(TEMPLATE, "message_box"), elem_id="message", js_on_load=None)
                gr.Button("Send", elem_id="send", variant="primary", scale=0, min_width=0)
                self.stop = gr.Button("Stop", elem_id="stop", variant="primary", scale=0, min_width=0)
            self.composer = hidden_output("sending", "foresight.composer(trigger)")
            gr.HTML(elem_id="meter", js_on_load=None)
            self.address = hidden_output("address", "foresight.address(trigger)")

    def connect(
        self,
        question: gr.HTML,
        actions: ChatActions,
        state: PageValue[ChatState],
        controls: list[gr.components.Component],
        events: PageEvents,
    ) -> None:
        """Connect the chat's events with their actions; `question` shows what must be answered first."""
        inputs = [state, *controls]
        for buttons in (self.thread, self.starters, self.queue, question):
            events.on(buttons.click, actions.act, inputs, question, **UNCHECKED)
        events.on(self.composer.click, actions.act, inputs, question, trigger_mode="multiple", **UNCHECKED)
        events.on(self.live.click, actions.permit, state)
        events.on(self.stop.click, actions.stop, state)
        events.on(self.collection_picker.click, actions.choose_source, state)
        events.on(self.thinking.click, actions.thinking.choose, trigger_mode="multiple")
        events.on(self.address.click, actions.open_chat, state)
        events.on(self.attach.upload, actions.documents.attach_files, [state, self.attach], **UPLOADED)
