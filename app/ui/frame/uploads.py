"""Uploaded files. They are deleted once they have been read, because importing a file copies it.

Gradio names an upload by its path on this machine, and the page sends that path back with an event. Because an
event could name any file, only files in the folder of uploads are touched. Importing this module does not import
Gradio.
"""

import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import fastapi
from fastapi.responses import JSONResponse, PlainTextResponse
from starlette.formparsers import MultiPartException
from starlette.requests import ClientDisconnect

from app.errors import ImportBroken, NotUploaded

Used = TypeVar("Used")
LARGEST_UPLOAD = 300 * 2**20
"""Maximum bytes of an uploaded file, as many as a document may have."""
FOLDER = "upload-"
"""The beginning of the names of the folders for uploads."""
UPLOADED = re.compile(rf"[0-9a-f]{{64}}|(tmp|{FOLDER})[a-z0-9_]{{8}}")
"""The names that Gradio and `tempfile` give to files and folders in the folder of uploads."""
RESERVE = 1_000_000
"""Bytes that must stay free for what the database stores about a file."""


def add_upload_route(app: fastapi.FastAPI, data_dir: Path) -> None:
    """Receive the page's files, in a new folder for each request. Refuses files if the disk has no room."""
    from app.ui.frame.gradio_internals import UPLOAD

    @app.post(UPLOAD)
    async def upload(request: fastapi.Request) -> fastapi.Response:
        length = request.headers.get("content-length", "")
        if not _has_room(data_dir, int(length) if length.isdecimal() else 0):
            return PlainTextResponse(
                f"The disk of {data_dir} has no room for this file: free some space.", 507
            )
        try:
            return JSONResponse(await _received(request))
        except MultiPartException as error:
            return PlainTextResponse(error.message, 413 if "maximum allowed size" in error.message else 400)
        except ClientDisconnect:
            return fastapi.Response(status_code=400)
        except OSError as error:
            return PlainTextResponse(
                f"The file can't be saved in {data_dir} ({error.strerror}): free some space or check the disk.",
                507,
            )


async def _received(request: fastapi.Request) -> list[str]:
    """Save the request's files and return their paths. If that fails, deletes all of them."""
    from app.ui.frame.gradio_internals import receive_files, upload_folder

    parent = upload_folder()
    parent.mkdir(parents=True, exist_ok=True)
    folder = tempfile.mkdtemp(prefix=FOLDER, dir=parent)
    try:
        return await receive_files(request, folder, LARGEST_UPLOAD)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _has_room(data_dir: Path, length: int) -> bool:
    try:
        # Twice its length, because the file is copied before the upload is deleted.
        return shutil.disk_usage(data_dir).free >= 2 * length + RESERVE
    except OSError:  # the folder was deleted, and is made anew
        return True


def uploads_dir(data_dir: Path) -> Path:
    """Return the folder in which Gradio keeps uploads."""
    return data_dir / "gradio"


def upload_at(path: str) -> Path:
    """Return the upload that the page names. Raises NotUploaded for folders, URLs and files outside the uploads.

    Symbolic links are resolved first, so they cannot lead outside."""
    from app.ui.frame.gradio_internals import upload_folder

    folder = upload_folder().resolve()
    try:
        file = Path(path).resolve(strict=True)
        is_upload = Path(path).is_absolute() and file.is_file() and file.is_relative_to(folder)
    except (OSError, RuntimeError, ValueError):  # no such file, a circle of links, or a zero byte in the path
        is_upload = False
    if not is_upload:
        raise NotUploaded
    return file


def named_files(value: Any) -> Iterator[str]:
    """Yield the paths in an event's data: everything that Gradio may take for a file."""
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            if isinstance(part.get("path"), str):
                yield part["path"]
            waiting.extend(part.values())
        elif isinstance(part, list | tuple):
            waiting.extend(part)


def check_uploads(inputs: Any) -> None:
    """Raise NotUploaded if the data of an event names anything but uploaded files."""
    for path in named_files(inputs):
        upload_at(path)


def use_uploads(paths: Sequence[str], use: Callable[[list[Path]], Used]) -> Used:
    """Return the result of `use` with these uploads, which are then deleted. Raises NotUploaded for other files."""
    uploads = [upload_at(path) for path in paths]
    try:
        return use(uploads)
    finally:
        for upload in uploads:
            discard(upload)


def text_of_upload(uploads: Sequence[Path]) -> str:
    """Read the first of these uploads as text. Raises ImportBroken if it cannot be read."""
    try:
        # Some editors begin the files that they save with a byte order mark.
        return uploads[0].read_text(encoding="utf-8-sig", errors="replace")
    except OSError as error:
        raise ImportBroken(f"The file can't be read ({error.strerror}). Choose it again.") from error


def discard(upload: Path) -> None:
    """Remove an upload, and the folders that were made for it and are empty."""
    with suppress(OSError):  # the folder of uploads is emptied at every start
        upload.unlink(missing_ok=True)
        upload.parent.rmdir()
        if upload.parent.parent.name.startswith(FOLDER):
            upload.parent.parent.rmdir()


def discard_all(data_dir: Path) -> None:
    """Delete all uploads. Some are left if the app was killed, and Gradio leaves an empty file for each upload."""
    folder = uploads_dir(data_dir)
    with suppress(OSError):  # the folder is missing, or not empty because of files that are not ours
        for path in folder.iterdir():
            if path.is_symlink() or folder.is_symlink() or not UPLOADED.fullmatch(path.name):
                continue
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink()
        folder.rmdir()
