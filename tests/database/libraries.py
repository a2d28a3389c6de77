"""A small library of chats and documents, and ways to damage its file."""

import sqlite3
from contextlib import closing
from pathlib import Path

from app.chats.chats import Chats
from app.database.database import database_in
from app.database.files import FILE_NAME
from app.documents.documents import Documents
from app.values.chat import ChatPreset, ChatSettings

PAGE = 4096
CHATS, MESSAGES = 8, 6
LONG = "A long answer. " * 2_000
WHALES = "\n\n".join(f"Paragraph {number} about whales. {'They swim far. ' * 20}" for number in range(60))


def make_library(data_dir: Path) -> Path:
    """Chats in a folder and in none, a long answer, a draft, a preset, two documents. Returns the file."""
    with closing(database_in(data_dir)) as database:
        chats = Chats(database)
        for number in range(CHATS):
            place = chats.create(title=f"Chat {number}", folder="Work" if number % 2 else "")
            for message in range(MESSAGES):
                role = "assistant" if message % 2 else "user"
                text = f"Message {message} of chat {number}. " + "Words to fill a page. " * 30
                place, _ = chats.add(place, role, text)
        chats.add(place, "user", LONG)
        chats.set_draft(0, "Not sent yet")
        chats.save_preset(ChatPreset("Brief", ChatSettings("Be brief.")))
        with closing(Documents(database, data_dir)) as documents:
            collection = documents.create("Sea")
            documents.paste(collection, WHALES, "Whales")
            documents.paste(collection, "Seals like to lie in the sun.", "Seals")
            documents.wait()
    return data_dir / FILE_NAME


def damage(file: Path, page: int, filling: bytes = b"\xff") -> None:
    """Overwrites a page, the first of which is 1."""
    with file.open("r+b") as opened:
        opened.seek((page - 1) * PAGE)
        opened.write((filling * PAGE)[:PAGE])


def damage_table(file: Path, root: str) -> None:
    """Overwrites the first page of a table or an index."""
    with closing(sqlite3.connect(file)) as connection:
        row = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (root,)).fetchone()
    damage(file, row[0])
