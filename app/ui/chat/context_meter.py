"""How much of the model's context the chat takes: the line below the message box, the question that is asked if the
chat is too long, and the part of a long message that fits."""

import json
from time import monotonic

from app.conversation import ContextFit, Conversations
from app.errors import AppError
from app.ui.chat.state import ChatState
from app.ui.frame.gradio_internals import Press
from app.ui.frame.services import Services
from app.ui.frame.templates import render
from app.values.chat import ChatSettings, Thread
from app.values.messages import EngineStatus, Message, Options

COUNT_SECONDS = 0.4
"""Minimum seconds between two counts of the context."""
CHARACTERS_PER_TOKEN = 16
"""No text is assumed to have more characters per token than this on average."""
LEAST_SHARE = 0.8
"""A message that is cut to fit ends at its last space or line end, if that is beyond this share of what fits."""


class ContextMeter:
    """Counts the tokens of the chat and the typed text after each change, at most once every `seconds`."""

    def __init__(self, services: Services, seconds: float) -> None:
        self.fit: ContextFit | None = None
        self.first_read = 0
        """Id of the first message that the model reads if not all messages fit; 0 if all or none fit."""
        self._services = services
        self._seconds = seconds
        self._key: tuple[object, ...] = ()
        self._chat = 0
        self._due = 0.0

    def is_due(self, thread: Thread, state: ChatState, status: EngineStatus) -> bool:
        """Return whether the chat must be counted again now."""
        # A reply that is being written is counted at its end, unless its chat was opened meanwhile.
        is_growing = (
            self._services.conversations.is_writing(thread.version.chat) and thread.version.chat == self._chat
        )
        is_known = self._key == self._current_key(thread, state, status)
        return not is_known and not is_growing and monotonic() >= self._due

    def update(self, thread: Thread, state: ChatState, status: EngineStatus) -> bool:
        """Count the tokens if a count is due. Returns whether the result has changed."""
        if not self.is_due(thread, state, status):
            return False
        self._key, self._chat = self._current_key(thread, state, status), thread.version.chat
        self._due = monotonic() + self._seconds
        before = self.fit, self.first_read
        try:
            self.fit = self._count(thread, state.draft)
            self.first_read = self._first_read(thread, self.fit)
        except AppError:  # the chat is gone, or the template refuses it: sending a message shows why
            self.fit, self.first_read = None, 0
        return (self.fit, self.first_read) != before

    def _first_read(self, thread: Thread, fit: ContextFit | None) -> int:
        if fit is None or not fit.fits_without_oldest or not thread.messages:
            return 0
        store = self._services.conversations.stores.of(thread.version.chat)
        read = store.path_ids(thread.version.chat, thread.messages[-1].id)[fit.left_out :]
        return read[0] if read else 0  # none if only the text being typed fits

    def _current_key(self, thread: Thread, state: ChatState, status: EngineStatus) -> tuple[object, ...]:
        is_writing = self._services.conversations.is_writing(thread.version.chat)
        options, chats = self._services.settings.options, self._services.settings.chats
        counted = options.max_new_tokens, options.thinking
        return thread.version, state.draft, status.model, counted, thread.settings, is_writing, chats

    def _count(self, thread: Thread, draft: str) -> ContextFit | None:
        chat, conversations, settings = (
            thread.version.chat,
            self._services.conversations,
            self._services.settings,
        )
        store = conversations.stores.of(chat)
        if draft.strip():
            prompt = (*(store.texts_before(chat) if chat else ()), Message("user", draft))
        else:
            prompt = store.path_texts(chat) if chat else ()
        if not prompt:
            return None
        return conversations.fit(thread.settings, prompt, settings.options, settings.chats.keeps_thoughts)


def meter_html(fit: ContextFit | None, leaves_out: bool = False, documents: str = "") -> str:
    """Return the meter as HTML; "" if nothing was counted. With `leaves_out` the oldest messages of a chat that is
    too long are not sent. `documents` is a note on passages, such as "plus documents", or ""."""
    if fit is None:
        return ""
    is_cut = leaves_out and not fit.fits and fit.fits_without_oldest
    sent = fit.kept_tokens if is_cut else fit.tokens
    return render(
        "context_meter.html",
        is_full=not (fit.fits or is_cut),
        share=f"{min(1.0, sent / fit.context):.4f}",
        words=in_words(fit, leaves_out, documents),
    )


def in_words(fit: ContextFit, leaves_out: bool = False, documents: str = "") -> str:
    """Say how much of the context the chat takes, and what will happen if that is too much."""
    used = f"Chat length: {fit.counted} of {fit.context:,} tokens"
    if fit.fits:
        return f"{used}, {documents}" if documents else used
    if leaves_out and fit.fits_without_oldest:
        sent = f"Chat length: {fit.kept_tokens:,} of {fit.context:,} tokens"
        few = "oldest message is" if fit.left_out == 1 else f"{fit.left_out} oldest messages are"
        return f"{sent}: the {few} not sent."
    if fit.tokens > fit.context:
        problem = f"The chat has {fit.counted} tokens, and the model reads at most {fit.context:,}."
    else:
        problem = f"{used}: too long with {fit.reserve:,} reserved for the reply."
    oldest = "oldest message" if fit.left_out == 1 else f"{fit.left_out:,} oldest messages"
    choice = f"whether to leave out the {oldest}" if fit.fits_without_oldest else "what to leave out"
    return f"{problem} You will be asked {choice}."


def overflow_html(fit: ContextFit, pending: Press) -> str:
    """Return the question about what to leave out; its buttons continue the pending action."""
    return render(
        "overflow_question.html",
        tokens=fit.counted,
        reserve=f"{fit.reserve:,}",
        context=f"{fit.context:,}",
        left_out=fit.left_out if fit.fits_without_oldest else 0,
        summarised=fit.summarised,
        room=f"{fit.room:,}" if fit.can_be_shorter else "",
        is_message_too_long=pending.do == "ask" and not fit.fits_without_oldest,
        pending=json.dumps(pending),
    )


def beginning_that_fits(
    conversations: Conversations, settings: ChatSettings, text: str, options: Options
) -> str:
    """Return as much of the text's beginning as fits the context with room for a reply; "" if nothing fits.

    Returns the whole text if no model is loaded, because its tokens cannot be counted then."""
    whole = conversations.fit(settings, (Message("user", text[:1]),), options)
    if whole is None:
        return text

    def fits(length: int) -> bool:
        fit = conversations.fit(settings, (Message("user", text[:length]),), options)
        return fit is None or fit.fits

    low, high = 0, min(len(text), whole.context * CHARACTERS_PER_TOKEN) + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    blank = max(text.rfind(" ", 0, low), text.rfind("\n", 0, low))
    return text[: blank if low < len(text) and blank > low * LEAST_SHARE else low]
