"""A new chat that begins as another one: its settings, and its messages down to one of them."""

import sqlite3
from dataclasses import replace

from app.chat_messages import ChatVersion
from app.chats import chat_table
from app.chats.message_table import insert, require_in, stored, tree_of
from app.chats.message_tree import ROOT


def fork(connection: sqlite3.Connection, chat: int, message: int, now: float) -> ChatVersion:
    """Copies the path down to this message into a new chat. Raises ChatNotFound."""
    row = chat_table.require_chat(connection, chat)
    tree = tree_of(connection, chat)
    require_in(tree, message)
    settings = (row["system"], row["sampling"], row["collections"], row["json_answers"])
    title = chat_table.unused_title(connection, row["title"])
    version = chat_table.create(connection, settings, row["folder"], title, now)
    leaf = ROOT
    for each in stored(connection, tree.path_to(message), tree):
        content = each.content if each.content.state != "writing" else replace(each.content, state="stopped")
        leaf = insert(connection, version.chat, leaf, each.role, content, each.created)
    connection.execute("UPDATE chat SET shown = ? WHERE id = ?", (leaf, version.chat))
    return version
