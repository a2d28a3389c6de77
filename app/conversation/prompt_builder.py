"""Builds the prompt of a reply (system prompt, history, passages, question) and checks that it fits."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from app.conversation.context_window import ChatTooLong, ContextFit, fit_context, reply_reserve
from app.conversation.engine_protocol import TokenReader
from app.conversation.retrieval import DocumentSearch, PromptRoom, RetrievedContext, reload, retrieve
from app.conversation.source_prompt import NO_ROOM, NOT_FOUND, guarded
from app.conversation.turn import Messages, ReplySettings, TurnContext
from app.documents.search.questions import is_conversational, self_contained
from app.values.chat import ChatSettings, MessageContent
from app.values.document import Sources
from app.values.logits import Grammar
from app.values.messages import Message, Options

DEFAULT_CONTEXT = 2048
CHARACTERS_PER_TOKEN = 3
"""Used while no model is loaded that could count. Both are cautious."""


@dataclass(frozen=True, slots=True)
class PreparedReply:
    """What is sent to the engine, known to fit. With an `answer` the app answers by itself and sends nothing.

    `left_out` oldest messages are not in the prompt; `documents` are passages for the n-gram pool; the reply has to
    match the `grammar`."""

    prompt: Messages
    settings: ReplySettings
    left_out: int = 0
    sources: Sources | None = None
    documents: tuple[str, ...] = ()
    answer: MessageContent | None = None
    grammar: Grammar | None = None


class PromptBuilder:
    """Builds prompts for the model that is loaded now."""

    def __init__(self, reader: Callable[[], TokenReader], documents: DocumentSearch) -> None:
        self._reader = reader
        self._documents = documents

    def retrieve(self, context: TurnContext, options: Options) -> RetrievedContext:
        """The question with passages of the chat's collections. May wait a moment for an embedding.

        A continuation gets its earlier passages again. Raises DocumentNotFound when one of them is gone."""
        if context.written:
            sources = context.written.sources
            return (
                reload(self._documents, sources, context.question)
                if sources
                else RetrievedContext(context.question)
            )
        room = self._room(options)
        if room.has_none_for(context.question) or not (collections := self._searched(context)):
            return RetrievedContext(context.question)
        earlier = [message.content for message in context.history if message.role == "user"]
        query = self_contained(context.question, earlier)
        before = guarded(with_system(context.chat_settings, context.history))
        return retrieve(self._documents, collections, query, context.question, before, room)

    def _searched(self, context: TurnContext) -> list[int]:
        """The chat's collections that have documents; none where the question asks nothing of them."""
        chosen = context.chat_settings.collections
        has_answer = any(message.role == "assistant" for message in context.history)
        if context.is_search_skipped or not chosen or is_conversational(context.question, has_answer):
            return []
        return [one.id for one in self._documents.collections() if one.id in chosen and one.documents]

    def messages(self, context: TurnContext, retrieved: RetrievedContext) -> Messages:
        """All messages that the model reads before its reply."""
        messages = with_system(context.chat_settings, (*context.history, retrieved.message))
        return guarded(messages) if retrieved.passages else messages

    def prepare(
        self, context: TurnContext, retrieved: RetrievedContext, settings: ReplySettings
    ) -> PreparedReply:
        """What to send. Raises ChatTooLong, and BadOption for a JSON Schema that is none."""
        grammar = context.chat_settings.json_answers.grammar
        begun = context.written.text if context.written else ""
        if retrieved.is_empty and not begun:
            return PreparedReply((), settings, sources=retrieved.sources, answer=_app_answer(retrieved))
        prompt = self.messages(context, retrieved)
        if begun:
            prompt = (*prompt, Message("assistant", begun))
        prepared = self._fitted(prompt, settings)
        return replace(prepared, sources=retrieved.sources, documents=retrieved.texts, grammar=grammar)

    def fit(self, chat_settings: ChatSettings, messages: Messages, options: Options) -> ContextFit | None:
        """How a prompt of these messages fits; None without a model."""
        return self._fit(with_system(chat_settings, messages), options)

    def _fit(self, prompt: Messages, options: Options) -> ContextFit | None:
        reader = self._reader()
        if not reader.context:
            return None
        reserve = reply_reserve(options.max_new_tokens, reader.context)
        return fit_context(prompt, reader.count, reader.context, reserve)

    def _fitted(self, prompt: Messages, settings: ReplySettings) -> PreparedReply:
        fit = self._fit(prompt, settings.options)
        if fit is None or fit.fits:
            return PreparedReply(prompt, settings)
        if settings.overflow == "oldest" and fit.fits_without_oldest:
            head = 1 if prompt[0].role == "system" else 0
            kept = (*prompt[:head], *prompt[head + fit.left_out :])
            return PreparedReply(kept, settings, fit.left_out)
        if settings.overflow == "shorter" and fit.can_be_shorter:
            tokens = min(fit.room, settings.options.max_new_tokens)
            options = replace(settings.options, max_new_tokens=tokens)
            return PreparedReply(prompt, replace(settings, options=options))
        raise ChatTooLong(fit)

    def _room(self, options: Options) -> PromptRoom:
        reader = self._reader()
        context = reader.context or DEFAULT_CONTEXT
        reserve = reply_reserve(options.max_new_tokens, context)
        if not reader.context:
            return PromptRoom(context, reserve, _estimated_tokens, is_estimated=True)
        return PromptRoom(context, reserve, reader.count)


def with_system(chat_settings: ChatSettings, messages: Messages) -> Messages:
    """The messages with the chat's system prompt before them, if it has one."""
    system = chat_settings.system.strip()
    return (Message("system", system), *messages) if system else messages


def _app_answer(retrieved: RetrievedContext) -> MessageContent:
    answer, note = NOT_FOUND, "No passage of the chosen documents is close enough to this question"
    if retrieved.sources and retrieved.sources.left_out:
        answer, note = NO_ROOM, "Passages were found, but none of them fits into the model's context"
    return MessageContent(answer, "done", f"{note}. The model was not asked.", sources=retrieved.sources)


def _estimated_tokens(messages: Messages) -> int:
    return sum(len(message.content) for message in messages) // CHARACTERS_PER_TOKEN
