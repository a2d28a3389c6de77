"""Titles that the model writes once a chat's first answer is complete and the model is idle.

The request continues the chat, so the chat's tokens are usually in the KV cache, and stay there for the next
question. An unusable title is dropped, and the chat keeps the title made from its question."""

import logging
import threading
from collections.abc import Callable
from dataclasses import replace
from time import monotonic, sleep

from app.chats.chats import ChatStores
from app.conversation.engine_protocol import ReplyEngine
from app.conversation.reply import Reply, ReplySoFar
from app.conversation.thought_parsing import split_thought, without_thoughts
from app.conversation.tool_use import with_rounds
from app.conversation.turn import ReplySettings
from app.errors import AppError
from app.values.chat_format import HERMES, Thinking
from app.values.display_text import title_of
from app.values.messages import Message, Request, Sampling

IDLE_SECONDS = 2.0
"""Seconds for which the model must have been idle."""
LOOK_SECONDS = 0.05
ASK = Message("user", "Write a title for this chat: at most five words, nothing else.")
MOST_TOKENS, MOST_WORDS = 24, 8
OF_REQUEST = ("title", "five words", "nothing else")
"""Words of replies in which a small model repeats the request, or announces a title without writing it."""
log = logging.getLogger(__name__)


class ChatTitles:
    """Has the model write titles of chats, with a separate thread for each title."""

    def __init__(
        self,
        engine: ReplyEngine,
        stores: ChatStores,
        is_busy: Callable[[], bool],
        seconds: float = IDLE_SECONDS,
    ) -> None:
        self._engine = engine
        self._stores = stores
        self._is_busy = is_busy
        self._seconds = seconds

    def begin(self, chat: int, settings: ReplySettings) -> None:
        """Start a thread that titles this chat if the model stays idle for IDLE_SECONDS."""
        threading.Thread(target=self._run, args=(chat, settings), name="title", daemon=True).start()

    def _run(self, chat: int, settings: ReplySettings) -> None:
        until = monotonic() + self._seconds
        while not self._is_busy() and monotonic() < until:
            sleep(LOOK_SECONDS)
        try:
            if not self._is_busy():
                self._title(chat, settings)
        except AppError as error:  # if the chat was deleted or the disk is full, the title stays
            log.info("chat %s was not titled: %s", chat, error)

    def _title(self, chat: int, settings: ReplySettings) -> None:
        store, reply = self._stores.of(chat), Reply()
        options = replace(settings.options, sampling=Sampling(), thinking=Thinking("off"))
        options = replace(options, max_new_tokens=MOST_TOKENS, stop=("\n\n",))
        texts = store.path_texts(chat)
        texts = texts if settings.keeps_thoughts else without_thoughts(texts)
        prompt = with_rounds((*texts, ASK), HERMES)
        self._engine.submit(Request(settings.model, prompt, options), reply)
        while not reply.is_done:
            if self._is_busy():
                reply.stop()
                return
            sleep(LOOK_SECONDS)
        written = ReplySoFar()
        written.take(reply.wait(0, timeout=0))
        if title := clean_title(written.text):
            store.suggest_title(chat, title)


def clean_title(text: str) -> str:
    """Return the title that a model wrote, as one line without quotes around it; "" if it is not usable.

    A long title is shortened to the part before its colon: "The lake: all that there is to see in summer"."""
    answer = split_thought(text).answer
    if "```" in answer:  # the model continued the code of the chat instead
        return ""
    line = title_of(answer).strip("\"'“”«»* ").removeprefix("Title:").strip().rstrip(".")
    return next(filter(_is_title, (line, line.partition(": ")[0])), "")


def _is_title(words: str) -> bool:
    """Return whether these words can be a title: few, not cut off, and not a sentence about the title."""
    is_about_it = words.endswith(":") or any(part in words.lower() for part in OF_REQUEST)
    return 1 <= len(words.split()) <= MOST_WORDS and "…" not in words and not is_about_it
