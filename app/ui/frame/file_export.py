"""Files that the user saves: small files through the page, all chats directly from the server.

All chats together are too large for the page, so two routes that need its key serve an export and a backup."""

import re
import tempfile
from collections.abc import Iterator
from datetime import date
from html import escape
from pathlib import Path
from time import time_ns

import fastapi
from fastapi.responses import PlainTextResponse, StreamingResponse

from app.conversation import ChatStores
from app.errors import AppError
from app.ui.frame.uploads import discard, uploads_dir

CHATS = "/foresight/chats.json"
BACKUP = "/foresight/backup.sqlite"
CHUNK_BYTES = 2**20
"""How many bytes of a backup are read at once."""
LONGEST_NAME = 80
"""Maximum number of characters of a file's name before its extension."""


def file_html(name: str, text: str, kind: str = "text/plain") -> str:
    """Return the HTML of a file to save under this name, which assets/ui/file_export.js downloads from a hidden
    output. `kind` is its media type."""
    # `data-made` differs each time; otherwise the page would not notice that the same file is saved again.
    return (
        f'<data hidden data-file="{escape(file_name(name))}" data-kind="{escape(kind)}" data-made="{time_ns()}" '
        f'data-text="{escape(text)}"></data>'
    )


def file_name(name: str) -> str:
    """Return the name, shortened if it is too long, without characters that some systems forbid in file names."""
    stem, dot, ending = re.sub(r"[^\w .()-]+", " ", name).rpartition(".")
    return f"{stem[:LONGEST_NAME].strip(' .') or 'foresight'}{dot}{ending[:LONGEST_NAME].strip()}"


def add_library_routes(app: fastapi.FastAPI, stores: ChatStores, data_dir: Path) -> None:
    """Serve the export of all chats, which is written while it is sent, and the backup. Neither contains private
    chats. If the backup cannot be made, the response has the reason."""

    @app.get(CHATS)
    def chats() -> fastapi.Response:
        return _file(f"Foresight chats {date.today()}.json", "application/json", stores.stored.export_parts())

    @app.get(BACKUP)
    def backup() -> fastapi.Response:
        try:
            copy = _copied(stores, data_dir)
        except (AppError, OSError) as error:
            return PlainTextResponse(str(error), 503)
        return _file(f"Foresight backup {date.today()}.sqlite", "application/vnd.sqlite3", _read_once(copy))


def _file(name: str, kind: str, parts: Iterator[str] | Iterator[bytes]) -> StreamingResponse:
    # Chats must not stay in the browser's cache.
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "Cache-Control": "no-store"}
    return StreamingResponse(parts, media_type=kind, headers=headers)


def _copied(stores: ChatStores, data_dir: Path) -> Path:
    """Copy the database into a new folder below the uploads, on the disk of the database itself."""
    parent = uploads_dir(data_dir)
    parent.mkdir(parents=True, exist_ok=True)
    copy = Path(tempfile.mkdtemp(dir=parent)) / "backup.sqlite"
    try:
        stores.stored.database.backup(copy)
    except BaseException:
        discard(copy)
        raise
    return copy


def _read_once(copy: Path) -> Iterator[bytes]:
    """Yield the file's bytes. Deletes the file at the end, or if the reader stops earlier."""
    try:
        with copy.open("rb") as file:
            while part := file.read(CHUNK_BYTES):
                yield part
    finally:
        discard(copy)
