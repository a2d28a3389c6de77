"""What is sent for one reply: the chat, the sources before its last question, and what must be left out."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from app.chat_messages import ChatSettings, MessageContent
from app.conversation.context import ChatTooLong, Fit, fit, reserve
from app.conversation.reading import Reads
from app.conversation.source_prompt import NO_ROOM, NOT_FOUND, guarded
from app.conversation.sources import Consulted, Library, Room, consult, consult_again
from app.document_messages import Sources
from app.documents.search.follow_up import self_contained
from app.messages import Message, ModelChoice, Options

GUESSED_CONTEXT = 2048
GUESSED_CHARACTERS = 3
"""A token's characters, and a context, while no model is there to count for: both on the safe side."""

Overflow = Literal["ask", "oldest", "shorter"]
"""What to do where a chat does not fit any more: ask the person, leave out the oldest turns, reply shorter."""
Messages = tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class Asked:
    """With which model and options a reply is wanted, and what to do if the chat is too long."""

    model: ModelChoice
    options: Options
    overflow: Overflow = "ask"


@dataclass(frozen=True, slots=True)
class Plan:
    """What will be sent, once it is known that it fits; `answer` where the app itself knows what to say."""

    prompt: Messages
    asked: Asked
    left_out: int = 0
    sources: Sources | None = None
    documents: tuple[str, ...] = ()
    answer: MessageContent | None = None


class Planner:
    """Plans replies for the model that is loaded now and the documents that there are."""

    def __init__(self, reader: Callable[[], Reads], library: Library) -> None:
        self._reader = reader
        self._library = library

    def consult(self, manner: ChatSettings, before: Messages, question: str, options: Options) -> Consulted:
        """The question with what the chat's collections have about it. May wait a moment."""
        if not manner.collections:
            return Consulted(question)
        earlier = [message.content for message in before if message.role == "user"]
        searched = self_contained(question, earlier)
        head = guarded(with_system(manner, before))
        return consult(self._library, manner.collections, searched, question, head, self._room(options))

    def consult_again(self, sources: Sources | None, question: str) -> Consulted:
        """The question as it was put before. Raises DocumentNotFound when one of its sources has gone."""
        return consult_again(self._library, sources, question) if sources else Consulted(question)

    def prompt(self, manner: ChatSettings, before: Messages, consulted: Consulted) -> Messages:
        """All that the model reads before its reply."""
        messages = with_system(manner, (*before, consulted.message))
        return guarded(messages) if consulted.passages else messages

    def plan(
        self, manner: ChatSettings, before: Messages, consulted: Consulted, asked: Asked, begun: str = ""
    ) -> Plan:
        """What to send; `begun` are the words of a reply that is to go on. Raises ChatTooLong."""
        if consulted.is_in_vain and not begun:
            return Plan((), asked, sources=consulted.sources, answer=_in_vain(consulted))
        prompt = self.prompt(manner, before, consulted)
        continued = (*prompt, Message("assistant", begun)) if begun else prompt
        plan = self._fitting(continued, asked)
        return replace(plan, sources=consulted.sources, documents=consulted.texts)

    def fit(self, manner: ChatSettings, messages: Messages, options: Options) -> Fit | None:
        """How a prompt of these messages fits; None while no model is there to count for."""
        return self._fit(with_system(manner, messages), options)

    def _fit(self, prompt: Messages, options: Options) -> Fit | None:
        reader = self._reader()
        if not reader.context:
            return None
        return fit(prompt, reader.count, reader.context, reserve(options.max_new_tokens, reader.context))

    def _fitting(self, prompt: Messages, asked: Asked) -> Plan:
        found = self._fit(prompt, asked.options)
        if found is None or found.fits:
            return Plan(prompt, asked)
        if asked.overflow == "oldest" and found.fits_without_oldest:
            head = 1 if prompt[0].role == "system" else 0
            return Plan((*prompt[:head], *prompt[head + found.left_out :]), asked, found.left_out)
        if asked.overflow == "shorter" and found.can_be_shorter:
            shorter = replace(asked.options, max_new_tokens=min(found.room, asked.options.max_new_tokens))
            return Plan(prompt, replace(asked, options=shorter))
        raise ChatTooLong(found)

    def _room(self, options: Options) -> Room:
        reader = self._reader()
        context = reader.context or GUESSED_CONTEXT
        count = reader.count if reader.context else _guessed
        return Room(context, reserve(options.max_new_tokens, context), count)


def with_system(manner: ChatSettings, messages: Messages) -> Messages:
    """Messages with the chat's system prompt before them, if it has one."""
    system = manner.system.strip()
    return (Message("system", system), *messages) if system else messages


def _in_vain(consulted: Consulted) -> MessageContent:
    answer, note = NOT_FOUND, "Nothing in the chosen documents is near enough to this question"
    if consulted.sources and consulted.sources.left_out:
        answer, note = NO_ROOM, "Passages were found, and the model's context has no room for any of them"
    return MessageContent(answer, "done", f"{note}: the model was not asked.", sources=consulted.sources)


def _guessed(messages: Messages) -> int:
    return sum(len(message.content) for message in messages) // GUESSED_CHARACTERS
