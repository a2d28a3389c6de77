"""Imports files: copies of them wait in a folder until their texts are read, cleaned and stored in parts."""

import errno
import hashlib
import re
import shutil
from contextlib import suppress
from dataclasses import replace
from io import IncrementalNewlineDecoder
from pathlib import Path, PurePath
from time import monotonic, time
from uuid import uuid4

from app.documents import document_table, duplicates, text_table
from app.documents.duplicates import COMPARED
from app.documents.indexing import Task
from app.documents.reading.formats import FileReader, open_reader
from app.documents.reading.process import ReadNote, ReadProgress, ReadTitle, TextPiece
from app.errors import DocumentUnreadable, StoreFull, StoreNotUsable
from app.system.files import make_folder, sync_file, sync_folder
from app.values.display_text import title_of
from app.values.text_normalisation import shown_name, storable

PENDING_FOLDER = "documents-inbox"
MAX_BYTES = 300 * 2**20
"""Maximum bytes of a file, and maximum characters of its text."""
MAX_SUFFIX = 16
"""Maximum number of characters of a file's suffix that are kept."""
HEADED = frozenset(
    (".md", ".markdown", ".docx", ".docm", ".odt", ".fodt", ".pptx", ".ppsx", ".pptm", ".html", ".htm", ".xhtml",
     ".eml")
)  # fmt: skip
"""Suffixes of files whose first heading can be their title."""
HEADING = re.compile(r"^# +(?:Slide \d+: )?(.+)$", re.MULTILINE)
HEADING_AMONG = 500
"""Number of characters at the beginning of a text that are searched for a heading."""
MAX_TITLE = 150
NO_TITLE = re.compile(
    r"\W*|\((?:anonymous|unspecified)\)|untitled.*|unbenannt.*|sans titre.*|无标题.*|無題.*"
    r"|microsoft (?:word|powerpoint|excel)\b.*|title|\d+"
    r"|(?:word |powerpoint )?(?:document|dokument|presentation|präsentation|présentation|book|slide) ?\d*"
    r"|(?:[a-z]:|/|\\\\|file:|https?:).*|.*\.(?:docx?|xlsx?|pptx?|pdf|indd|qxd|tex|dvi|e?ps|rtf|od[tps]|txt|html?|md|tmp)",
    re.IGNORECASE,
)
"""Titles that say nothing about a text, such as names of programs, paths, file names and numbers."""
DRAFT = re.compile(r"draft-[0-9a-f]{32}")
ABANDONED = 24 * 3600.0
"""Seconds after which a draft counts as abandoned and is deleted."""
PARTS_AT_ONCE = 16
SECONDS_BETWEEN = 0.5


class PendingFiles:
    """A folder with the files of documents that are not imported yet, named by the documents' ids."""

    def __init__(self, data_dir: Path) -> None:
        self._folder = data_dir / PENDING_FOLDER

    def lock_file(self) -> Path:
        """Returns the path of the file that a process locks while it works on documents. Makes the folder.

        Raises StoreNotUsable."""
        self._make_folder()
        return self._folder / "lock"

    def path(self, document: int, source: str) -> Path:
        """Returns the path of a document's file, with the suffix by which a library may recognise the format."""
        return self._folder / f"{document}{Path(source).suffix.lower()[:MAX_SUFFIX]}"

    def copy(self, file: Path) -> Path:
        """Copies a file into this folder as a draft, for `keep`.

        Raises DocumentUnreadable, StoreFull, StoreNotUsable."""
        self._make_folder()
        draft = self._folder / f"draft-{uuid4().hex}"
        try:
            shutil.copyfile(file, draft)
            sync_file(draft)
        except OSError as error:
            with suppress(OSError):  # if nothing can be written, there may be nothing to remove
                draft.unlink(missing_ok=True)
            if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                raise StoreFull(
                    f"{self._folder} has no room for {shown_name(file.name)}: free some space."
                ) from error
            if error.filename == str(draft):
                raise self.not_usable(error) from error
            raise DocumentUnreadable(f"{shown_name(str(file))} cannot be read ({error.strerror}).") from error
        return draft

    def keep(self, draft: Path, document: int, source: str) -> None:
        """Renames a draft to the file of a document, and syncs the folder to the disk. Raises StoreNotUsable."""
        try:
            draft.replace(self.path(document, source))
            sync_folder(self._folder)
        except OSError as error:
            raise self.not_usable(error) from error

    def drop(self, document: int) -> None:
        for path in self._files():
            if _document_of(path) == document:
                path.unlink(missing_ok=True)

    def keep_only(self, wanted: set[int], last: int) -> None:
        """Deletes abandoned drafts, and the files of documents up to the id `last` that are not `wanted`."""
        for path in self._files():
            if _document_of(path) <= last and _document_of(path) not in wanted:
                path.unlink(missing_ok=True)
        for draft in self._folder.glob("draft-*"):
            if DRAFT.fullmatch(draft.name) and time() - draft.stat().st_mtime > ABANDONED:
                draft.unlink(missing_ok=True)

    def _files(self) -> list[Path]:
        return (
            [path for path in self._folder.iterdir() if _document_of(path)] if self._folder.is_dir() else []
        )

    def not_usable(self, error: OSError) -> StoreNotUsable:
        return StoreNotUsable(
            f"The folder {self._folder} cannot be used ({error.strerror}): give this user write "
            "access to it, or choose another data folder with --data-dir."
        )

    def _make_folder(self) -> None:
        try:
            make_folder(self._folder)
        except OSError as error:
            raise self.not_usable(error) from error


