"""Where the words of a citation stand now: in the text that it was made of, or nowhere.

of a passage    its row says where it went, once the text that is here is the one that the rows are of
of a whole text the text must be the same, to the letter
"""

import sqlite3

from app.document_messages import Citation, Document
from app.documents import passage_rows, records, texts
from app.errors import DocumentNotFound

CHANGED = "This passage is no longer there: its document has changed since."


def words(connection: sqlite3.Connection, cited: Citation) -> str:
    """What an answer cites. Raises DocumentNotFound when it is gone, or cannot be told yet."""
    about = records.document(connection, cited.document)
    start, end = _place(connection, about, cited) if cited.passage else (cited.start, cited.end)
    if cited.stamp and cited.stamp != _stamp(connection, about.id):
        raise DocumentNotFound(CHANGED)
    found = texts.between(connection, about.id, start, end)
    if not found:
        raise DocumentNotFound(CHANGED)
    return found


def _place(connection: sqlite3.Connection, about: Document, cited: Citation) -> tuple[int, int]:
    """Where the cited part of a passage stands. Its row may lie in an older text while a newer one is indexed."""
    if about.state in ("failed", "cancelled"):
        raise DocumentNotFound(f"{about.title} was not indexed: try it again in the list of documents.")
    if about.state != "ready":
        raise DocumentNotFound(f"{about.title} is being indexed: look again when it is ready.")
    begin, stop = passage_rows.place(connection, cited.passage)
    start = begin + cited.within
    return start, min(stop, start + cited.end - cited.start)


def _stamp(connection: sqlite3.Connection, document: int) -> str:
    version = records.version(connection, document)
    return texts.stamp_of(version.digest) if version and version.digest else ""
