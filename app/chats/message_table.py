"""The table of messages, its full-text index, and the tree that a chat's messages form.

A message is in the index unless it is empty or still being written. Marks, provenance, sources and calls are JSON.
"""

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from types import MappingProxyType
from typing import TypeVar, get_args

from app.errors import ChatNotFound
from app.values.chat import MessageContent, Provenance, StoredMessage, TokenMark, WritingState
from app.values.dataclass_json import parse_json, read, to_dict
from app.values.document import Sources
from app.values.json_answers import JsonAnswers
from app.values.messages import UNSTORED, Origin, Role, Sampling
from app.values.text_normalisation import spaced, storable
from app.values.tools import CalledTool

ROOT = 0
MOST_INDEXED = 500_000
"""Maximum number of characters of a message that are indexed, because more would lock the database for long."""
INTERRUPTED = "Foresight ended before this reply was complete."
T = TypeVar("T")
# Predictions and drafts have other letters, because "p" stands for prompt and "d" for document.
LETTERS: Mapping[Origin, str] = MappingProxyType(
    {origin: {"prediction": "e", "draft": "r"}.get(origin, origin[0]) for origin in get_args(Origin)}
)
ORIGINS: Mapping[str, Origin] = MappingProxyType({letter: origin for origin, letter in LETTERS.items()})


class MessageTree:
    """A chat's messages as a tree of ids; a newer message has a larger id. 0 is the root, which is not a message.

    0 ── 1 ── 2 ── 5 ── 6        path_to(6) == (1, 2, 5, 6)
         │    └── 7              versions(5) == (5, 7)
         └─ 3                    versions(2) == (2, 3); newest_below(2) == 7
    """

    def __init__(self, parents: Iterable[tuple[int, int]]) -> None:
        """Builds the tree from pairs of (message, its parent), in any order."""
        self._parents = dict(parents)
        children: dict[int, list[int]] = {}
        for message in sorted(self._parents):
            children.setdefault(self._parents[message], []).append(message)
        # Siblings share one tuple, because a tuple for each of thousands of siblings would need millions of
        # entries.
        self._children = {parent: tuple(below) for parent, below in children.items()}

    def __contains__(self, message: int) -> bool:
        return message in self._parents

    def __iter__(self) -> Iterator[int]:
        return iter(self._parents)

    def parent(self, message: int) -> int:
        return self._parents[message]

    def path_to(self, message: int) -> tuple[int, ...]:
        """Returns the messages from the first message of the path down to this message; () for the root."""
        path = []
        while message != ROOT:
            path.append(message)
            message = self._parents[message]
        return tuple(reversed(path))

    def versions(self, message: int) -> tuple[int, ...]:
        """Returns the message and its siblings, oldest first."""
        return self._children[self._parents[message]]

    def all_below(self, message: int) -> list[int]:
        found = [message]
        for each in found:  # the list grows during the loop
            found += self._children.get(each, ())
        return found

    def newest_below(self, message: int) -> int:
        """Follows the newest version of each message from here down to a leaf."""
        while below := self._children.get(message):
            message = below[-1]
        return message


def insert(
    connection: sqlite3.Connection,
    chat: int,
    parent: int,
    role: Role,
    content: MessageContent,
    created: float,
) -> int:
    """Adds a message below `parent` (0: as a first message), and indexes it if it is complete. Returns its id."""
    added = connection.execute(
        "INSERT INTO message (chat, parent, role, text, state, note, marks, provenance, thought, sources, summary,"
        " calls, created) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (chat, parent or None, role, *_columns(content), created),
    )
    message = int(added.lastrowid or 0)
    _index(connection, message, content)
    return message


def write(connection: sqlite3.Connection, message: int, content: MessageContent) -> None:
    """Replaces the content of a message, unless it was deleted.

    Content in state "writing" is dropped if the stored content is complete already."""
    updated = connection.execute(
        "UPDATE message SET text = ?, state = ?, note = ?, marks = ?, provenance = ?, thought = ?,"
        " sources = ?, summary = ?, calls = ? WHERE id = ? AND (state = 'writing' OR ? <> 'writing')",
        (*_columns(content), message, content.state),
    )
    if updated.rowcount:
        _index(connection, message, content)


def reopen(connection: sqlite3.Connection, message: int) -> None:
    """Sets a message back to state "writing", and removes it from the index. Its text stays."""
    connection.execute("UPDATE message SET state = 'writing', note = '' WHERE id = ?", (message,))
    connection.execute("DELETE FROM message_words WHERE rowid = ?", (message,))


def summarise(connection: sqlite3.Connection, message: int, summary: str) -> None:
    """Stores a summary, which the model reads instead of this message and all before it; "" removes the summary."""
    connection.execute("UPDATE message SET summary = ? WHERE id = ?", (storable(summary), message))


def is_writing(connection: sqlite3.Connection) -> bool:
    return connection.execute("SELECT 1 FROM message WHERE state = 'writing' LIMIT 1").fetchone() is not None


def mark_interrupted(connection: sqlite3.Connection) -> None:
    """Marks each message in state "writing" as interrupted, and indexes it. The app calls this when it starts."""
    for row in connection.execute("SELECT id, text FROM message WHERE state = 'writing'").fetchall():
        connection.execute(
            "UPDATE message SET state = 'interrupted', note = ? WHERE id = ?", (INTERRUPTED, row["id"])
        )
        _index(connection, row["id"], MessageContent(row["text"], "interrupted"))


def tree_of(connection: sqlite3.Connection, chat: int) -> MessageTree:
    """Reads the tree of a chat's messages, without their texts."""
    cursor = connection.cursor()
    cursor.row_factory = None
    return MessageTree(cursor.execute("SELECT id, ifnull(parent, 0) FROM message WHERE chat = ?", (chat,)))


