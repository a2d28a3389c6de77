"""The replies and the drafts of all chats. A turn is stored, decoded and recorded, even if its page is closed.

page -> start(turn) -> retrieve passages -> prepare the prompt -> save the turn -> engine.submit
"""

import logging
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from time import monotonic

from app.chats import ChatStores
from app.conversation.citation_check import checked
from app.conversation.engine_protocol import ModelEngine
from app.conversation.prompt_builder import ContextFit, PreparedReply, PromptBuilder
from app.conversation.reply import Reply
from app.conversation.reply_recorder import ReplyDraft, ReplyRecorder
from app.conversation.thinking import without_thoughts
from app.conversation.titles import ChatTitles
from app.conversation.turn import ReplySettings, Turn, context_of
from app.documents import Documents
from app.errors import AppError, StoreError
from app.values.chat import ChatSettings, ChatVersion, MessageContent, Thread
from app.values.logits import LogitsSettings
from app.values.messages import Message, ModelInfo, Options, Request

CLOSING_SECONDS = 0.5
SAVE_SECONDS = 1.0
"""Drafts are saved no more often than this: every change of the database has the pages look at it again."""
log = logging.getLogger(__name__)


class StillWriting(AppError):
    """The chat's reply is not complete yet."""

    def __init__(self) -> None:
        super().__init__("A reply is still being written. Wait until it ends, or stop it first.")


@dataclass(frozen=True, slots=True)
class StartedReply:
    """A reply that was started in this process: its message, its settings and its event log.

    `before` is the text that it continues. If the oldest messages were left out of the prompt, `first_read` is the
    first message that was sent, else 0."""

    message: int
    settings: ReplySettings
    reply: Reply
    before: MessageContent = field(default_factory=MessageContent)
    first_read: int = 0


@dataclass(frozen=True, slots=True)
class UnsavedReply:
    """A reply that the store refused, and why. It is stored before the next turn of its chat."""

    message: int
    content: MessageContent
    problem: str


