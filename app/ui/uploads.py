"""Uploaded files. They are read once and deleted: what was imported is a copy.

Gradio names an upload by its path on this machine, and the page sends that path back with an event. An event could
name any file, so only files in the folder of uploads are touched."""

import re
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from app.errors import NotUploaded

UPLOAD = "/gradio_api/upload"
"""Gradio's route, which says "Internal Server Error" where the disk is full."""
UPLOADED = re.compile(r"[0-9a-f]{64}|tmp[a-z0-9_]{8}")
"""The names that Gradio, and `tempfile` for it and for backups, give to what lies in the folder of uploads."""
RESERVE = 1_000_000
"""Bytes that stay free for what the database keeps about a file."""


class UploadSpaceCheck:
    """ASGI middleware: refuses an upload that the disk has no room for, before it is read."""

    def __init__(self, app: ASGIApp, data_dir: Path) -> None:
        self._app = app
        self._data_dir = data_dir

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] == UPLOAD and not self._has_room(Headers(scope=scope)):
            refused = PlainTextResponse(
                f"The disk of {self._data_dir} has no room for this file: free some space.", 507
            )
            await refused(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def _has_room(self, headers: Headers) -> bool:
        header = headers.get("content-length", "")
        length = int(header) if header.isdecimal() else 0
        try:
            free = shutil.disk_usage(self._data_dir).free
        except OSError:  # deleted: Gradio makes the folder anew
            return True
        # It is copied before the upload is deleted.
        return free >= 2 * length + RESERVE


def uploads_dir(data_dir: Path) -> Path:
    """Return the folder of uploads."""
    return data_dir / "gradio"


def upload_at(path: str) -> Path:
    """Return the upload that the page names. Raises NotUploaded for anything else: links, folders, URLs."""
    from gradio.utils import get_upload_folder  # imported already once there is a page, else it takes seconds

    folder = Path(get_upload_folder()).resolve()
    try:
        file = Path(path).resolve(strict=True)
        is_upload = Path(path).is_absolute() and file.is_file() and file.is_relative_to(folder)
    except (OSError, RuntimeError, ValueError):  # missing, links in a circle, a zero byte
        is_upload = False
    if not is_upload:
        raise NotUploaded
    return file


def named_files(value: Any) -> Iterator[str]:
    """Yield the paths in the data of an event: whatever Gradio may take for a file."""
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            if isinstance(part.get("path"), str):
                yield part["path"]
            waiting.extend(part.values())
        elif isinstance(part, list | tuple):
            waiting.extend(part)


def discard(upload: Path) -> None:
    """Remove an upload, and the folder that was made for it."""
    with suppress(OSError):  # the folder of uploads is emptied at every start
        upload.unlink(missing_ok=True)
        upload.parent.rmdir()


def discard_all(data_dir: Path) -> None:
    """Delete all uploads: some are left after a kill, and Gradio leaves an empty file for each."""
    folder = uploads_dir(data_dir)
    with suppress(OSError):  # not there, or not empty: what has another name than uploads have is not ours
        for path in folder.iterdir():
            if path.is_symlink() or folder.is_symlink() or not UPLOADED.fullmatch(path.name):
                continue
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink()
        folder.rmdir()
