"""Reads and changes the shown path of a chat's message tree, and selects the messages that the model reads.

Most changes take the ChatVersion that the page has seen, and raise StaleChat if it is outdated."""

import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

from app.chats import deletion
from app.chats.chat_table import (
    create,
    next_use,
    replace_queued,
    require_chat,
    settings_of,
    suggest_title,
    summary_or_none,
)
from app.chats.message_table import (
    ROOT,
    MessageTree,
    calls_from_json,
    chat_of,
    insert,
    parent,
    reopen,
    require_in,
    stored,
    summarise,
    tree_of,
)
from app.errors import ChatNotFound, StaleChat
from app.values.chat import (
    SUMMARY_REQUEST,
    ChatSettings,
    ChatVersion,
    MessageContent,
    StoredMessage,
    Thread,
    WritingState,
)
from app.values.display_text import title_of
from app.values.document import Sources
from app.values.messages import Message, Role

EDITED = "Edited by you."
TEXTS = "SELECT id, role, text, state, summary, calls FROM message WHERE chat = ?"


def thread(connection: sqlite3.Connection, chat: int, newest: int = 50) -> Thread:
    """Reads the newest messages of the shown path. Raises ChatNotFound."""
    row = require_chat(connection, chat)
    tree = tree_of(connection, chat)
    path = tree.path_to(_shown_leaf(row, tree))
    part = path[max(len(path) - newest, 0) :]
    return Thread(
        ChatVersion(chat, row["version"]),
        row["title"],
        settings_of(row),
        stored(connection, part, tree),
        len(path) - len(part),
        summary_or_none(connection, row["forked_from"]),
    )


def count_from(connection: sqlite3.Connection, chat: int, message: int) -> int:
    """Returns the number of shown messages from this one on; 0 if it is not on the shown path."""
    tree = tree_of(connection, chat)
    path = tree.path_to(_shown_leaf(require_chat(connection, chat), tree))
    return len(path) - path.index(message) if message in path else 0


def message(connection: sqlite3.Connection, wanted: int) -> StoredMessage:
    """Reads a single message, shown or not. Raises ChatNotFound."""
    tree = tree_of(connection, chat_of(connection, wanted))
    return stored(connection, [wanted], tree)[0]


def path_texts(connection: sqlite3.Connection, chat: int, upto: int | None = None) -> tuple[Message, ...]:
    """Returns the messages that the model reads, down to `upto` or else the shown leaf, without system prompts.

    Summarised messages are replaced by the request for the summary and the summary.

    Replies that failed or stayed empty are left out with their questions, and so are unanswered questions before
    the last message. An empty last reply is left out without its question, because the reply is about to be
    written."""
    return _texts(_prompt_path(_path(connection, chat, upto)))


def path_ids(connection: sqlite3.Connection, chat: int, upto: int) -> tuple[int, ...]:
    """Returns the ids of `path_texts`' messages. A summary and its request have the id of the summary's message."""
    return tuple(row["id"] for row in _read_rows(_prompt_path(_path(connection, chat, upto))))


def texts_before(connection: sqlite3.Connection, chat: int, upto: int | None = None) -> tuple[Message, ...]:
    """Returns the messages that the model reads before a new question below a message, by default the shown
    leaf."""
    return _texts(_without_unanswered(_without_failed_turns(_path(connection, chat, upto)), "user"))


def _path(connection: sqlite3.Connection, chat: int, upto: int | None) -> list[sqlite3.Row]:
    """Reads all messages down to this one, except system prompts, which are in the chat's settings."""
    row = require_chat(connection, chat)
    tree = tree_of(connection, chat)
    end = _shown_leaf(row, tree) if upto is None else upto
    require_in(tree, end)
    rows = {row["id"]: row for row in connection.execute(TEXTS, (chat,))}
    path = [rows[message] for message in tree.path_to(end)]
    return [row for row in path if row["role"] != "system"]


