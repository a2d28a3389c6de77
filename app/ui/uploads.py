"""Files that the page was given: read once and gone, since whoever took something in has a copy of their own."""

import shutil
from contextlib import suppress
from pathlib import Path


def uploads_dir(data_dir: Path) -> Path:
    """Where uploads come to lie."""
    return data_dir / "gradio"


def discard(upload: Path) -> None:
    """Remove an upload, and the folder that was made for it."""
    with suppress(OSError):  # it lies in the folder of uploads, which is emptied at every start
        upload.unlink(missing_ok=True)
        upload.parent.rmdir()


def discard_all(data_dir: Path) -> None:
    """Remove what is left of uploads: a kill leaves some, and Gradio an empty file for each."""
    shutil.rmtree(uploads_dir(data_dir), ignore_errors=True)
