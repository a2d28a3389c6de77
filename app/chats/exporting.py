"""Export of chats: JSON with everything, Markdown to read."""

import json
from collections.abc import Iterable, Iterator

from app import __version__
from app.chats.chat_settings import settings_of
from app.chats.chat_table import require_chat
from app.chats.export_format import FORMAT, VERSION, ChatRecord, MessageRecord, preset_to_json, to_json
from app.chats.message_table import rows_of, stored_of, tree_of
from app.database import Database
from app.values.chat import ChatPreset, StoredMessage, Thread

SPEAKERS = {"system": "System", "user": "You", "assistant": "Reply"}


def record_of(database: Database, chat: int) -> ChatRecord:
    """A chat with all its messages. Raises ChatNotFound."""
    with database.reading() as connection:
        row = require_chat(connection, chat)
        tree = tree_of(connection, chat)
        rows = rows_of(connection, sorted(tree))
    settings, messages = settings_of(row), stored_of(rows, sorted(tree), tree)
    return ChatRecord(
        row["title"],
        bool(row["is_named"]),
        row["folder"],
        bool(row["is_pinned"]),
        settings.system,
        settings.sampling,
        settings.json_answers,
        row["created"],
        row["updated"],
        row["shown"],
        tuple(_message(message, tree.parent(message.id)) for message in messages),
    )


def archive_parts(chats: Iterable[ChatRecord], presets: Iterable[ChatPreset]) -> Iterator[str]:
    """The JSON file, a line for each chat; a chat is read from the iterable when its line is written."""
    head = {"format": FORMAT, "version": VERSION, "app": __version__}
    kept = json.dumps({**head, "presets": [preset_to_json(preset) for preset in presets]}, ensure_ascii=False)
    yield f'{kept[:-1]}, "chats": [\n'
    comma = ""
    for chat in chats:
        yield comma + json.dumps(to_json(chat), ensure_ascii=False)
        comma = ",\n"
    yield "\n]}\n"


def markdown(thread: Thread) -> str:
    """The shown messages of a chat as Markdown."""
    parts = [f"# {thread.title or 'Chat'}"]
    if thread.settings.system:
        parts.append("\n".join(f"> {line}".rstrip() for line in thread.settings.system.splitlines()))
    for message in thread.messages:
        parts += [_heading(message), message.text.strip("\n")]
        if message.content.note:
            parts.append(f"*{message.content.note}*")
    return "\n\n".join(filter(None, parts)) + "\n"


def _heading(message: StoredMessage) -> str:
    provenance = message.content.provenance
    return f"## {provenance.model.name if provenance else SPEAKERS.get(message.role, message.role)}"


def _message(message: StoredMessage, parent: int) -> MessageRecord:
    content = message.content
    return MessageRecord(
        message.role,
        message.id,
        parent,
        content.text,
        content.state,
        content.note,
        content.thought,
        message.created,
        content.marks,
        content.provenance,
        content.sources,
    )