def _document_of(path: Path) -> int:
    number = path.name.partition(".")[0]
    return int(number) if number.isdecimal() else 0


def require_file(path: Path) -> None:
    """Raises DocumentUnreadable for a path that is not a file, or a file that is too large."""
    shown = shown_name(str(path))
    try:
        if not path.exists():
            raise DocumentUnreadable(f"There is no file {shown}: check its name.")
        if not path.is_file():
            raise DocumentUnreadable(f"{shown} is not a file: choose files, not folders.")
        size = path.stat().st_size
    except OSError as error:
        raise DocumentUnreadable(f"{shown} cannot be read ({error.strerror}).") from error
    if size > MAX_BYTES:
        raise DocumentUnreadable(
            f"{shown_name(path.name)} has {size / 2**20:,.0f} MB, and files up to {MAX_BYTES / 2**20:,.0f} MB "
            "can be read: split it, or paste the part that matters."
        )


class FileImport:
    """The import of one document's file: reads, cleans and stores its text."""

    def __init__(self, task: Task, name: str, max_characters: int) -> None:
        """Prepares an import. `name` is the file's name for the user; `max_characters` limits the text."""
        self._task = task
        self._name = name
        self._max_characters = max_characters
        self._cleaner = Cleaner()
        self._digest = hashlib.sha256()
        self._pending: list[str] = []
        self._beginning = ""
        self._length = 0
        self._stored = 0
        self._has_words = False
        self._notes: list[str] = []
        self._title = ""
        self._last_progress = monotonic()

    @property
    def characters(self) -> int:
        return self._stored * text_table.PART + self._length

    def read(self, reader: FileReader) -> None:
        """Reads the whole file, and stores its text, except the end, which `finish` stores.

        Raises DocumentUnreadable, ProcessNotStarted, TaskCancelled."""
        self.drop()  # removes what an earlier attempt has left
        with self._task.beginning("reading"):
            pass
        with self._task.stopped_by(reader.kill):
            for message in reader.messages():
                match message:
                    case TextPiece(text):
                        self._add(self._cleaner.clean(text))
                    case ReadProgress(done, total):
                        self._report(done, total)
                    case ReadNote(note):
                        self._notes.append(note)
                    case ReadTitle(title):
                        self._title = title
        self._task.require_running()  # a reader that was killed ends like a reader that has finished

    def finish(self, now: float) -> int:
        """Stores the rest of the text, a title and notes. Returns the document that now has the text, which is
        another document for a duplicate or a new version.

        Raises DocumentUnreadable if the text is blank or too long, and TaskCancelled."""
        self._add(self._cleaner.clean("", is_last=True))
        if not self._has_words:
            raise DocumentUnreadable(f"There is no text in {self._name}: nothing could be read from it.")
        self._notes += self._cleaner.notes()
        self._store(is_last=True)
        database, document = self._task.database, self._task.document
        with database.reading() as connection:
            new = document_table.stored_text(connection, document)
            collection = document_table.document(connection, document).collection
        title = title_in(self._title, self._beginning, self._name) if new.title == new.source else ""
        new = replace(new, digest=self._digest.digest(), characters=self.characters, title=title or new.title)
        older = duplicates.older_version(database, collection, new, self._beginning)
        with self._task.writing() as connection:
            return duplicates.store_file_text(connection, document, new, " ".join(self._notes), older, now)

    def drop(self) -> None:
        """Deletes the stored parts of the text, PARTS_AT_ONCE in each transaction."""
        cleared = PARTS_AT_ONCE
        while cleared == PARTS_AT_ONCE:
            with self._task.database.writing() as connection:
                cleared = text_table.clear(connection, self._task.document, PARTS_AT_ONCE)

    def _add(self, text: str) -> None:
        self._digest.update(text.encode())
        self._pending.append(text)
        self._beginning += text[: COMPARED - len(self._beginning)]
        self._length += len(text)
        self._has_words = self._has_words or bool(text.strip())
        if self.characters > self._max_characters:
            raise DocumentUnreadable(
                f"{self._name} has more than {self._max_characters:,} characters: split it, and add the parts."
            )
        if self._length >= PARTS_AT_ONCE * text_table.PART:
            self._store(is_last=False)

    def _store(self, is_last: bool) -> None:
        text = "".join(self._pending)
        end = len(text) if is_last else len(text) - len(text) % text_table.PART
        parts = list(text_table.parts_of(text[:end]))
        with self._task.writing() as connection:
            text_table.append(connection, self._task.document, self._stored, parts)
        self._stored += end // text_table.PART
        self._pending, self._length = [text[end:]], len(text) - end
        if is_last:
            self._length = end % text_table.PART

    def _report(self, done: int, total: int) -> None:
        if monotonic() - self._last_progress < SECONDS_BETWEEN:
            return
        self._last_progress = monotonic()
        with self._task.writing() as connection:
            document_table.update(connection, self._task.document, done=done, total=total)


