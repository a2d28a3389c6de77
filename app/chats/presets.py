"""Manners with names."""

import sqlite3

from app.chat_messages import ChatPreset, ChatSettings
from app.chats.lines import clean
from app.chats.provenance_json import sampling_from_json, sampling_to_json
from app.spacing import storable


def presets(connection: sqlite3.Connection) -> tuple[ChatPreset, ...]:
    """All presets, by name."""
    found = connection.execute("SELECT name, system, sampling FROM preset")
    kept = (
        ChatPreset(row["name"], ChatSettings(row["system"], sampling_from_json(row["sampling"])))
        for row in found
    )
    return tuple(sorted(kept, key=lambda preset: preset.name.casefold()))


def save_preset(connection: sqlite3.Connection, preset: ChatPreset) -> None:
    """Keep a preset; one of the same name is replaced."""
    manner = preset.manner
    connection.execute(
        "INSERT OR REPLACE INTO preset (name, system, sampling) VALUES (?, ?, ?)",
        (clean(preset.name), storable(manner.system), sampling_to_json(manner.sampling)),
    )


def delete_preset(connection: sqlite3.Connection, name: str) -> None:
    """Drop a preset, if it is there."""
    connection.execute("DELETE FROM preset WHERE name = ?", (clean(name),))
