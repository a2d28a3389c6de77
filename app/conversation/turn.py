"""The kinds of turns of a chat. A turn is a user's request for a reply."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import Literal

from app.chats.chats import ChatStores
from app.conversation.tool_use import NO_TOOLS, ToolUse
from app.errors import BadOption
from app.values.chat import ChatSettings, ChatVersion, MessageContent
from app.values.messages import Message, ModelChoice, Options

Overflow = Literal["ask", "oldest", "summarise", "shorter"]
"""The action if the chat is too long: ask the user, leave out or summarise old turns, or write a shorter reply."""
Messages = tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class ReplySettings:
    """The settings of one reply: its model and options, and what to do when the chat is too long.

    With `keeps_thoughts` earlier answers are sent with their reasoning; with `titles_chats` the model may title a
    new chat."""

    model: ModelChoice
    options: Options
    overflow: Overflow = "ask"
    keeps_thoughts: bool = False
    titles_chats: bool = False


@dataclass(frozen=True, slots=True)
class TurnContext:
    """The parts of a reply's prompt: the chat's settings, the messages before the question, and the question
    itself.

    For a continuation, `written` is the text to continue. `is_search_skipped` is true if the user asked for this
    reply without a search of the documents. For a comparison, `compared` is the answer that the reply is compared
    with. `tools` are the tools that the model may call."""

    chat_settings: ChatSettings
    history: Messages
    question: str
    written: MessageContent | None = None
    is_search_skipped: bool = False
    compared: MessageContent | None = None
    tools: ToolUse = NO_TOOLS


@dataclass(frozen=True, slots=True)
class Turn(ABC):
    """A request for a reply, made in the version of the chat that the user sees."""

    version: ChatVersion
    settings: ReplySettings

    @abstractmethod
    def context(self, stores: ChatStores) -> TurnContext:
        """Reads the parts of the reply's prompt. Raises ChatNotFound, BadOption."""

    @abstractmethod
    def save(self, stores: ChatStores) -> tuple[ChatVersion, int]:
        """Stores the turn with a reply in state "writing". Returns the new version and the reply's id.

        Raises StaleChat, ChatNotFound."""


@dataclass(frozen=True, slots=True)
class NewChat(Turn):
    """The first question of a chat that does not exist yet."""

    question: str
    chat_settings: ChatSettings = field(default_factory=ChatSettings)
    is_private: bool = False

    def context(self, _stores: ChatStores) -> TurnContext:
        return TurnContext(self.chat_settings, (), self.question)

    def save(self, stores: ChatStores) -> tuple[ChatVersion, int]:
        store = stores.private if self.is_private else stores.stored
        return store.begin(self.chat_settings, self.question)


@dataclass(frozen=True, slots=True)
class NewQuestion(Turn):
    """A question after the last shown message, or after the message `parent` (0: as a first message).

    `queued` is the id of the waiting message that becomes the question; 0 for none."""

    question: str
    parent: int | None = None
    queued: int = 0

    def context(self, stores: ChatStores) -> TurnContext:
        store, chat = stores.of(self.version.chat), self.version.chat
        return TurnContext(store.settings(chat), store.texts_before(chat, self.parent), self.question)

    def save(self, stores: ChatStores) -> tuple[ChatVersion, int]:
        return stores.of(self.version.chat).ask(self.version, self.question, self.parent, self.queued)


@dataclass(frozen=True, slots=True)
class Regeneration(Turn):
    """Another version of the answer `message`. If `is_search_skipped`, the documents are not searched for it.

    With `is_compared` the new version has the same passages, and a note that compares it with the answer."""

    message: int
    is_search_skipped: bool = False
    is_compared: bool = False

    def context(self, stores: ChatStores) -> TurnContext:
        context = context_of(stores, self.version.chat, self.message)
        compared = stores.of(self.version.chat).message(self.message).content if self.is_compared else None
        return replace(context, is_search_skipped=self.is_search_skipped, compared=compared)

    def save(self, stores: ChatStores) -> tuple[ChatVersion, int]:
        return stores.of(self.version.chat).regenerate(self.version, self.message)


@dataclass(frozen=True, slots=True)
class Continuation(Turn):
    """A request to continue the answer `message`."""

    message: int

    def context(self, stores: ChatStores) -> TurnContext:
        context = context_of(stores, self.version.chat, self.message)
        content = stores.of(self.version.chat).message(self.message).content
        # A reply that ended inside a character has U+FFFD at its end, which the model must not read.
        text = content.text.rstrip("\N{REPLACEMENT CHARACTER}")
        marks = tuple(replace(mark, end=min(mark.end, len(text))) for mark in content.marks)
        return replace(context, written=replace(content, text=text, marks=marks))

    def save(self, stores: ChatStores) -> tuple[ChatVersion, int]:
        return stores.of(self.version.chat).continue_reply(self.version, self.message), self.message


def context_of(stores: ChatStores, chat: int, answer: int) -> TurnContext:
    """Returns the parts of this answer's prompt.

    Raises ChatNotFound, and BadOption if no question precedes the answer."""
    store = stores.of(chat)
    texts = store.path_texts(chat, store.parent(answer))
    if not texts or texts[-1].role != "user":
        raise BadOption("There is no question before this reply. Write one first.")
    return TurnContext(store.settings(chat), texts[:-1], texts[-1].content)