def import_file(task: Task, pending: PendingFiles, now: float, max_characters: int = MAX_BYTES) -> int:
    """Stores the text of a document's file and deletes the file, unless the text is complete already.

    Returns the document that now has the text. If the file is unusable, deletes the stored parts of its text and
    raises DocumentUnreadable. Raises ProcessNotStarted, TaskCancelled."""
    with task.database.reading() as connection:
        if document_table.version(connection, task.document).digest is not None:
            return task.document
        about = document_table.document(connection, task.document)
    reader = open_reader(pending.path(task.document, about.source), about.source)
    file_import = FileImport(task, about.source, max_characters)
    try:
        file_import.read(reader)
        stored_in = file_import.finish(now)
    except DocumentUnreadable:
        reader.kill()
        file_import.drop()
        raise
    pending.drop(task.document)
    return stored_in


def title_in(own: str, beginning: str, name: str) -> str:
    """Returns the title in a file's properties (`own`) or its first heading; "" if neither says anything.

    `name` is the file's name, and `beginning` is the beginning of its text."""
    has_headings = PurePath(name).suffix.lower() in HEADED
    heading = HEADING.search(beginning[:HEADING_AMONG]) if has_headings else None
    found = (" ".join(one.split()) for one in (own, title_of(heading[1]) if heading else ""))
    return next((one[:MAX_TITLE].strip() for one in found if not NO_TITLE.fullmatch(one)), "")


class Cleaner:
    """Cleans a text that comes in pieces: removes a byte order mark at its beginning and all NULs, replaces
    lone surrogates, and changes "\\r\\n" and "\\r" to "\\n"."""

    def __init__(self) -> None:
        self._is_first = True
        self._line_ends = IncrementalNewlineDecoder(None, translate=True)
        self._nuls = 0

    def clean(self, piece: str, is_last: bool = False) -> str:
        """Returns the next piece cleaned; a final "\\r" is returned later, because "\\n" may follow it."""
        text: str = self._line_ends.decode(piece, is_last)
        if self._is_first and text:
            text, self._is_first = text.removeprefix("\ufeff"), False
        kept = text.replace("\0", "")
        self._nuls += len(text) - len(kept)
        return storable(kept)

    def notes(self) -> list[str]:
        return [f"{self._nuls:,} NUL characters were removed."] if self._nuls else []


def cleaned(text: str) -> tuple[str, str]:
    """Returns a text cleaned, and a note about removed NULs, or ""."""
    cleaner = Cleaner()
    kept = cleaner.clean(text, is_last=True)
    return kept, " ".join(cleaner.notes())
