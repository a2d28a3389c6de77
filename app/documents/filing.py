"""A file's text on its way into the database: read, cleaned and stored a few parts at a time."""

import hashlib
from time import monotonic

from app.documents import intake, records, texts
from app.documents.cleaning import Cleaner
from app.documents.inbox import LARGEST, Inbox
from app.documents.reading import Moved, Reading, Told, Words, open_file
from app.documents.tasks import Task
from app.errors import DocumentUnreadable

PARTS_AT_ONCE = 16
SECONDS_BETWEEN = 0.5


class Filing:
    """The text of one file, as far as it has come."""

    def __init__(self, task: Task, name: str, most: int) -> None:
        """`name`: what the person calls the file; `most`: characters of text that are taken."""
        self._task = task
        self._name = name
        self._most = most
        self._cleaner = Cleaner()
        self._digest = hashlib.sha256()
        self._rest: list[str] = []
        self._length = 0
        self._stored = 0
        self._has_words = False
        self._notes: list[str] = []
        self._told = monotonic()

    @property
    def characters(self) -> int:
        """How long the text is so far."""
        return self._stored * texts.PART + self._length

    def read(self, reading: Reading) -> None:
        """Take everything a file says. Raises DocumentUnreadable when that is nothing to be read, or too much."""
        with self._task.beginning("reading") as connection:
            texts.clear(connection, self._task.document)
        with self._task.stopped_by(reading.kill):
            for message in reading.messages():
                match message:
                    case Words(text):
                        self._take(self._cleaner.clean(text))
                    case Moved(done, total):
                        self._move(done, total)
                    case Told(note):
                        self._notes.append(note)
        self._task.require_wanted()  # a reading that was killed ends like one that has said everything

    def settle(self) -> int:
        """Store the rest; the document that has the text now. Raises DocumentUnreadable when there is none."""
        self._take(self._cleaner.rest())
        if not self._has_words:
            raise DocumentUnreadable(f"There is no text in {self._name}: nothing could be read from it.")
        self._notes += self._cleaner.notes()
        self._store(is_last=True)
        with self._task.writing() as connection:
            return intake.settle(
                connection, self._task.document, self._digest.digest(), self.characters, " ".join(self._notes)
            )

    def drop(self) -> None:
        """Delete what was stored of a text that is not to be had whole."""
        cleared = PARTS_AT_ONCE
        while cleared == PARTS_AT_ONCE:
            with self._task.database.writing() as connection:
                cleared = texts.clear(connection, self._task.document, PARTS_AT_ONCE)

    def _take(self, text: str) -> None:
        self._digest.update(text.encode())
        self._rest.append(text)
        self._length += len(text)
        self._has_words = self._has_words or bool(text.strip())
        if self.characters > self._most:
            raise DocumentUnreadable(
                f"{self._name} has more than {self._most:,} characters in it: split it, and add the parts."
            )
        if self._length >= PARTS_AT_ONCE * texts.PART:
            self._store(is_last=False)

    def _store(self, is_last: bool) -> None:
        text = "".join(self._rest)
        end = len(text) if is_last else len(text) - len(text) % texts.PART
        parts = list(texts.parts_of(text[:end]))
        with self._task.writing() as connection:
            texts.append(connection, self._task.document, self._stored, parts)
        self._stored += end // texts.PART
        self._rest, self._length = [text[end:]], len(text) - end
        if is_last:
            self._length = end % texts.PART

    def _move(self, done: int, total: int) -> None:
        if monotonic() - self._told < SECONDS_BETWEEN:
            return
        self._told = monotonic()
        with self._task.writing() as connection:
            records.set_progress(connection, self._task.document, done, total)


def file(task: Task, inbox: Inbox, most: int = LARGEST) -> int:
    """Read the file of a document, unless its text is here; the document that has the text now."""
    with task.database.reading() as connection:
        if records.has_text(connection, task.document):
            return task.document
        about = records.document(connection, task.document)
    reading = open_file(inbox.path(task.document, about.source), about.source)
    filing = Filing(task, about.source, most)
    try:
        filing.read(reading)
        settled = filing.settle()
    except DocumentUnreadable:
        reading.kill()  # it may have more to say
        filing.drop()
        raise
    inbox.drop(task.document)
    return settled
