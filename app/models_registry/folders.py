"""The folders of this machine, in which the user looks for a model."""

import os
from pathlib import Path

from app.errors import ModelNotFound
from app.models_registry.files.gguf_checks import gguf_files
from app.values.model import CONFIG, FolderContents

MOST_LISTED = 500
"""Maximum number of folders that are listed, and of models."""


def list_folder(folder: Path) -> FolderContents:
    """Return the models and the other folders in a folder, without hidden ones. Raises ModelNotFound."""
    try:
        names = sorted((one.name for one in os.scandir(folder) if one.is_dir()), key=str.casefold)
        files = gguf_files(folder)
    except OSError as error:
        raise ModelNotFound(f"{folder} can't be opened ({error.strerror}). Choose another folder.") from error
    folders = [folder / name for name in names if not name.startswith(".")]
    models = [one for one in folders if os.access(one, os.X_OK) and (one / CONFIG).is_file()]
    others = [one for one in folders if one not in models]
    parent = folder.parent if folder.parent != folder else None
    return FolderContents(folder, parent, (*models, *files)[:MOST_LISTED], tuple(others[:MOST_LISTED]))
