"""Puts documents in order that were saved from a damaged database: some rows and the words' index are missing."""

import sqlite3
from itertools import chain

from app.documents import document_table, passage_table, text_table
from app.documents.chunking import chunks
from app.values.display_text import title_of

CUT = "Part of this text could not be read from the damaged database. Add it again to have all of it."
LOST = "The text of this document could not be read from the damaged database. Add it again."
UNTITLED = "Untitled"
ADOPT_TEXTS = """
    INSERT INTO document (id, collection, title, source, state, added)
    SELECT DISTINCT document, (SELECT ifnull(max(id), 0) + 1 FROM collection), '', 'pasted', 'waiting', 0
    FROM document_text WHERE document NOT IN (SELECT id FROM document)
"""
ADOPT_DOCUMENTS = """
    INSERT INTO collection (id, name, created)
    SELECT DISTINCT collection, 'Rescued documents ' || collection, 0
    FROM document WHERE collection NOT IN (SELECT id FROM collection)
"""
ADOPT_VERSIONS = """
    UPDATE document SET state = 'waiting', replaced_by = NULL WHERE replaced_by NOT IN (SELECT id FROM document)
"""
DROP_ORPHANS = (
    "DELETE FROM passage WHERE document NOT IN (SELECT id FROM document)",
    "DELETE FROM passage_vector WHERE passage NOT IN (SELECT id FROM passage)",
)


def mend_documents(connection: sqlite3.Connection) -> None:
    """Gives each text a document and each document a collection; the next start indexes them to their ends."""
    connection.execute(ADOPT_TEXTS)
    connection.execute(ADOPT_DOCUMENTS)
    connection.execute(ADOPT_VERSIONS)
    shown = f"SELECT * FROM document WHERE state NOT IN {document_table.HIDDEN}"
    for row in connection.execute(shown).fetchall():
        is_read = row["digest"] is not None or not row["title"]  # else its file was being read
        if is_read and (text := text_table.whole(connection, row["id"])):
            _mend_text(connection, row, text)
            _keep_passages(connection, row["id"])
        elif row["state"] not in ("failed", "cancelled"):
            text_table.clear(connection, row["id"])
            document_table.set_state(connection, row["id"], "failed", LOST)
    for statement in DROP_ORPHANS:
        connection.execute(statement)


def _mend_text(connection: sqlite3.Connection, row: sqlite3.Row, text: str) -> None:
    """Stores what is left of a text in full parts."""
    document, parts = row["id"], list(text_table.parts_of(text))
    digest = text_table.digest_of(parts)
    if parts != list(text_table.parts(connection, document)):
        text_table.clear(connection, document)
        text_table.append(connection, document, 0, parts)
    note = row["note"] if row["digest"] in (digest, None) else CUT
    document_table.set_text(connection, document, digest, len(text), note)
    if not row["title"]:
        document_table.set_title(connection, document, title_of(text) or UNTITLED)


def _keep_passages(connection: sqlite3.Connection, document: int) -> None:
    """Keeps the passages that are still right, so that citations still find them."""
    about = document_table.document(connection, document)
    before = passage_table.stored_passages(connection, document)
    for chunk in chunks(text_table.parts(connection, document), about.source):
        passage = passage_table.new_passage(about.title, chunk)
        if places := before.get(passage.digest):
            passage_table.keep(connection, places.popleft(), passage)
    passage_table.drop(connection, [place.id for place in chain.from_iterable(before.values())])
