"""Builds the prompt of a reply (system prompt, history, passages, question) and checks, before anything is sent,
that it fits into the model's context. Messages are left out only if the user agrees, and in whole turns, so that
the model never reads an answer without its question."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from app.conversation.prompt_sources import (
    NO_ROOM,
    NOT_FOUND,
    NOT_READ,
    PromptRoom,
    RetrievedContext,
    guarded,
    reload,
    retrieve,
)
from app.conversation.tool_use import NO_TOOLS, ToolUse, with_rounds
from app.conversation.turn import Messages, ReplySettings, TurnContext
from app.documents.documents import Documents
from app.documents.search.questions import is_conversational, self_contained
from app.engine.text.token_counter import FAR, CachedTokenReader
from app.errors import AppError
from app.values.chat import SUMMARY_REQUEST, ChatSettings, MessageContent
from app.values.document import UNFINISHED, Sources
from app.values.logits import Grammar
from app.values.messages import Message, Options

Count = Callable[[tuple[Message, ...]], int]
"""Counts the tokens of these messages as the model would read them, the chat template included."""
LEAST_REPLY = 16
"""Minimum number of tokens that must be left if the user accepts a shorter reply."""
USUAL_REPLY = 4096
"""Tokens kept for a reply without a limit. Nearly all replies are shorter."""
DEFAULT_CONTEXT = 2048
"""Tokens that a context is assumed to have if no model is loaded on this machine."""
MOST_SUMMARY = 512
"""Maximum number of tokens of a summary of the oldest messages."""
CHARACTERS_PER_TOKEN = 3
"""A low estimate, with which tokens are counted if no model is loaded on this machine."""


@dataclass(frozen=True, slots=True)
class ContextFit:
    """How a prompt fits into a `context` of which `reserve` tokens are kept for the reply.

    The whole prompt has `tokens` tokens; without the `left_out` oldest messages it has `kept_tokens`. If
    `summarised` is not 0, the prompt fits with a summary in place of that many oldest messages."""

    tokens: int
    context: int
    reserve: int
    left_out: int = 0
    kept_tokens: int = 0
    summarised: int = 0

    @property
    def counted(self) -> str:
        """The number of the prompt's tokens as text; "at least …" if it is above FAR times the context."""
        return f"at least {self.tokens:,}" if self.tokens > FAR * self.context else f"{self.tokens:,}"

    @property
    def fits(self) -> bool:
        """Whether the whole prompt and the reserve for the reply fit into the context."""
        return self.tokens + self.reserve <= self.context

    @property
    def fits_without_oldest(self) -> bool:
        return self.left_out > 0 and self.kept_tokens + self.reserve <= self.context

    @property
    def room(self) -> int:
        return max(0, self.context - self.tokens)

    @property
    def can_be_shorter(self) -> bool:
        return self.room >= LEAST_REPLY


class ChatTooLong(AppError):
    """The chat does not fit into the context, and the user has chosen nothing that makes it fit."""

    def __init__(self, fit: ContextFit) -> None:
        super().__init__(
            f"This chat has {fit.counted} tokens and the model's context holds {fit.context:,}. Leave out or "
            "summarise the oldest messages, ask for a shorter reply, or start a new chat."
        )
        self.fit = fit


@dataclass(frozen=True, slots=True)
class PreparedReply:
    """A reply's prompt and settings. If there is an `answer`, the app itself has written it, and the engine gets no
    prompt.

    The `left_out` oldest messages are not in the prompt. If `summarised` is not 0, that many oldest messages must
    be summarised, and the prompt prepared again. `documents` are passages for the n-gram pool; the reply has to
    match the `grammar`."""

    prompt: Messages
    settings: ReplySettings
    left_out: int = 0
    summarised: int = 0
    sources: Sources | None = None
    documents: tuple[str, ...] = ()
    answer: MessageContent | None = None
    grammar: Grammar | None = None


