"""Removing: a document is out of sight at once, and its rows go a batch at a time, so that nobody waits long.

The file overwrites what is deleted (secure_delete). The index of words only notes that rows are gone, until its
segments are merged: that is done a few pages at a time once all that was removed is gone.
"""

import sqlite3

from app.documents import collections, passage_rows, records, texts

PASSAGES = 200
"""Passages that go in one transaction."""
PARTS = 100
"""Parts of a text that go in one transaction."""


def hide(connection: sqlite3.Connection, document: int) -> None:
    """Take a document out of sight."""
    records.set_state(connection, document, records.LEAVING)


def free(connection: sqlite3.Connection, document: int) -> bool:
    """Delete some of a hidden document's rows; whether all are gone, and the document with them."""
    ids = passage_rows.some(connection, document, PASSAGES)
    passage_rows.drop(connection, ids)
    if len(ids) == PASSAGES or texts.clear(connection, document, PARTS) == PARTS:
        return False
    records.delete(connection, document)
    collections.sweep(connection)
    return True
