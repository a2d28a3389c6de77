"""The turns of all chats: stored first, then decoded, then recorded. They live in the process, not in a page."""

import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import Protocol

from app.chat_messages import ChatSettings, ChatVersion, MessageContent, Thread
from app.chats import Chats
from app.conversation.chatbook import Chatbook
from app.conversation.context import Fit
from app.conversation.planning import Asked, Plan, Planner
from app.conversation.reading import Reads
from app.conversation.recorder import Draft, Recorder
from app.conversation.reply import Reply
from app.conversation.sources import Library
from app.errors import AppError, BadOption, StoreError
from app.messages import Message, Options, Request

CLOSING_SECONDS = 0.5


class Decodes(Protocol):
    """What conversations need of the engine."""

    def submit(self, request: Request, reply: Reply) -> None:
        """Write the reply to this request into `reply`, on the engine's own thread."""

    def reader(self) -> Reads:
        """Counts tokens for the model that is loaded now."""


class StillWriting(AppError):
    """The chat's reply is not complete yet."""


@dataclass(frozen=True, slots=True)
class Writing:
    """A reply: which message it is, how it was asked for, and its log. It stays known when it is done.

    `before` is the text it continues; where the oldest messages were left out, `first_read` is the first that was
    sent, else 0."""

    message: int
    asked: Asked
    reply: Reply
    before: MessageContent = field(default_factory=MessageContent)
    first_read: int = 0


@dataclass(frozen=True, slots=True)
class Unsaved:
    """A reply that the store did not take, and why; it is stored before its chat goes on."""

    message: int
    written: MessageContent
    problem: str


