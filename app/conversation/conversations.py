"""The replies and the drafts of all chats. A reply is written and recorded even if its page is closed.

page -> start(turn) -> retrieve passages -> prepare the prompt -> save the turn -> engine.submit
"""

import logging
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from time import monotonic

from app.chats.chats import ChatStores
from app.conversation.chat_tools import ChatTools
from app.conversation.citation_check import checked
from app.conversation.drafts import Drafts
from app.conversation.engine_protocol import ModelEngine
from app.conversation.message_queue import MessageQueue, StillWriting
from app.conversation.prompt_builder import ContextFit, PreparedReply, PromptBuilder
from app.conversation.prompt_sources import RetrievedContext
from app.conversation.reply import Reply
from app.conversation.reply_recorder import ReplyDraft, ReplyRecorder
from app.conversation.summaries import SummaryWriter
from app.conversation.thought_parsing import without_thoughts
from app.conversation.titles import ChatTitles
from app.conversation.tool_rounds import ToolRounds
from app.conversation.tool_use import ToolUse, with_rounds
from app.conversation.turn import ReplySettings, Turn, TurnContext, context_of
from app.documents.documents import Documents
from app.errors import AppError, StoreError
from app.values.chat import ChatSettings, ChatVersion, MessageContent, Thread
from app.values.logits import LogitsSettings
from app.values.messages import Failed, Message, ModelInfo, Options, Request

CLOSING_SECONDS = 0.5
BUG = "The old messages could not be summarised because of a bug in Foresight. Leave them out instead."
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StartedReply:
    """A reply that was started in this process: its message id, its settings and its event log.

    `before` is the content that the reply continues. If the oldest messages were left out of the prompt,
    `first_read` is the id of the first message that the model reads, else 0."""

    message: int
    settings: ReplySettings
    reply: Reply
    before: MessageContent = field(default_factory=MessageContent)
    first_read: int = 0


@dataclass(frozen=True, slots=True)
class EndedReply:
    """A reply that has ended. `problem` says why the reply could not be stored; "" if it was stored."""

    message: int
    content: MessageContent
    problem: str