def chat_of(connection: sqlite3.Connection, message: int) -> int:
    """Returns the chat that a message belongs to. Raises ChatNotFound."""
    found = connection.execute("SELECT chat FROM message WHERE id = ?", (message,)).fetchone()
    if found is None:
        raise ChatNotFound("message")
    return int(found["chat"])


def parent(connection: sqlite3.Connection, message: int) -> int:
    """Returns the parent message, or the root. Raises ChatNotFound."""
    return tree_of(connection, chat_of(connection, message)).parent(message)


def stored(
    connection: sqlite3.Connection, messages: Iterable[int], tree: MessageTree
) -> tuple[StoredMessage, ...]:
    """Reads these messages, and returns them in the same order."""
    wanted = list(messages)
    return stored_of(rows_of(connection, wanted), wanted, tree)


def stored_of(
    rows: Iterable[sqlite3.Row], messages: Iterable[int], tree: MessageTree
) -> tuple[StoredMessage, ...]:
    """Returns these messages from rows that were read before, so that parsing them needs no transaction."""
    by_id = {row["id"]: row for row in rows}
    return tuple(_message_of(by_id[message], tree.versions(message)) for message in messages)


def messages_of(connection: sqlite3.Connection, chats: Iterable[int]) -> list[sqlite3.Row]:
    """Reads the chat, role, text and time of each message of these chats."""
    return connection.execute(
        "SELECT chat, role, text, created FROM message WHERE chat IN (SELECT value FROM json_each(?))",
        (json.dumps(list(chats)),),
    ).fetchall()


def require_in(tree: MessageTree, message: int) -> None:
    """Raises ChatNotFound for a message that is neither the root nor in this tree."""
    if message != ROOT and message not in tree:
        raise ChatNotFound("message")


def rows_of(connection: sqlite3.Connection, messages: list[int]) -> list[sqlite3.Row]:
    # All ids are one parameter, because SQLite limits the number of parameters.
    return connection.execute(
        "SELECT * FROM message WHERE id IN (SELECT value FROM json_each(?))", (json.dumps(messages),)
    ).fetchall()


def _message_of(row: sqlite3.Row, versions: tuple[int, ...]) -> StoredMessage:
    state: WritingState = row["state"] if row["state"] in get_args(WritingState) else "done"
    marks, provenance = marks_from_json(row["marks"]), value_from_json(Provenance, row["provenance"])
    sources, calls = value_from_json(Sources, row["sources"]), calls_from_json(row["calls"])
    content = MessageContent(
        row["text"], state, row["note"], marks, provenance, row["thought"], sources, row["summary"], calls
    )
    return StoredMessage(row["id"], row["role"], content, row["created"], versions)


def _columns(content: MessageContent) -> tuple[object, ...]:
    text, note, summary = map(storable, (content.text, content.note, content.summary))
    marks, sources = marks_to_json(content.marks), value_to_json(content.sources)
    provenance, calls = value_to_json(content.provenance), None
    if content.calls:
        calls = storable(json.dumps([to_dict(one) for one in content.calls], ensure_ascii=False))
    return text, content.state, note, marks, provenance, content.thought, sources, summary, calls


def _index(connection: sqlite3.Connection, message: int, content: MessageContent) -> None:
    if content.state == "writing":
        return
    connection.execute("DELETE FROM message_words WHERE rowid = ?", (message,))
    if content.text:
        connection.execute(
            "INSERT INTO message_words (rowid, text) VALUES (?, ?)",
            (message, spaced(content.text[:MOST_INDEXED])),
        )


def marks_to_json(marks: Sequence[TokenMark]) -> str:
    """Encodes marks as three lists of differences (2 kB for a reply of 500 tokens); "" if there are none.

    TokenMark(5, "model", 0), TokenMark(9, "window", 1), TokenMark(12, "window", 1)
    {"ends": [5, 4, 3], "origins": "mww", "steps": [0, 1, 0]}
    """
    if not marks:
        return ""
    columns = {
        "ends": _differences([mark.end for mark in marks]),
        "origins": "".join(LETTERS[mark.origin] for mark in marks),
        "steps": _differences([mark.step for mark in marks]),
    }
    return json.dumps(columns, separators=(",", ":"))


def marks_from_json(text: str) -> tuple[TokenMark, ...]:
    """Reads marks; returns () if the string is invalid. An unknown origin becomes "model"."""
    try:
        columns = parse_json(text) if text else {"ends": [], "origins": "", "steps": []}
        ends, steps = accumulate(columns["ends"]), accumulate(columns["steps"])
        origins = (ORIGINS.get(letter, "model") for letter in columns["origins"])
        return tuple(map(TokenMark, ends, origins, steps))
    except (ValueError, TypeError, KeyError):
        return ()


def value_to_json(value: Provenance | Sources | Sampling | JsonAnswers | None) -> str | None:
    """Encodes a value as JSON; None stays None. A model's `chat_format` is left out."""
    return None if value is None else storable(json.dumps(to_dict(value, UNSTORED), ensure_ascii=False))


def value_from_json(kind: type[T], text: str | None) -> T | None:
    """Reads a value of this type from JSON; returns None for None and for an invalid string."""
    try:
        return None if text is None else read(kind, parse_json(text))
    except ValueError:
        return None


def calls_from_json(text: str | None) -> tuple[CalledTool, ...]:
    return value_from_json(tuple[CalledTool, ...], text) or ()


def _differences(numbers: list[int]) -> list[int]:
    """Returns the first number, then the differences of neighbours: 5 9 12 gives 5 4 3."""
    return [*numbers[:1], *(after - before for before, after in pairwise(numbers))]
