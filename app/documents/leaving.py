"""Removing: a document is out of sight at once, and its rows go a batch at a time, so that nobody waits long.

The file overwrites what is deleted (secure_delete). The index of words only notes that rows are gone, until its
segments are merged: that is done a few pages at a time once all that was removed is empty, and only then the
documents' own rows go. So whatever ends the app in between, the next start goes on.
"""

import sqlite3
from collections.abc import Sequence

from app.documents import collections, passage_rows, records, texts

PASSAGES = 200
"""Passages that go in one transaction."""
PARTS = 100
"""Parts of a text that go in one transaction."""


def hide(connection: sqlite3.Connection, document: int) -> None:
    """Take a document out of sight."""
    records.set_state(connection, document, records.LEAVING)


def free(connection: sqlite3.Connection) -> bool:
    """Delete some of the rows of hidden documents; whether there were any."""
    for document in records.leaving(connection):
        ids = passage_rows.some(connection, document, PASSAGES)
        passage_rows.drop(connection, ids)
        if ids or texts.clear(connection, document, PARTS):
            return True
    return False


def finish(connection: sqlite3.Connection, gone: Sequence[int]) -> None:
    """Delete documents that are empty, and whose words were merged away."""
    for document in gone:
        records.delete(connection, document)
    collections.sweep(connection)
