"""All chats as files, straight from the server: a library is too large to travel through the page.

    GET /foresight/chats.json      every chat and preset, written out chat by chat while it is sent
    GET /foresight/backup.sqlite   a copy of the database, made in the folder of uploads, and gone once it is sent

They stand behind the guard, like every route. What the disk refuses is answered with its sentence.
"""

import tempfile
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import fastapi
from fastapi.responses import PlainTextResponse, StreamingResponse

from app.conversation import ChatStores
from app.errors import AppError
from app.ui.uploads import discard, uploads_dir

CHATS = "/foresight/chats.json"
BACKUP = "/foresight/backup.sqlite"
PART = 2**20
"""Bytes of a backup that are read at once."""


def add_library_files(app: fastapi.FastAPI, book: ChatStores, data_dir: Path) -> None:
    """Serve both files; private chats are in neither."""

    @app.get(CHATS)
    def chats() -> fastapi.Response:
        return _file(f"Foresight chats {date.today()}.json", "application/json", book.stored.export_parts())

    @app.get(BACKUP)
    def backup() -> fastapi.Response:
        try:
            copy = _copied(book, data_dir)
        except (AppError, OSError) as error:
            return PlainTextResponse(str(error), 503)
        return _file(f"Foresight backup {date.today()}.sqlite", "application/vnd.sqlite3", _read_once(copy))


def _file(name: str, kind: str, parts: Iterator[str] | Iterator[bytes]) -> StreamingResponse:
    # What was said in chats has no business in the browser's cache.
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "Cache-Control": "no-store"}
    return StreamingResponse(parts, media_type=kind, headers=headers)


def _copied(book: ChatStores, data_dir: Path) -> Path:
    """A copy of the database in a folder of its own, on the disk that has room for the database itself."""
    place = uploads_dir(data_dir)
    place.mkdir(parents=True, exist_ok=True)
    copy = Path(tempfile.mkdtemp(dir=place)) / "backup.sqlite"
    try:
        book.stored.backup(copy)
    except BaseException:
        discard(copy)
        raise
    return copy


def _read_once(copy: Path) -> Iterator[bytes]:
    """What a file holds; it goes with the end, or once nobody wants the rest."""
    try:
        with copy.open("rb") as file:
            while part := file.read(PART):
                yield part
    finally:
        discard(copy)
