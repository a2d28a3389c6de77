"""A chat's settings (system prompt, sampling, collections, JSON answers), and presets: settings with a name."""

import sqlite3

from app.chats.chat_table import one_line, require_chat
from app.chats.json_columns import collections_from_json, collections_to_json, value_from_json, value_to_json
from app.values.chat import ChatPreset, ChatSettings
from app.values.json_answers import JsonAnswers
from app.values.messages import Sampling
from app.values.text_normalisation import storable


def settings(connection: sqlite3.Connection, chat: int) -> ChatSettings:
    """The chat's settings. Raises ChatNotFound."""
    return settings_of(require_chat(connection, chat))


def set_settings(connection: sqlite3.Connection, chat: int, settings: ChatSettings) -> None:
    """Replaces the chat's settings. Raises ChatNotFound."""
    require_chat(connection, chat)
    connection.execute(
        "UPDATE chat SET system = ?, sampling = ?, collections = ?, json_answers = ? WHERE id = ?",
        (*columns_of(settings), chat),
    )


def used_collections(connection: sqlite3.Connection) -> frozenset[int]:
    """The collections that chats search; not those of deleted chats alone."""
    rows = connection.execute("SELECT collections FROM chat WHERE deleted IS NULL AND collections <> ''")
    return frozenset(one for row in rows for one in collections_from_json(row["collections"]))


def settings_of(row: sqlite3.Row) -> ChatSettings:
    """The settings in a chat's row."""
    sampling, collections = (
        value_from_json(Sampling, row["sampling"]),
        collections_from_json(row["collections"]),
    )
    json_answers = value_from_json(JsonAnswers, row["json_answers"]) or JsonAnswers()
    return ChatSettings(row["system"], sampling, collections, json_answers)


def presets(connection: sqlite3.Connection) -> tuple[ChatPreset, ...]:
    """All presets, by name."""
    rows = connection.execute("SELECT name, system, sampling FROM preset")
    found = (
        ChatPreset(row["name"], ChatSettings(row["system"], value_from_json(Sampling, row["sampling"])))
        for row in rows
    )
    return tuple(sorted(found, key=lambda preset: preset.name.casefold()))


def save_preset(connection: sqlite3.Connection, preset: ChatPreset) -> None:
    """Saves a preset; one of the same name is replaced."""
    system, sampling, *_ = columns_of(preset.settings)
    connection.execute(
        "INSERT OR REPLACE INTO preset (name, system, sampling) VALUES (?, ?, ?)",
        (one_line(preset.name), system, sampling),
    )


def delete_preset(connection: sqlite3.Connection, name: str) -> None:
    """Deletes a preset, if it is there."""
    connection.execute("DELETE FROM preset WHERE name = ?", (one_line(name),))


def columns_of(settings: ChatSettings) -> tuple[str | None, ...]:
    """Settings as the columns system, sampling, collections and json_answers."""
    collections = collections_to_json(settings.collections)
    json_answers = None if settings.json_answers == JsonAnswers() else value_to_json(settings.json_answers)
    return storable(settings.system), value_to_json(settings.sampling), collections, json_answers
