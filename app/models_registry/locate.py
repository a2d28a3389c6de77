"""Finds a model by the name that a user types, and downloads it from the hub if necessary.

demo                  the model that ships with the app
~/models/x, ./x, C:\\x  a folder, by any path; a path that does not exist is never looked up on the hub
x.gguf                a GGUF file, such as one of LM Studio, or a folder that contains exactly one
org/name[@revision]   a folder of that name if there is one, else the hub's cache, else the hub
org/name:x.gguf       one GGUF file of a repository, searched in the same order
https://hub/org/name  the same model by the address of its page
"""

import os
import re
from contextlib import suppress
from pathlib import Path

from app.errors import ModelBroken, ModelNotFound, OnlyDrafts
from app.models_registry.downloads.process import download
from app.models_registry.files.config import chat_template
from app.models_registry.files.gguf_checks import SUFFIX, gguf_files
from app.models_registry.files.weights import check_model
from app.models_registry.hub.hub import Hub
from app.models_registry.hub.hub_id import parse_hub_id
from app.models_registry.installed_models import name_of
from app.settings import DEMO_MODEL, assets_dir
from app.values.gguf_header import is_gguf
from app.values.messages import ModelFolder, Progress
from app.values.model import CONFIG

SNAPSHOTS = "snapshots"
"""The name of the cache's folders that contain a folder for each revision of a model."""
PATH_LIKE = re.compile(r"[~./]|[A-Za-z]:|.*\\|[^@/]*/[^@/]*/")


def locate(name: str, progress: Progress, hub: Hub | None = None) -> ModelFolder:
    """Return the folder or GGUF file of a model, checked, and downloaded if necessary. Raises a ModelError.

    Draft heads are accepted, because the engine knows whether it loads them as drafts."""
    name = name.strip()
    if name == DEMO_MODEL:
        model = ModelFolder(assets_dir() / "demo-model", name=DEMO_MODEL, label="demo")
        check_model(model.path, model.name)
        return model
    model = _folder(_path(name)) if _exists(_path(name)) else _on_hub(name, progress, hub or Hub())
    with suppress(OnlyDrafts):
        check_model(model.path, model.name)
    return model


def locate_path(text: str) -> ModelFolder:
    """Check and return the model in this folder or GGUF file. Raises a ModelError."""
    text = text.strip()
    if not text:
        raise ModelNotFound("Enter the path of a model's folder or of a GGUF file.")
    if not _exists(_path(text)):
        raise ModelNotFound(f"The {_kind(text)} {text} does not exist: check the path.")
    model = _folder(_path(text))
    check_model(model.path, model.name)
    return model


def whole_path(name: str) -> str:
    """Return the absolute path of an existing folder or file; other names are returned unchanged."""
    path = _path(name.strip())
    is_path = name.strip() not in ("", DEMO_MODEL) and _exists(path)
    return str(path.absolute()) if is_path else name


def find_here(name: str, hub: Hub) -> Path | None:
    """Return the folder or GGUF file of a model that is on this machine, else None. Sends no request."""
    name = name.strip()
    if name == DEMO_MODEL:
        return assets_dir() / "demo-model"
    if _exists(_path(name)):
        return _path(name).absolute()
    wanted = parse_hub_id(name, hub.endpoint)
    return hub.cached(wanted) if wanted else None


def folder_here(name: str, hub: Hub) -> ModelFolder | None:
    """Return the ModelFolder of a model that is on this machine, else None. Sends no request."""
    path = find_here(name, hub)
    if path is None:
        return None
    is_cached = path.parent.name == SNAPSHOTS
    return ModelFolder(path, name=name.strip(), revision=path.name if is_cached else "")


def template_here(name: str, hub: Hub) -> str:
    """Return the chat template of a model that is on this machine; "" if there is none.

    Raises ModelBroken for a file that is not a GGUF file."""
    path = find_here(name, hub)
    return chat_template(_folder(path).path) if path else ""


def _path(text: str) -> Path:
    return Path(os.path.expanduser(text))  # noqa: PTH111 - Path's own fails on an unknown ~user


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # too long for a path, or in a folder that this user cannot open
        return False


def _folder(path: Path) -> ModelFolder:
    path = path.absolute()
    if path.is_dir():
        files = gguf_files(path) if not (path / CONFIG).exists() else []
        path = files[0] if len(files) == 1 else path.resolve()
    if path.is_dir():
        return ModelFolder(path, name=path.name)
    if path.suffix.lower() != SUFFIX and not is_gguf(path):
        raise ModelBroken(
            f"{path} is a file, but not a GGUF file: choose the folder that contains the model's files."
        )
    return ModelFolder(path, name=name_of(path))


def _kind(name: str) -> str:
    return "file" if name.lower().endswith(SUFFIX) else "folder"


def _on_hub(name: str, progress: Progress, hub: Hub) -> ModelFolder:
    """Return a model of the hub, downloaded if necessary.

    Raises a ModelError, also if the name is not a model's."""
    wanted = parse_hub_id(name, hub.endpoint)
    if wanted:
        path = hub.cached(wanted) or download(hub, wanted, progress)
        if wanted.file:
            return ModelFolder(path, name=name_of(path))
        return ModelFolder(path, name=wanted.repo, revision=path.name)
    if "://" in name:
        raise ModelNotFound(
            f"{name} is not the page of a model on Hugging Face: enter its id, such as org/name."
        )
    if PATH_LIKE.match(name):
        raise ModelNotFound(f"The {_kind(name)} {name} does not exist: check the path.")
    raise ModelNotFound(
        f"There is no folder {name!r}, and it is not a model id: "
        "enter a folder, an id such as org/name, or 'demo'."
    )