def _texts(path: list[sqlite3.Row]) -> tuple[Message, ...]:
    return tuple(
        Message(row["role"], row["text"], called=calls_from_json(row.get("calls")))
        for row in _read_rows(path)
    )


def _read_rows(path: list[sqlite3.Row]) -> Sequence[Mapping[str, Any]]:
    """Returns the rows, with the newest summary and its request in place of the rows that the summary covers."""
    at = max((at for at, row in enumerate(path) if row["summary"]), default=None)
    if at is None:
        return [dict(row) for row in path]
    request = {"id": path[at]["id"], "role": "user", "text": SUMMARY_REQUEST}
    summary = {"id": path[at]["id"], "role": "assistant", "text": path[at]["summary"]}
    return [request, summary, *map(dict, path[at + 1 :])]


def _shown_leaf(row: sqlite3.Row, tree: MessageTree) -> int:
    """Returns the last message of the shown path; the newest leaf if the stored leaf does not exist."""
    return int(row["shown"]) if row["shown"] in tree else tree.newest_below(ROOT)


def _prompt_path(path: list[sqlite3.Row]) -> list[sqlite3.Row]:
    """Leaves out an empty last reply, then failed or unanswered turns before the message that is now the last."""
    if path and path[-1]["role"] == "assistant" and not path[-1]["text"]:
        path = path[:-1]
    before = _without_failed_turns(path[:-1])
    return [*_without_unanswered(before, path[-1]["role"]), *path[-1:]] if path else []


def _without_unanswered(path: list[sqlite3.Row], then: Role) -> list[sqlite3.Row]:
    """Leaves out questions whose answers were deleted, because some templates refuse two questions in a row.

    `then` is the role of the message after the path."""
    roles = [*(row["role"] for row in path), then]
    return [row for at, row in enumerate(path) if roles[at : at + 2] != ["user", "user"]]


def _without_failed_turns(path: list[sqlite3.Row]) -> list[sqlite3.Row]:
    kept: list[sqlite3.Row] = []
    for row in path:
        if row["role"] != "assistant" or (row["text"].strip() and row["state"] != "failed"):
            kept.append(row)
        elif kept and kept[-1]["role"] == "user":
            kept.pop()
    return kept


def begin(
    connection: sqlite3.Connection, now: float, settings: ChatSettings, question: str
) -> tuple[ChatVersion, int]:
    """Creates a chat with its first question and an empty reply. Returns the chat's version and the reply's id."""
    return ask(connection, now, create(connection, now, settings), question)


def add(
    connection: sqlite3.Connection,
    now: float,
    version: ChatVersion,
    role: Role,
    text: str,
    state: WritingState = "done",
    parent: int | None = None,
    note: str = "",
    sources: Sources | None = None,
) -> tuple[ChatVersion, int]:
    """Adds a message below the shown leaf, or below `parent` (0: as a first message), and shows it.

    A first question becomes the chat's title, unless the user has named the chat. Returns the chat's new version
    and the message's id."""
    shown = _claim(connection, version, now)
    if parent is None:
        parent = shown
    else:
        require_in(tree_of(connection, version.chat), parent)
    content = MessageContent(text, state, note, sources=sources)
    message = insert(connection, version.chat, parent, role, content, now)
    if role == "user" and parent == ROOT:
        suggest_title(connection, version.chat, title_of(text))
    return _show(connection, version, message), message


def ask(
    connection: sqlite3.Connection,
    now: float,
    version: ChatVersion,
    question: str,
    parent: int | None = None,
    queued: int = 0,
) -> tuple[ChatVersion, int]:
    """Adds a question and an empty reply in state "writing", and shows them.

    Returns the chat's new version and the reply's id. If `queued` is not 0, removes this waiting message, which is
    the question."""
    if queued:
        replace_queued(connection, queued)
    _, message = add(connection, now, version, "user", question, parent=parent)
    reply = insert(connection, version.chat, message, "assistant", MessageContent(), now)
    return _show(connection, version, reply), reply