class PromptBuilder:
    def __init__(self, reader: Callable[[], CachedTokenReader], documents: Documents) -> None:
        self._reader = reader
        self._documents = documents

    def retrieve(self, context: TurnContext, options: Options) -> RetrievedContext:
        """Searches the chat's collections and returns the question with the passages found. May wait for the
        question's embedding.

        A continuation and a comparison get the earlier passages again. Raises DocumentNotFound, BadOption."""
        alone = RetrievedContext(context.question)
        if earlier_reply := context.written or context.compared:
            sources = earlier_reply.sources
            return reload(self._documents, sources, context.question) if sources else alone
        room = self._room(options, context.tools)
        if room.has_none_for(context.question) or not (collections := self._searched(context)):
            return alone
        earlier = [message.content for message in context.history if message.role == "user"]
        query = self_contained(context.question, earlier)
        before = guarded(with_system(context.chat_settings, context.history))
        found = retrieve(self._documents, collections, query, context.question, before, room)
        is_unknown = found.sources and found.sources.is_empty and not found.sources.left_out
        # A tool may know what the documents do not.
        return alone if is_unknown and context.chat_settings.tools else found

    def _searched(self, context: TurnContext) -> list[int]:
        """Returns the chat's collections that have documents.

        Returns none if the user skips the search, or if the message asks nothing of the documents."""
        chosen = context.chat_settings.collections
        has_answer = any(message.role == "assistant" for message in context.history)
        if context.is_search_skipped or not chosen or is_conversational(context.question, has_answer):
            return []
        return [one.id for one in self._documents.collections() if one.id in chosen and one.documents]

    def _own_answer(self, context: TurnContext, retrieved: RetrievedContext) -> MessageContent:
        """Returns the app's own answer if no passage can be put before the question."""
        answer, note = NOT_FOUND, "No passage of the chosen documents is close enough to this question"
        collections = context.chat_settings.collections
        documents = (one for collection in collections for one in self._documents.documents(collection))
        if retrieved.sources and retrieved.sources.left_out:
            answer, note = NO_ROOM, "Passages were found, but none of them fits into the model's context"
        elif unread := next((one for one in documents if one.state in UNFINISHED), None):
            answer, note = NOT_READ, f"{unread.title} is not read yet. Ask again once it is"
        return MessageContent(answer, "done", f"{note}. The model was not asked.", sources=retrieved.sources)

    def messages(self, context: TurnContext, retrieved: RetrievedContext) -> Messages:
        question = (*context.history, retrieved.message)
        messages = with_system(context.chat_settings, question, context.tools.prompt)
        return guarded(messages) if retrieved.passages else messages

    def prepare(
        self, context: TurnContext, retrieved: RetrievedContext, settings: ReplySettings
    ) -> PreparedReply:
        """Prepares a reply. Raises ChatTooLong, and BadOption if the schema or a message is refused."""
        grammar = context.chat_settings.json_answers.grammar
        written = context.written or MessageContent()
        begun = written.text
        if written.provenance:  # a continued reply keeps its level of thinking
            thinking = written.provenance.options.thinking
            settings = replace(settings, options=replace(settings.options, thinking=thinking))
        if retrieved.is_empty and not begun:
            return PreparedReply(
                (), settings, sources=retrieved.sources, answer=self._own_answer(context, retrieved)
            )
        prompt = self.messages(context, retrieved)
        if begun:
            prompt = (*prompt, Message("assistant", begun, called=written.calls))
        prepared = self._fitted(prompt, settings, context.tools)
        return replace(prepared, sources=retrieved.sources, documents=retrieved.texts, grammar=grammar)

    def fit(
        self, chat_settings: ChatSettings, messages: Messages, options: Options, tools: ToolUse = NO_TOOLS
    ) -> ContextFit | None:
        """Returns how a prompt of these messages fits into the context; None if no model is loaded on this
        machine. Raises BadOption if the model's template refuses the messages."""
        return self._fit(with_system(chat_settings, messages, tools.prompt), options, tools)

    def _fit(self, prompt: Messages, options: Options, tools: ToolUse) -> ContextFit | None:
        reader = self._reader()
        if not reader.context:
            return None
        reserve = reply_reserve(options.max_new_tokens, reader.context)
        return fit_context(prompt, _counter(reader, options, tools), reader.context, reserve)

    def _fitted(self, prompt: Messages, settings: ReplySettings, tools: ToolUse) -> PreparedReply:
        fit = self._fit(prompt, settings.options, tools)
        if fit is None or fit.fits:
            return PreparedReply(prompt, settings)
        if settings.overflow == "oldest" and fit.fits_without_oldest:
            head = 1 if prompt[0].role == "system" else 0
            kept = (*prompt[:head], *prompt[head + fit.left_out :])
            return PreparedReply(kept, settings, fit.left_out)
        if settings.overflow == "shorter" and fit.can_be_shorter:
            return PreparedReply(prompt, settings)
        fit = self._with_summarised(fit, prompt, settings.options, tools)
        if settings.overflow == "summarise" and fit.summarised:
            return PreparedReply(prompt, settings, summarised=fit.summarised)
        raise ChatTooLong(fit)

    def _with_summarised(
        self, fit: ContextFit, prompt: Messages, options: Options, tools: ToolUse
    ) -> ContextFit:
        """Returns the fit with `summarised`, the number of oldest messages whose summary leaves enough room."""
        room = summary_tokens(fit.context) + self._reader().count((Message("user", SUMMARY_REQUEST),))
        count = _counter(self._reader(), options, tools)
        shorter = fit_context(prompt, count, fit.context, fit.reserve + room)
        return replace(fit, summarised=shorter.left_out if shorter.fits_without_oldest else 0)

    def _room(self, options: Options, tools: ToolUse) -> PromptRoom:
        reader = self._reader()
        context = reader.context or DEFAULT_CONTEXT
        reserve = reply_reserve(options.max_new_tokens, context)
        if not reader.context:
            return PromptRoom(context, reserve, _estimated_tokens, is_estimated=True)
        return PromptRoom(context, reserve, _counter(reader, options, tools))


