"""Files that the page was given: read once and gone, since whoever took something in has a copy of their own.

Gradio tells of an upload by its path on this machine, and the page sends that path back with an event. Whoever
speaks to the page could name any file there, so none is touched that does not lie in the folder of uploads."""

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
RESERVE = 1_000_000
"""Bytes that stay free for what is noted about a file."""


class RoomForUploads:
    """ASGI middleware: an upload that the disk has no room for is refused in a sentence, before it is read."""

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
        told = headers.get("content-length", "")
        length = int(told) if told.isdecimal() else 0
        try:
            free = shutil.disk_usage(self._data_dir).free
        except OSError:  # gone: Gradio makes the folder anew
            return True
        # Whoever takes the file in makes a copy before the upload goes.
        return free >= 2 * length + RESERVE


def uploads_dir(data_dir: Path) -> Path:
    """Where uploads come to lie."""
    return data_dir / "gradio"


def upload_at(path: str) -> Path:
    """The upload that the page names. Raises NotUploaded for everything else: links, folders and addresses, too."""
    from gradio.utils import get_upload_folder  # which takes seconds, and is there once there is a page

    folder = Path(get_upload_folder()).resolve()
    try:
        file = Path(path).resolve(strict=True)
        is_upload = Path(path).is_absolute() and file.is_file() and file.is_relative_to(folder)
    except (OSError, RuntimeError, ValueError):  # none there, links in a circle, a zero byte
        is_upload = False
    if not is_upload:
        raise NotUploaded
    return file


def named_files(value: Any) -> Iterator[str]:
    """The paths in what an event sends: whatever Gradio may take for a file, wherever it stands."""
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
    with suppress(OSError):  # it lies in the folder of uploads, which is emptied at every start
        upload.unlink(missing_ok=True)
        upload.parent.rmdir()


def discard_all(data_dir: Path) -> None:
    """Remove what is left of uploads: a kill leaves some, and Gradio an empty file for each."""
    shutil.rmtree(uploads_dir(data_dir), ignore_errors=True)
