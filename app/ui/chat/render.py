"""Renders what one page shows of its chat and the engine, as parts of the page. A call without changes
costs little, because the stores count their changes, and only new events of a reply are read."""

import json
from dataclasses import astuple, replace

from app.conversation import ContextFit, ReplyState, is_private
from app.errors import ChatNotFound
from app.ui.chat.chat_documents import chosen_collections_html
from app.ui.chat.chat_settings import typed_in
from app.ui.chat.context_meter import COUNT_SECONDS, ContextMeter, meter_html
from app.ui.chat.messages import ThreadOptions, thread_html
from app.ui.chat.reply_progress import ReplyProgress
from app.ui.chat.state import ChatState
from app.ui.chat.thinking_control import thinking_html
from app.ui.chat.tools_control import tool_choices, tools_note
from app.ui.frame.page_updates import Parts, ReplyHtmlBlocks
from app.ui.frame.services import Services
from app.ui.frame.templates import problem_html, render
from app.ui.frame.top_bar import status_html
from app.ui.live.panel import panel_html
from app.ui.live.step_history import StepHistory
from app.values.chat import ChatVersion, StoredMessage, Thread
from app.values.chat_format import Thinking
from app.values.messages import DecoderName, EngineStatus, Finished, ModelInfo

LONG = 100_000
"""If the page has more characters, messages are drawn before their tokens are counted."""
UNSAVED = "The reply above is not saved. Foresight will try again when you send a message or quit."


class ChatRenderer:
    def __init__(self, services: Services, state: ChatState, count_seconds: float = COUNT_SECONDS) -> None:
        self._services = services
        self._state = state
        self._key: tuple[object, ...] = ()
        self._thread = Thread(ChatVersion())
        self._is_writing, self._problem, self._setting_changes = False, "", 0
        self._messages = self._collections = self._queue = ""
        self._drafted, self._draft = -1, ""
        self._cut = (0, True)
        self._meter = ContextMeter(services, count_seconds)
        self._status: EngineStatus | None = None
        self._parts: Parts = {}

    def render(self) -> Parts:
        """Return the parts as they are now; the same object if nothing changed."""
        has_changed = self._read_chats()
        has_written = self._state.reply is not None and self._state.reply.read()
        status = self._services.engine.status()
        # A long chat is drawn first, because counting a million characters takes seconds.
        is_late = has_changed and sum(len(message.text) for message in self._thread.messages) > LONG
        has_counted = not is_late and self._meter.update(self._thread, self._state, status)
        if has_changed or (has_counted and self._cut != self._current_cut()):
            self._render_messages()
        if has_changed or has_written or has_counted or status != self._status:
            self._status, self._parts = status, self._build_parts(status)
        return self._parts

    def is_slow(self) -> bool:
        """Return whether the next render must read, render or count something, which may take a while."""
        reply, status = self._state.reply, self._services.engine.status()
        if (reply is not None and reply.is_slow) or self._current_key() != self._key:
            return True
        return self._meter.is_due(self._thread, self._state, status)

    def _current_key(self) -> tuple[object, ...]:
        state, conversations = self._state, self._services.conversations
        chat = state.version.chat
        return (
            conversations.is_writing(chat), conversations.problem(chat), conversations.stores.changes, chat,
            state.opened, state.message_limit, state.coloured, state.is_private, state.settings,
            self._services.documents.changes, self._thinking, state.box_changes,
            conversations.queue.is_sending(chat), conversations.tools.states, self._services.engine.status().model,
            self._is_stopping,
        )  # fmt: skip

    @property
    def _is_stopping(self) -> bool:
        reply = self._state.reply
        return reply is not None and reply.writing.reply.is_stopping

    @property
    def _thinking(self) -> Thinking:
        return self._services.settings.options.thinking

    def _read_chats(self) -> bool:
        key, chat = self._current_key(), self._state.version.chat
        if key == self._key:
            return False
        before = typed_in(self._thread.settings)
        try:
            self._thread = self._read_thread(chat)
        except ChatNotFound:  # deleted on another page
            if self._state.version.chat == chat:
                self._state.new_chat()
            if self._services.chat == chat:
                self._services.chat = 0
            return self._read_chats()
        # `key` was read before the thread, so that a reply that ends in between is drawn at the next call.
        self._is_writing, self._problem = bool(key[0]), str(key[1])
        if before != (now := typed_in(self._thread.settings)):
            self._setting_changes += not self._state.sent_settings.has(now)
        services, settings = self._services, self._thread.settings
        self._collections = chosen_collections_html(
            services.documents, settings.collections, tool_choices(services, settings.tools),
            tools_note(services, settings.tools),
        )  # fmt: skip
        self._follow_reply(chat)
        self._read_typed(chat)
        self._key = key
        return True

    def _read_thread(self, chat: int) -> Thread:
        if not chat:
            return Thread(ChatVersion(), settings=self._state.settings)
        thread = self._services.conversations.thread(chat, self._state.message_limit)
        if self._state.version.chat == chat:  # no other chat was opened while this one was read
            self._state.version = thread.version  # the page's next actions apply to what it shows
        return thread

    def _read_typed(self, chat: int) -> None:
        """Read the draft of a chat that was opened, and the messages that wait to be sent."""
        conversations, state = self._services.conversations, self._state
        if self._drafted != (opened := state.opened):
            draft = conversations.drafts.of(chat) if chat or not state.is_private else ""
            self._drafted, self._draft = opened, json.dumps([opened, draft])
        queue, waiting = conversations.queue, conversations.queue.of(chat)
        given = {"waiting": waiting, "is_sending": queue.is_sending(chat), "reason": queue.reason(chat)}
        self._queue = render("queue.html", **given) if waiting else ""

    def _follow_reply(self, chat: int) -> None:
        newest, reply = self._services.conversations.newest_reply(chat), self._state.reply
        if newest is None:
            self._state.reply = None
        elif reply is None or reply.writing is not newest:
            self._state.reply = ReplyProgress(newest, self._services.engine.reader)
            self._state.reply.read()

    def _render_messages(self) -> None:
        """Render the messages above the running reply. This takes long in a long chat."""
        thread, unstored = self._thread, self._unstored()
        if unstored:
            others = (message for message in thread.messages if message.id != unstored.writing.message)
            thread = replace(thread, messages=tuple(others))
        self._cut = self._current_cut()
        options = ThreadOptions(self._state.coloured, self._is_writing, *self._cut)
        self._messages = thread_html(thread, options)

    def _current_cut(self) -> tuple[int, bool]:
        """Return the first message that the model still reads (0 for all), and whether the user allowed that
        cut."""
        fit, reply = self._meter.fit, self._state.reply
        if self._is_writing or fit is None:
            return (reply.writing.first_read if reply else 0), True
        return self._meter.first_read, self._leaves_out

    @property
    def _leaves_out(self) -> bool:
        is_rolling = self._services.settings.chats.rolling_context
        return is_rolling or self._services.conversations.leaves_out(self._state.version.chat)

    def _unstored(self) -> ReplyProgress | None:
        """Return the reply that is shown below the messages because it is being written or could not be stored."""
        return self._state.reply if self._is_writing or self._problem else None

    def _build_parts(self, status: EngineStatus) -> Parts:
        thread, state, unstored = self._thread, self._state, self._unstored()
        chat, live = thread.version.chat, ReplyHtmlBlocks()
        if unstored:
            live = ReplyHtmlBlocks(unstored.writing.message, unstored.blocks)
        note = problem_html(f"{self._problem} {UNSAVED}") if self._problem else ""
        if self._is_writing:
            note = note_html(state.reply.state, self._is_stopping) if state.reply else ""
        return {
            "messages": self._messages,
            "live": live,
            "reply-note": note,
            "panel": self._panel(status.model),
            "status": status_html(status),
            "meter": self._meter_html(),
            "collection-picker": self._collections,
            "thinking": thinking_html(status.model.chat_format, self._thinking) if status.model else "",
            "chat-id": str(chat),
            "draft": self._draft,
            "box": json.dumps([astuple(change) for change in state.box_changes]),
            "queue": self._queue,
            "send": "Send next" if self._is_writing else "Send",
            "is-busy": self._is_writing,
            "is-empty": not thread.messages and not thread.earlier,
            "is-private": is_private(chat) if chat else state.is_private,
            # The boxes are filled only when this changes, because the user may be typing a system prompt.
            "chat-settings-of": f"{state.opened}.{self._setting_changes}",
        }

    def _meter_html(self) -> str:
        fit, reply = self._meter.fit, self._state.reply if self._is_writing else None
        documents = "plus documents" if self._thread.settings.collections else ""
        if fit and reply and reply.state.statistics.prompt_tokens:
            numbers = reply.state.statistics
            fit = ContextFit(numbers.prompt_tokens + numbers.tokens, fit.context, reserve=0)
            documents = "documents included" if reply.writing.before.sources else ""
        return meter_html(fit, self._leaves_out, documents)

    def _panel(self, model: ModelInfo | None) -> str:
        reply = self._state.reply
        numbers = reply.state if reply else stored_state(latest_answer(self._thread))
        chosen = self._services.asked_decoder(self._state.version.chat)
        history = reply.history if reply else StepHistory()
        return panel_html(numbers, history, decoder_of(numbers, chosen, model), model)


