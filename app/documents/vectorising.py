"""The thread that has passages embedded. A row of a vector that is not there is work, so a kill loses nothing.

The engine takes a small batch whenever it writes no reply; documents can be searched by their words meanwhile. When
another model is chosen, the vectors of the one before go first.
"""

import logging
import threading
from concurrent.futures import Future
from concurrent.futures import TimeoutError as StillWaiting

import numpy as np

from app.database import Database
from app.document_messages import Passage
from app.documents import passage_rows
from app.documents.embedding import Embeds, Vectors
from app.documents.search import vectors
from app.errors import AppError

BATCH = 32
"""Passages of a batch: what a quit may lose."""
FORGOTTEN = 2_000
"""Old vectors that are deleted at once."""
LOOK_AGAIN = 30.0
"""Seconds until the next look for a model that was not there, or failed."""
GLANCE = 0.5
"""Seconds between looks at whether the app ends."""

NOTHING: Vectors = np.zeros((0, 0), np.float32)

log = logging.getLogger(__name__)


def embedded_text(passage: Passage) -> str:
    """What of a passage is embedded: where it stands tells what it is about."""
    return "\n".join(filter(None, (passage.title, passage.heading, passage.text)))


class Vectoriser:
    """Gives each passage a vector of the model that there is."""

    def __init__(self, database: Database, embedder: Embeds) -> None:
        self._database = database
        self._embedder = embedder
        self._changed = threading.Condition()
        self._is_awake = True
        self._is_idle = False
        self._is_closing = False
        self._thread = threading.Thread(target=self._run, name="vectors", daemon=True)

    def start(self) -> None:
        """Take up what an earlier run left."""
        self._thread.start()

    def wake(self) -> None:
        """There are new passages."""
        with self._changed:
            self._is_awake, self._is_idle = True, False
            self._changed.notify_all()

    def wait(self) -> None:
        """Return once every passage has its vector, or there is no model that could make them."""
        self.wake()
        with self._changed:
            while not (self._is_idle or self._is_closing):
                self._changed.wait(GLANCE)

    def close(self) -> None:
        """Leave off, and end the thread."""
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()
        self._thread.join()

    def _run(self) -> None:
        while not self._is_closing:
            with self._changed:
                self._is_awake = False
            try:
                self._embed_all(self._embedder.model)
            except AppError as error:  # documents are found by their words meanwhile
                log.warning("passages were not embedded: %s", error)
            self._sleep()

    def _sleep(self) -> None:
        with self._changed:
            self._is_idle = not self._is_awake
            self._changed.notify_all()
            if not (self._is_awake or self._is_closing):
                self._changed.wait(LOOK_AGAIN)

    def _embed_all(self, model: str) -> None:
        if not model:
            return
        self._forget_others(model)
        newest = 0
        while (batch := self._batch(newest)) and not self._is_closing and self._embedder.model == model:
            answer = self._embedder.embed([embedded_text(one) for one in batch])
            made = self._result(answer)
            if not made.size:  # the app is closing, or the model's folder has vanished
                return
            with self._database.writing() as connection:
                vectors.put(connection, model, [one.id for one in batch], made)
            newest = batch[-1].id

    def _batch(self, after: int) -> tuple[Passage, ...]:
        with self._database.reading() as connection:
            return passage_rows.passages_of(connection, vectors.without(connection, after, BATCH))

    def _forget_others(self, model: str) -> None:
        gone = FORGOTTEN
        while gone == FORGOTTEN and not self._is_closing:
            with self._database.writing() as connection:
                gone = vectors.forget_others(connection, model, FORGOTTEN)

    def _result(self, answer: Future[Vectors]) -> Vectors:
        """What the future brings; nothing when the app ends before."""
        while not self._is_closing:
            try:
                return answer.result(GLANCE)
            except StillWaiting:
                continue
        answer.cancel()
        return NOTHING