class Conversations:
    """Starts and stops replies. Safe to use from any thread; each chat has at most one reply at a time."""

    def __init__(self, engine: ModelEngine, stores: ChatStores, documents: Documents) -> None:
        self.stores = stores
        self.drafts = Drafts(stores)
        self._titles = ChatTitles(engine, stores, lambda: self.is_busy)
        self._engine = engine
        self._documents = documents
        self._prompts = PromptBuilder(engine.reader, documents)
        self._started: Mapping[int, StartedReply] = {}
        self._recorders: dict[int, ReplyRecorder] = {}
        self._unsaved: dict[int, UnsavedReply] = {}
        self._leaving_out: frozenset[int] = frozenset()
        self._lock = threading.RLock()

    # Turns

    def start(self, turn: Turn) -> ChatVersion:
        """Starts the reply to a turn.

        Raises StaleChat, ChatTooLong, StillWriting, DocumentNotFound or BadOption, and then stores nothing."""
        with self._lock:
            self._require_ready(turn.version.chat)
        context = turn.context(self.stores)
        if not turn.settings.keeps_thoughts:
            context = replace(context, history=without_thoughts(context.history))
        # Without the lock: a schema may take seconds, and a search may wait for the embedding of the question.
        if grammar := context.chat_settings.json_answers.grammar:
            self._engine.check_grammar(grammar)
        retrieved = self._prompts.retrieve(context, turn.settings.options)
        with self._lock:
            self._require_ready(turn.version.chat)
            settings = turn.settings
            if settings.overflow == "ask" and self.leaves_out(turn.version.chat):
                settings = replace(settings, overflow="oldest")  # the person has agreed to that before
            prepared = self._prompts.prepare(context, retrieved, settings)
            version, message = turn.save(self.stores)
            self._submit(version.chat, message, prepared, context.written)
            return version

    def stop(self, chat: int) -> None:
        """Stops this chat's reply, if there is one. What is written stays."""
        if chat in self._recorders:
            self._started[chat].reply.stop()

    def stop_all(self) -> None:
        """Stops every reply."""
        for chat in tuple(self._recorders):
            self.stop(chat)

    def delete_all(self) -> None:
        """Stops every reply and deletes every chat for good."""
        self.stop_all()
        self.drafts.clear()
        self.stores.delete_all()

    def close(self) -> None:
        """Saves drafts and waits a moment until every reply is stored; the engine must have ended them.

        A reply that did not end is stored except for its last second. The next start marks it as interrupted."""
        self.drafts.close()
        deadline = monotonic() + CLOSING_SECONDS
        for recorder in tuple(self._recorders.values()):
            recorder.join(max(0.0, deadline - monotonic()))
        for chat in tuple(self._unsaved):
            with suppress(StoreError):  # the person was told when the reply ended
                self._save_again(chat)

    # What pages ask

    @property
    def is_busy(self) -> bool:
        """Whether any reply is being written."""
        return bool(self._recorders)

    def is_writing(self, chat: int) -> bool:
        """Whether this chat's reply is being written, or is not stored yet."""
        return chat in self._recorders

    def newest_reply(self, chat: int) -> StartedReply | None:
        """The newest reply that was started in this chat since the app started."""
        return self._started.get(chat)

    def problem(self, chat: int) -> str:
        """Why this chat's newest reply could not be stored; "" if it was."""
        unsaved = self._unsaved.get(chat)
        return unsaved.problem if unsaved else ""

    def options_used(self, chat: int, message: int) -> tuple[Options, ...]:
        """The options of all versions of this answer, as far as they are known."""
        store = self.stores.of(chat)
        contents = (store.message(version).content for version in store.message(message).versions)
        return tuple(each.provenance.options for each in contents if each.provenance)

    def has_written(self, chat: int, message: int, options: Options, model: ModelInfo | None) -> bool:
        """Whether this answer has a complete version by this model with these options, in the chat's form."""
        store = self.stores.of(chat)
        asked = options, model, store.settings(chat).json_answers.grammar
        contents = (store.message(version).content for version in store.message(message).versions)
        return any(
            each.state == "done"
            and each.provenance
            and (each.provenance.options, each.provenance.model, each.provenance.grammar) == asked
            for each in contents
        )

    def thread(self, chat: int, newest: int) -> Thread:
        """The newest messages of a chat as they are stored."""
        return self.stores.of(chat).thread(chat, newest)

    def leaves_out(self, chat: int) -> bool:
        """Whether the person has agreed that this chat's oldest turns are left out when it is too long."""
        return chat in self._leaving_out

    def fit(
        self,
        chat_settings: ChatSettings,
        messages: tuple[Message, ...],
        options: Options,
        keeps_thoughts: bool = False,
    ) -> ContextFit | None:
        """How a prompt of these messages fits the context; None without a model."""
        sent = messages if keeps_thoughts else without_thoughts(messages)
        return self._prompts.fit(chat_settings, sent, options)

    def prompt_of(self, chat: int, message: int) -> tuple[Message, ...]:
        """The prompt of this answer, sources included. Raises DocumentNotFound, ChatNotFound."""
        context = context_of(self.stores, chat, message)
        context = replace(context, history=without_thoughts(context.history))
        written = self.stores.of(chat).message(message).content
        retrieved = self._prompts.retrieve(replace(context, written=written), Options())
        return self._prompts.messages(context, retrieved)

    # Inside

    def _submit(
        self, chat: int, message: int, prepared: PreparedReply, written: MessageContent | None
    ) -> None:
        """Hands the prompt to the engine and records the reply; stores the app's own answer if there is one."""
        store = self.stores.of(chat)
        if prepared.answer:
            store.write(message, prepared.answer)
            return
        reply, settings = Reply(), prepared.settings
        before = written or MessageContent(sources=prepared.sources)
        self._leaving_out |= {chat} if prepared.left_out else set()
        # Complete logs of other chats are stored by now; a page that still reads one holds it itself.
        others = {other: known for other, known in self._started.items() if self.is_writing(other)}
        first_read = store.path_ids(chat, message)[prepared.left_out] if prepared.left_out else 0
        self._started = {**others, chat: StartedReply(message, settings, reply, before, first_read)}
        draft = ReplyDraft(settings.options, before, prepared.grammar)
        self._recorders[chat] = ReplyRecorder(
            reply,
            draft,
            lambda content: store.write(
                message, checked(content, prepared.documents, self._documents.similarities)
            ),
            lambda problem: self._recorded(chat, UnsavedReply(message, draft.content(), problem)),
        )
        logits = LogitsSettings(grammar=prepared.grammar)
        request = Request(
            settings.model, prepared.prompt, settings.options, prepared.documents, logits=logits
        )
        self._engine.submit(request, reply)

    def _recorded(self, chat: int, reply: UnsavedReply) -> None:
        with self._lock:
            if reply.problem:
                self._unsaved[chat] = reply
            self._recorders.pop(chat, None)
        started = self._started.get(chat)
        if started and started.settings.titles_chats and self._is_first(chat, reply.message):
            self._titles.begin(chat, started.settings)

    def _is_first(self, chat: int, message: int) -> bool:
        """Whether this is the chat's first answer, and it is complete."""
        with suppress(AppError):  # deleted meanwhile
            store = self.stores.of(chat)
            return len(store.path_ids(chat, message)) == 2 and store.message(message).content.state == "done"
        return False

    def _require_ready(self, chat: int) -> None:
        """Raises StillWriting, and StoreError while the chat's newest reply still cannot be stored."""
        if self.is_writing(chat):
            raise StillWriting
        self._save_again(chat)

    def _save_again(self, chat: int) -> None:
        if unsaved := self._unsaved.get(chat):
            self.stores.of(chat).write(unsaved.message, unsaved.content)
            del self._unsaved[chat]


class Drafts:
    """What is typed and not sent yet, by chat. It is saved a moment later, so that a reload or a restart finds it.

    Safe to use from any thread."""

    def __init__(self, stores: ChatStores, seconds: float = SAVE_SECONDS) -> None:
        self._stores = stores
        self._seconds = seconds
        self._unsaved: dict[int, str] = {}
        self._timer: threading.Timer | None = None
        self._is_closed = False
        self._lock = threading.RLock()

    def of(self, chat: int) -> str:
        """The chat's draft, "" for none; chat 0 is the one that is not begun yet."""
        with self._lock:
            if chat in self._unsaved:
                return self._unsaved[chat]
            return self._stores.of(chat).draft(chat)

    def keep(self, chat: int, text: str) -> None:
        """Remembers what is typed in a chat."""
        with self._lock:
            if self._is_closed:
                return
            self._unsaved[chat] = text
            if self._timer is None:
                self._timer = threading.Timer(self._seconds, self.save)
                self._timer.daemon = True
                self._timer.start()

    def close(self) -> None:
        """Saves what is not saved yet. What is typed afterwards is not kept."""
        with self._lock:
            self.save()
            self._is_closed = True

    def clear(self) -> None:
        """Forgets what is not saved yet."""
        with self._lock:
            self._unsaved.clear()

    def save(self) -> None:
        """Saves what is not saved yet. What cannot be saved is tried again with the next draft."""
        with self._lock:
            if self._timer:
                self._timer.cancel()
            self._timer = None
            for chat, text in tuple(self._unsaved.items()):
                try:
                    self._stores.of(chat).set_draft(chat, text)
                    del self._unsaved[chat]
                except StoreError as error:
                    log.warning("A draft could not be saved: %s", error)
                    return