def latest_answer(thread: Thread) -> StoredMessage | None:
    """Return the newest answer in the shown versions of the messages."""
    return next((message for message in reversed(thread.messages) if message.role == "assistant"), None)


def stored_state(message: StoredMessage | None) -> ReplyState:
    """Return a stored answer as the state of a reply that has ended."""
    if message is None:
        return ReplyState(phase="finished")
    provenance = message.content.provenance
    if provenance is None:
        return ReplyState(phase="failed", text=message.text, note=message.content.note)
    finished = Finished(provenance.reason, provenance.statistics, provenance.model, provenance.decoder)
    return ReplyState("finished", message.text, provenance.statistics, finished=finished)


def decoder_of(state: ReplyState, chosen: DecoderName, model: ModelInfo | None) -> DecoderName:
    """Return a finished reply's own decoder, else the chosen decoder, or plain if the model has no lookahead."""
    if state.finished:
        return state.finished.decoder
    return "plain" if model and model.note("lookahead") else chosen


def note_html(state: ReplyState, is_stopping: bool = False) -> str:
    """Return the line below a reply that is being written: the phase that it is in."""
    done, total = state.progress
    match state.phase:
        case _ if is_stopping:
            words = "Stopping…"
        case "loading":
            words = state.note
        case "prefilling":
            words = f"Reading the chat: {done:,} of {total:,} tokens"
        case "waiting":
            words = "Waiting for the model"
        case "calling" if any(call.state == "asked" for call in state.calls):
            words = "Waiting for your permission"
        case "calling" if any(call.state == "running" for call in state.calls):
            words = "Waiting for the tool"
        case _:
            words = "Writing…"
    has_progress = bool(total) and not is_stopping and state.phase in ("loading", "prefilling")
    return render("reply_note.html", words=words, done=done, total=total, has_progress=has_progress)