class Conversations:
    """Starts and stops replies. Safe to use from any thread; each chat has at most one reply at a time."""

    def __init__(
        self, engine: ModelEngine, stores: ChatStores, documents: Documents, tools: ChatTools
    ) -> None:
        self.stores = stores
        self.drafts = Drafts(stores)
        self.queue = MessageQueue(stores, self.start, self.is_writing)
        self._titles = ChatTitles(engine, stores, lambda: self.is_busy)
        self._engine = engine
        self._documents = documents
        self.tools = tools
        self._prompts = PromptBuilder(engine.reader, documents)
        self._tool_rounds = ToolRounds(engine, tools, self._prompts)
        self._summaries = SummaryWriter(engine, self._prompts)
        self._started: Mapping[int, StartedReply] = {}
        self._recorders: dict[int, ReplyRecorder] = {}
        self._unsaved: dict[int, EndedReply] = {}  # these replies are stored before their chats' next turns
        self._leaving_out: frozenset[int] = frozenset()
        self._lock = threading.RLock()

    def start(self, turn: Turn) -> ChatVersion:
        """Stores a turn and starts its reply. Returns the chat's new version.

        Raises StaleChat, ChatNotFound, ChatTooLong, StillWriting, DocumentNotFound or BadOption, and then stores
        no turn. Raises StoreError if the database fails."""
        with self._lock:
            self._require_ready(turn.version.chat)
        context = _as_sent(turn.context(self.stores), turn.settings)
        context = replace(context, tools=self._tools_of(context.chat_settings))
        # The lock is not held here, because checking a schema may take seconds, and a search may wait for the
        # question's embedding.
        if grammar := context.chat_settings.json_answers.grammar:
            self._engine.check_grammar(grammar)
        retrieved = self._prompts.retrieve(context, turn.settings.options)
        with self._lock:
            self._require_ready(turn.version.chat)
            settings = turn.settings
            if settings.overflow == "ask" and self.leaves_out(turn.version.chat):
                settings = replace(settings, overflow="oldest")  # the user has chosen this in an earlier turn
            prepared = self._prompts.prepare(context, retrieved, settings)
            version, message = turn.save(self.stores)
            reply = self._record(version.chat, message, prepared, context)
            if prepared.summarised:
                given = version.chat, message, prepared, context, retrieved, reply
                threading.Thread(target=self._summarise, args=given, name="summary", daemon=True).start()
            elif not prepared.answer:
                self._submit(prepared, context, retrieved, version.chat, reply)
            return version

    def stop(self, chat: int) -> None:
        """Asks this chat's reply to stop, if there is one, and pauses its queue. The text written so far stays."""
        self.queue.hold(chat, "Stopped.")
        if chat in self._recorders:
            self._started[chat].reply.stop()

    def stop_all(self) -> None:
        for chat in tuple(self._recorders):
            self.stop(chat)

    def delete_all(self) -> None:
        """Asks every reply to stop, and deletes every chat and draft so that they cannot be restored."""
        self.stop_all()
        self.drafts.clear()
        self.stores.delete_all()

    def close(self) -> None:
        """Saves the drafts, closes the queues, and waits at most CLOSING_SECONDS until every reply is stored.

        The engine must already have ended the replies. A reply that did not end usually loses only its last second,
        and is marked as interrupted at the next start."""
        self.drafts.close()
        self.queue.close()
        deadline = monotonic() + CLOSING_SECONDS
        for recorder in tuple(self._recorders.values()):
            recorder.join(max(0.0, deadline - monotonic()))
        for chat in tuple(self._unsaved):
            with suppress(StoreError):  # the page has shown the error since the reply ended
                self._save_again(chat)

    @property
    def is_busy(self) -> bool:
        """Whether a reply of any chat is being written, or is not stored yet."""
        return bool(self._recorders)

    def is_writing(self, chat: int) -> bool:
        """Returns whether this chat's reply is being written, or is not stored yet."""
        return chat in self._recorders

    def newest_reply(self, chat: int) -> StartedReply | None:
        """Returns the chat's newest reply. A reply that has ended is forgotten when another chat starts a reply."""
        return self._started.get(chat)

    def problem(self, chat: int) -> str:
        """Returns why this chat's newest reply could not be stored; "" if it was stored."""
        unsaved = self._unsaved.get(chat)
        return unsaved.problem if unsaved else ""

    def options_used(self, chat: int, message: int) -> tuple[Options, ...]:
        """Returns the options of all versions of this answer whose options are known."""
        store = self.stores.of(chat)
        contents = (store.message(version).content for version in store.message(message).versions)
        return tuple(each.provenance.options for each in contents if each.provenance)

    def has_written(self, chat: int, message: int, options: Options, model: ModelInfo | None) -> bool:
        """Returns whether a complete version of this answer was made with this model, these options and the chat's
        grammar."""
        store = self.stores.of(chat)
        asked = options, model, store.settings(chat).json_answers.grammar
        contents = (store.message(version).content for version in store.message(message).versions)
        made = (each.provenance for each in contents if each.state == "done" and each.provenance)
        return any((each.options, each.model, each.grammar) == asked for each in made)

    def thread(self, chat: int, newest: int) -> Thread:
        """Returns a chat as it is stored, with its last `newest` messages."""
        return self.stores.of(chat).thread(chat, newest)

    def leaves_out(self, chat: int) -> bool:
        """Returns whether the user has agreed to leave out this chat's oldest turns when it is too long."""
        return chat in self._leaving_out

    def fit(
        self,
        chat_settings: ChatSettings,
        messages: tuple[Message, ...],
        options: Options,
        keeps_thoughts: bool = False,
    ) -> ContextFit | None:
        """Returns how these messages fit the context; None if no model is loaded here. Raises BadOption."""
        sent = messages if keeps_thoughts else without_thoughts(messages)
        return self._prompts.fit(chat_settings, sent, options, self._tools_of(chat_settings))

    def prompt_of(self, chat: int, message: int) -> tuple[Message, ...]:
        """Returns the prompt of this answer, sources included. Raises DocumentNotFound, ChatNotFound, BadOption."""
        context = context_of(self.stores, chat, message)
        context = replace(context, history=without_thoughts(context.history))
        written = self.stores.of(chat).message(message).content
        retrieved = self._prompts.retrieve(replace(context, written=written), Options())
        return self._prompts.messages(context, retrieved)

    def _record(self, chat: int, message: int, prepared: PreparedReply, context: TurnContext) -> Reply:
        """Creates the log of a reply and starts to record it. An answer of the app itself is only stored."""
        store, reply, settings = self.stores.of(chat), Reply(), prepared.settings
        if prepared.answer:
            store.write(message, prepared.answer)
            return reply
        self.queue.forget_reason(chat)
        before = context.written or MessageContent(sources=prepared.sources)
        self._leaving_out |= {chat} if prepared.left_out else set()
        # Finished replies of other chats are stored, so their logs are dropped. A page that still reads such a log
        # keeps it in memory.
        others = {other: known for other, known in self._started.items() if self.is_writing(other)}
        first_read = store.path_ids(chat, message)[prepared.left_out] if prepared.left_out else 0
        self._started = {**others, chat: StartedReply(message, settings, reply, before, first_read)}
        draft = ReplyDraft(settings.options, before, prepared.grammar, context.compared)
        self._recorders[chat] = ReplyRecorder(
            reply,
            draft,
            lambda content: store.write(
                message, checked(content, prepared.documents, self._documents.similarities)
            ),
            lambda problem: self._recorded(chat, EndedReply(message, draft.content(), problem)),
        )
        return reply

    def _tools_of(self, chat_settings: ChatSettings) -> ToolUse:
        """Returns the chat's tools, except those that their servers have not listed yet."""
        return self.tools.use(self.tools.offered(chat_settings.tools), self._engine.status().model)

    def _summarise(
        self, chat: int, message: int, prepared: PreparedReply, context: TurnContext, retrieved: RetrievedContext,
        reply: Reply,
    ) -> None:  # fmt: skip
        count, settings, problem = prepared.summarised, replace(prepared.settings, overflow="ask"), BUG
        try:
            oldest = context.history[:count]
            summary = self._summaries.write(context.chat_settings, oldest, prepared.settings, reply)
            store = self.stores.of(chat)
            store.summarise(store.path_ids(chat, message)[count - 1], summary)
            history = _as_sent(context_of(self.stores, chat, message), settings).history
            context = replace(context, history=history)
            prepared = self._prompts.prepare(context, retrieved, settings)
            self._submit(prepared, context, retrieved, chat, reply)
            problem = ""
        except AppError as error:
            problem = str(error)
        finally:  # without an end, the reply would count as being written forever
            if problem:
                reply.append(Failed(problem))

    def _submit(
        self,
        prepared: PreparedReply,
        context: TurnContext,
        retrieved: RetrievedContext,
        chat: int,
        reply: Reply,
    ) -> None:
        """Hands the prompt to the engine. A reply that may call tools is written in rounds, on a thread."""
        settings = prepared.settings
        if context.chat_settings.tools or (context.written and context.written.calls):
            given = chat, prepared, context, retrieved, reply
            threading.Thread(
                target=self._tool_rounds.write, args=given, name="tool rounds", daemon=True
            ).start()
            return
        logits = LogitsSettings(grammar=prepared.grammar)
        # A comparison starts cold, because the pool would otherwise know the first reply.
        request = Request(
            settings.model, with_rounds(prepared.prompt, context.tools.calls), settings.options, prepared.documents,
            is_cold=context.compared is not None, logits=logits,
        )  # fmt: skip
        self._engine.submit(request, reply)

    def _recorded(self, chat: int, reply: EndedReply) -> None:
        with self._lock:
            if reply.problem:
                self._unsaved[chat] = reply
            self._recorders.pop(chat, None)
        started = self._started.get(chat)
        if started and started.settings.titles_chats:
            with suppress(AppError):  # the chat may have been deleted in the meantime
                store = self.stores.of(chat)
                is_first = len(store.path_ids(chat, reply.message)) == 2
                if is_first and store.message(reply.message).content.state == "done":
                    self._titles.begin(chat, started.settings)
        if reply.problem or reply.content.state != "done":
            self.queue.hold(chat, "The reply was not finished.")
        self.queue.send_next(chat)

    def _require_ready(self, chat: int) -> None:
        """Raises StillWriting while a reply is written. Stores the last reply if it could not be stored before;
        raises StoreError if that fails."""
        if self.is_writing(chat):
            raise StillWriting
        self._save_again(chat)

    def _save_again(self, chat: int) -> None:
        if unsaved := self._unsaved.get(chat):
            self.stores.of(chat).write(unsaved.message, unsaved.content)
            del self._unsaved[chat]


def _as_sent(context: TurnContext, settings: ReplySettings) -> TurnContext:
    """Returns the context without the thoughts of earlier answers, unless the settings keep thoughts."""
    if settings.keeps_thoughts:
        return context
    return replace(context, history=without_thoughts(context.history))
