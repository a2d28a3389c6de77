"""A new chat that begins as another one: its settings, and its messages down to one of them."""

import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from app.chats import chat_table
from app.chats.importing import WeightedStep, write_in_pieces
from app.chats.message_table import insert, require_in, rows_of, stored_of, tree_of
from app.chats.message_tree import ROOT
from app.database import Database
from app.errors import ChatNotFound
from app.values.chat import ChatVersion, StoredMessage


def fork(database: Database, chat: int, message: int, now: float) -> ChatVersion:
    """Copies the path down to this message into a new chat. Raises ChatNotFound."""
    with database.reading() as connection:
        row = chat_table.require_chat(connection, chat)
        tree = tree_of(connection, chat)
        require_in(tree, message)
        path = tree.path_to(message)
        rows = rows_of(connection, list(path))
    new = _Fork(row, stored_of(rows, path, tree), now)
    write_in_pieces(database, new.steps())
    return new.version


class _Fork:
    """Writes the new chat, which is hidden until its last message is stored."""

    def __init__(self, row: sqlite3.Row, path: tuple[StoredMessage, ...], now: float) -> None:
        self._row = row
        self._path = path
        self._now = now
        self._leaf = ROOT
        self.version = ChatVersion()

    def steps(self) -> Iterator[WeightedStep]:
        """What is to be done, in this order."""
        yield 0, self._create
        for message in self._path:
            yield len(message.text), partial(self._put, message)
        yield 0, self._show

    def _create(self, connection: sqlite3.Connection) -> None:
        row = self._row
        settings = (row["system"], row["sampling"], row["collections"], row["json_answers"])
        title = chat_table.unused_title(connection, row["title"])
        self.version = chat_table.create(connection, settings, row["folder"], title, self._now)
        chat_table.hide_new(connection, self.version.chat)

    def _put(self, message: StoredMessage, connection: sqlite3.Connection) -> None:
        content = message.content
        content = content if content.state != "writing" else replace(content, state="stopped")
        self._require_hidden(connection)
        self._leaf = insert(connection, self.version.chat, self._leaf, message.role, content, message.created)

    def _show(self, connection: sqlite3.Connection) -> None:
        self._require_hidden(connection)
        connection.execute(
            "UPDATE chat SET shown = ?, deleted = NULL WHERE id = ?", (self._leaf, self.version.chat)
        )

    def _require_hidden(self, connection: sqlite3.Connection) -> None:
        if not chat_table.is_new(connection, self.version.chat):
            raise ChatNotFound