class Conversations:
    """Every chat's turns, safe to use from any thread; each chat has at most one reply under way."""

    def __init__(self, engine: Decodes, book: Chatbook, library: Library) -> None:
        self.book = book
        self._engine = engine
        self._planner = Planner(engine.reader, library)
        self._writing: Mapping[int, Writing] = {}
        self._recorders: dict[int, Recorder] = {}
        self._unsaved: dict[int, Unsaved] = {}
        self._leaving_out: frozenset[int] = frozenset()
        self._lock = threading.RLock()

    @property
    def is_busy(self) -> bool:
        """Whether any reply is under way."""
        return bool(self._recorders)

    def is_writing(self, chat: int) -> bool:
        """Whether this chat's reply is under way, or not stored yet."""
        return chat in self._recorders

    def newest(self, chat: int) -> Writing | None:
        """The newest reply that was asked for in this chat since the app began."""
        return self._writing.get(chat)

    def problem(self, chat: int) -> str:
        """Why this chat's newest reply could not be stored; nothing where it was."""
        unsaved = self._unsaved.get(chat)
        return unsaved.problem if unsaved else ""

    def options_used(self, chat: int, message: int) -> tuple[Options, ...]:
        """The options with which the versions of this answer were written, as far as that is known."""
        store = self.book.of(chat)
        written = (store.message(version).written for version in store.message(message).versions)
        return tuple(each.provenance.options for each in written if each.provenance)

    def thread(self, chat: int, newest: int) -> Thread:
        """The chat's newest messages as they are stored."""
        return self.book.of(chat).thread(chat, newest)

    def begin(self, manner: ChatSettings, is_private: bool, question: str, asked: Asked) -> ChatVersion:
        """Begin a chat with its first question. Raises ChatTooLong, and then nothing is made."""
        consulted = self._planner.consult(manner, (), question, asked.options)
        with self._lock:
            plan = self._planner.plan(manner, (), consulted, asked)
            place, answer = self.book.begin(manner, is_private, question)
            return self._start(place, answer, plan)

    def ask(self, place: ChatVersion, question: str, asked: Asked, parent: int | None = None) -> ChatVersion:
        """Send a question below the shown path, or below `parent`. Raises StaleChat, ChatTooLong, StillWriting."""
        store = self._ready_store(place.chat)
        manner, before = store.manner(place.chat), store.texts_before(place.chat, parent)
        # Without the lock: a search may wait a moment for the question's vector.
        consulted = self._planner.consult(manner, before, question, asked.options)
        with self._lock:
            self._make_ready(place.chat)
            plan = self._planner.plan(manner, before, consulted, self._agreed(place, asked))
            place, answer = store.ask(place, question, parent)
            return self._start(place, answer, plan)

    def edit(self, place: ChatVersion, message: int, question: str, asked: Asked) -> ChatVersion:
        """Send a question anew in other words, beside the old ones."""
        parent = self.book.of(place.chat).parent(message)
        return self.ask(place, question, asked, parent)

    def answer_anew(self, place: ChatVersion, message: int, asked: Asked) -> ChatVersion:
        """Write another answer beside this one."""
        store = self._ready_store(place.chat)
        manner = store.manner(place.chat)
        before, question = _parted(store.path_texts(place.chat, store.parent(message)))
        consulted = self._planner.consult(manner, before, question, asked.options)
        with self._lock:
            self._make_ready(place.chat)
            plan = self._planner.plan(manner, before, consulted, self._agreed(place, asked))
            place, answer = store.answer_anew(place, message)
            return self._start(place, answer, plan)

    def go_on(self, place: ChatVersion, message: int, asked: Asked) -> ChatVersion:
        """Continue an answer that ended early."""
        with self._lock:
            self._make_ready(place.chat)
            store = self.book.of(place.chat)
            written = _without_half(store.message(message).written)
            before, question = _parted(store.path_texts(place.chat, store.parent(message)))
            consulted = self._planner.consult_again(written.sources, question)
            manner, agreed = store.manner(place.chat), self._agreed(place, asked)
            plan = self._planner.plan(manner, before, consulted, agreed, written.text)
            place = store.continue_(place, message)
            return self._start(place, message, plan, written)

    def leaves_out(self, chat: int) -> bool:
        """Whether the person has said that this chat's oldest turns may go where it is too long."""
        return chat in self._leaving_out

    def stop(self, chat: int) -> None:
        """Stop this chat's reply, if one is under way. What was written stays."""
        if chat in self._recorders:
            self._writing[chat].reply.stop()

    def delete_all(self) -> None:
        """Forget every chat for good; replies under way are stopped, and kept nowhere."""
        self.stop_all()
        self.book.delete_all()

    def stop_all(self) -> None:
        """Stop every reply under way."""
        for chat in tuple(self._recorders):
            self.stop(chat)

    def fit(self, manner: ChatSettings, messages: tuple[Message, ...], options: Options) -> Fit | None:
        """How a prompt of these messages fits; None while no model is there to count for."""
        return self._planner.fit(manner, messages, options)

    def prompt_of(self, chat: int, message: int) -> tuple[Message, ...]:
        """What the model read before this answer, sources included. Raises DocumentNotFound, ChatNotFound."""
        store = self.book.of(chat)
        before, question = _parted(store.path_texts(chat, store.parent(message)))
        consulted = self._planner.consult_again(store.message(message).written.sources, question)
        return self._planner.prompt(store.manner(chat), before, consulted)

    def close(self) -> None:
        """Wait a moment until every reply is stored; the engine must have ended them.

        One that it did not end is stored but for the last second: the next start says that it was interrupted."""
        deadline = monotonic() + CLOSING_SECONDS
        for recorder in tuple(self._recorders.values()):
            recorder.join(max(0.0, deadline - monotonic()))
        for chat in tuple(self._unsaved):
            with suppress(StoreError):  # which was told when the reply ended
                self._save_again(chat)

    def _agreed(self, place: ChatVersion, asked: Asked) -> Asked:
        """With what the person has chosen for this chat before."""
        is_agreed = asked.overflow == "ask" and self.leaves_out(place.chat)
        return replace(asked, overflow="oldest") if is_agreed else asked

    def _start(
        self, place: ChatVersion, message: int, plan: Plan, before: MessageContent | None = None
    ) -> ChatVersion:
        chat, reply, asked = place.chat, Reply(), plan.asked
        store = self.book.of(chat)
        if plan.answer:
            store.write(message, plan.answer)
            return place
        written = before or MessageContent(sources=plan.sources)
        self._leaving_out |= {chat} if plan.left_out else set()
        # Logs of other chats that are complete are the store's by now: pages that look at one hold it themselves.
        others = {other: known for other, known in self._writing.items() if self.is_writing(other)}
        first_read = store.path_ids(chat, message)[plan.left_out] if plan.left_out else 0
        self._writing = {**others, chat: Writing(message, asked, reply, written, first_read)}
        draft = Draft(asked.options, written)
        self._recorders[chat] = Recorder(
            reply,
            draft,
            lambda now: store.write(message, now),
            lambda problem: self._recorded(chat, Unsaved(message, draft.written(), problem)),
        )
        self._engine.submit(Request(asked.model, plan.prompt, asked.options, plan.documents), reply)
        return place

    def _recorded(self, chat: int, reply: Unsaved) -> None:
        with self._lock:
            if reply.problem:
                self._unsaved[chat] = reply
            self._recorders.pop(chat, None)

    def _ready_store(self, chat: int) -> Chats:
        """The chat's store, once what belongs in it is there."""
        with self._lock:
            self._make_ready(chat)
            return self.book.of(chat)

    def _make_ready(self, chat: int) -> None:
        """Raises StillWriting, and StoreError while the chat's newest reply still cannot be stored."""
        if self.is_writing(chat):
            raise StillWriting("A reply is still being written: wait for its end, or stop it first.")
        self._save_again(chat)

    def _save_again(self, chat: int) -> None:
        if unsaved := self._unsaved.get(chat):
            self.book.of(chat).write(unsaved.message, unsaved.written)
            del self._unsaved[chat]


def _parted(texts: tuple[Message, ...]) -> tuple[tuple[Message, ...], str]:
    """The question that a reply answers, and what stands before it."""
    if not texts or texts[-1].role != "user":
        raise BadOption("There is no question before this reply: write one first.")
    return texts[:-1], texts[-1].content


def _without_half(written: MessageContent) -> MessageContent:
    """A reply that was cut inside a character ends with a mark for that, which the model must not read."""
    text = written.text.rstrip("\N{REPLACEMENT CHARACTER}")
    marks = tuple(replace(mark, end=min(mark.end, len(text))) for mark in written.marks)
    return replace(written, text=text, marks=marks)
