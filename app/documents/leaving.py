"""Removing: a document is out of sight at once, and its rows go a batch at a time, so that nobody waits long."""

import sqlite3

from app.documents import collections, passage_rows, records, texts

BATCH = 200
"""Passages that go in one transaction."""
MERGED_PAGES = 200
"""Pages of the index of words that are written anew in one transaction."""


def hide(connection: sqlite3.Connection, document: int) -> None:
    """Take a document out of sight."""
    records.set_state(connection, document, records.LEAVING)


def free(connection: sqlite3.Connection, document: int) -> bool:
    """Delete some of a hidden document's rows; whether all are gone, and the document with them."""
    ids = passage_rows.some(connection, document, BATCH)
    passage_rows.drop(connection, ids)
    if len(ids) == BATCH:
        return False
    texts.clear(connection, document)
    records.delete(connection, document)
    collections.sweep(connection)
    return True