def _counter(reader: CachedTokenReader, options: Options, tools: ToolUse) -> Count:
    return lambda messages: reader.count(with_rounds(messages, tools.calls), options.thinking, tools.native)


def with_system(chat_settings: ChatSettings, messages: Messages, more: str = "") -> Messages:
    """Puts the system prompt before the messages: the chat's own, then `more`. Adds none if both are empty."""
    system = "\n\n".join(filter(None, (chat_settings.system.strip(), more)))
    return (Message("system", system), *messages) if system else messages


def _estimated_tokens(messages: Messages) -> int:
    return sum(len(message.content) for message in messages) // CHARACTERS_PER_TOKEN


def reply_reserve(max_new_tokens: int, context: int) -> int:
    """Returns the tokens that are kept for the reply: its limit, but at most a quarter of the context.

    USUAL_REPLY tokens are kept for a reply without a limit, which may still fill the context."""
    return min(max_new_tokens or USUAL_REPLY, context // 4)


def summary_tokens(context: int) -> int:
    return min(MOST_SUMMARY, context // 8)


def fit_context(messages: Sequence[Message], count: Count, context: int, reply: int) -> ContextFit:
    """Returns how these messages fit with `reply` tokens after them. A system prompt, if any, must come first."""
    head = 1 if messages and messages[0].role == "system" else 0
    tokens = count(tuple(messages))
    if tokens + reply <= context:
        return ContextFit(tokens, context, reply, 0, tokens)
    starts = [index for index in range(head + 1, len(messages)) if messages[index].role == "user"]

    def kept_from(start: int) -> int:
        return count((*messages[:head], *messages[start:]))

    start = _first_kept(starts, lambda start: kept_from(start) + reply <= context)
    if start is None:
        start = starts[-1] if starts else head
    return ContextFit(tokens, context, reply, start - head, kept_from(start))


def _first_kept(starts: Sequence[int], fits: Callable[[int], bool]) -> int | None:
    """Returns the earliest of `starts` from which all messages fit; None if not even the last turn fits.

    The newest 1, 2, 4, 8, … turns are tried until they are too many. Then a binary search between the last two
    numbers follows. In this way few prompts are counted."""
    turns = 1
    while turns <= len(starts) and fits(starts[-turns]):
        turns *= 2
    low, high = turns // 2, min(turns, len(starts) + 1)  # `low` turns fit, `high` turns do not
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(starts[-middle]) else (low, middle)
    return starts[-low] if low else None
