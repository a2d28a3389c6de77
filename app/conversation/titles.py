"""Titles written by the model: once a chat's first answer is there, and as long as nothing else is asked of it.

The request goes on where the chat ends: the model reads little anew, now and at the next question. A reply that is
asked for meanwhile ends it. A title that is none (empty, a whole sentence) is not taken: then the chat keeps
the one that its question gave it.
"""

import logging
import threading
from collections.abc import Callable
from dataclasses import replace
from time import monotonic, sleep

from app.chats import ChatStores
from app.conversation.engine_protocol import ReplyEngine
from app.conversation.reply import Reply, ReplySoFar
from app.conversation.thinking import split_thought
from app.conversation.turn import ReplySettings
from app.errors import AppError
from app.values.display_text import title_of
from app.values.messages import Message, Request, Sampling

IDLE_SECONDS = 2.0
"""How long nothing must have been asked of the model."""
LOOK_SECONDS = 0.05
ASK = Message("user", "Write a title for this chat: at most five words, nothing else.")
MOST_TOKENS, MOST_WORDS = 24, 8
OF_REQUEST = ("title", "five words", "nothing else")
"""What small models repeat of the request, or say about what they are about to write."""
log = logging.getLogger(__name__)


class ChatTitles:
    """Has chats titled, one thread for each."""

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
        """Have this chat titled when the model is idle."""
        threading.Thread(target=self._run, args=(chat, settings), name="title", daemon=True).start()

    def _run(self, chat: int, settings: ReplySettings) -> None:
        until = monotonic() + self._seconds
        while not self._is_busy() and monotonic() < until:
            sleep(LOOK_SECONDS)
        try:
            if not self._is_busy():
                self._title(chat, settings)
        except AppError as error:  # deleted meanwhile, or the disk is full: it keeps its title
            log.info("chat %s was not titled: %s", chat, error)

    def _title(self, chat: int, settings: ReplySettings) -> None:
        store, reply = self._stores.of(chat), Reply()
        options = replace(settings.options, sampling=Sampling(), max_new_tokens=MOST_TOKENS, stop=("\n\n",))
        self._engine.submit(Request(settings.model, (*store.path_texts(chat), ASK), options), reply)
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
    """What a model wrote as a title: one line without quotes and marks; "" if that is none.

    Of a long one with a colon the part before it is taken: "The lake: all that there is to see in summer"."""
    answer = split_thought(text).answer
    if "```" in answer:  # it went on with the code of the chat
        return ""
    line = title_of(answer).strip("\"'“”«»* ").removeprefix("Title:").strip().rstrip(".")
    return next(filter(_is_title, (line, line.partition(": ")[0])), "")


def _is_title(words: str) -> bool:
    """Not a sentence about the title, nor one that was cut."""
    is_about_it = words.endswith(":") or any(part in words.lower() for part in OF_REQUEST)
    return 1 <= len(words.split()) <= MOST_WORDS and "…" not in words and not is_about_it