def regenerate(
    connection: sqlite3.Connection, now: float, version: ChatVersion, message: int
) -> tuple[ChatVersion, int]:
    """Adds an empty version of a reply in state "writing", and shows it.

    Returns the chat's new version and the new reply's id."""
    _claim(connection, version, now)
    tree = tree_of(connection, version.chat)
    _require_reply(connection, version.chat, message)
    reply = insert(connection, version.chat, tree.parent(message), "assistant", MessageContent(), now)
    return _show(connection, version, reply), reply


def continue_reply(
    connection: sqlite3.Connection, now: float, version: ChatVersion, message: int
) -> ChatVersion:
    """Puts a reply back into state "writing", keeping its text, and shows it with the messages that follow.

    Summaries that cover the reply are removed."""
    shown = _claim(connection, version, now)
    _require_reply(connection, version.chat, message)
    tree = tree_of(connection, version.chat)
    reopen(connection, message)
    for below in tree.all_below(message):
        summarise(connection, below, "")
    return _show(connection, version, shown if message in tree.path_to(shown) else tree.newest_below(message))


def edit_reply(
    connection: sqlite3.Connection, now: float, version: ChatVersion, message_id: int, text: str
) -> ChatVersion:
    """Adds and shows a version of a reply with the user's own text. Raises ChatNotFound, StaleChat."""
    above = parent(connection, message_id)
    sources = message(connection, message_id).content.sources
    unchecked = sources and sources.unchecked
    return add(connection, now, version, "assistant", text, "done", above, EDITED, unchecked)[0]


def show(connection: sqlite3.Connection, version: ChatVersion, message: int) -> ChatVersion:
    """Shows this version of a message, with the newest version of each message after it."""
    _claim(connection, version, None)
    tree = tree_of(connection, version.chat)
    if message not in tree:
        raise ChatNotFound("message")
    return _show(connection, version, tree.newest_below(message))


def remove(connection: sqlite3.Connection, version: ChatVersion, message: int) -> ChatVersion:
    """Deletes a message and all messages below it.

    If the message was shown, its newest other version is shown, or else the message before it."""
    shown = before = _claim(connection, version, None)
    tree = tree_of(connection, version.chat)
    if message not in tree:
        raise ChatNotFound("message")
    others = [other for other in tree.versions(message) if other != message]
    if message in tree.path_to(shown):
        shown = tree.newest_below(others[-1]) if others else tree.parent(message)
    deletion.take_out(connection, version.chat, before, tree.all_below(message))
    return _show(connection, version, shown)


def put_back(connection: sqlite3.Connection, chat: int) -> None:
    """Restores the messages that were deleted from this chat last, and shows the path that was shown then.

    Raises ChatNotFound if there are none, or if they are being erased."""
    version = ChatVersion(chat, require_chat(connection, chat)["version"])
    _claim(connection, version, None)
    _show(connection, version, deletion.put_back(connection, chat))


def _claim(connection: sqlite3.Connection, version: ChatVersion, now: float | None) -> int:
    """Increments the chat's version, stores `now` (unless None) as its last use, and returns the shown leaf.

    Raises ChatNotFound, StaleChat."""
    row = require_chat(connection, version.chat)
    if row["version"] != version.number:
        raise StaleChat
    updated = row["updated"] if now is None else next_use(connection, now)
    connection.execute(
        "UPDATE chat SET version = version + 1, updated = ? WHERE id = ?", (updated, version.chat)
    )
    return int(row["shown"])


def _show(connection: sqlite3.Connection, version: ChatVersion, leaf: int) -> ChatVersion:
    connection.execute("UPDATE chat SET shown = ? WHERE id = ?", (leaf, version.chat))
    return ChatVersion(version.chat, version.number + 1)


def _require_reply(connection: sqlite3.Connection, chat: int, message: int) -> None:
    found = connection.execute(
        "SELECT 1 FROM message WHERE id = ? AND chat = ? AND role = 'assistant'", (message, chat)
    )
    if found.fetchone() is None:
        raise ChatNotFound("reply")
