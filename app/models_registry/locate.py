"""From what a person types to a model's folder on this machine.

demo                  the model that ships with the app
~/models/x, ./x, C:\\x  a folder, by any path; a path that does not exist is never asked of the hub
org/name[@revision]   a folder of that name if there is one, else the hub's cache, else the hub
https://hub/org/name  the same by the address of the model's page
"""

import os
import re
from pathlib import Path

from app.errors import ModelBroken, ModelNotFound
from app.messages import ModelFolder, Progress
from app.models_registry.downloads.process import download
from app.models_registry.files.weights import check_model
from app.models_registry.hub.hub import Hub
from app.models_registry.hub.hub_id import HubId, parse_hub_id
from app.settings import DEMO_MODEL, assets_dir

SNAPSHOTS = "snapshots"
"""The folder of the hub's cache whose folders are revisions of a model."""
PATH_LIKE = re.compile(r"[~./]|[A-Za-z]:|.*\\|[^@/]*/[^@/]*/")


def locate(name: str, progress: Progress, hub: Hub | None = None) -> ModelFolder:
    """The checked folder of the model of this name, downloaded if need be. Raises a ModelError."""
    name = name.strip()
    if name == DEMO_MODEL:
        return _checked(ModelFolder(assets_dir() / "demo-model", name=DEMO_MODEL, label="demo"))
    path = Path(os.path.expanduser(name))  # noqa: PTH111 - Path's own fails on an unknown ~user
    if _exists(path):
        return _checked(_folder(path))
    hub = hub or Hub()
    found = parse_hub_id(name, hub.endpoint)
    if found is None and "://" in name:
        raise ModelNotFound(
            f"{name} is not the page of a model on Hugging Face: enter its id, such as org/name."
        )
    if found is None and PATH_LIKE.match(name):
        raise ModelNotFound(f"The folder {name} does not exist: check the path.")
    if found:
        return _checked(_on_hub(found, progress, hub))
    raise ModelNotFound(
        f"There is no folder {name!r}, and it is not a model id: "
        "enter a folder, an id such as org/name, or 'demo'."
    )


def find_here(name: str, hub: Hub) -> Path | None:
    """The folder of a model that is on this machine already; asks no network."""
    name = name.strip()
    if name == DEMO_MODEL:
        return assets_dir() / "demo-model"
    path = Path(os.path.expanduser(name))  # noqa: PTH111 - as in `locate`
    if _exists(path):
        return path
    found = parse_hub_id(name, hub.endpoint)
    return hub.cached(found) if found else None


def folder_here(name: str, hub: Hub) -> ModelFolder | None:
    """A model that is on this machine already, to be loaded; asks no network."""
    path = find_here(name, hub)
    if path is None:
        return None
    is_cached = path.parent.name == SNAPSHOTS
    return ModelFolder(path, name=name.strip(), revision=path.name if is_cached else "")


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # too long for a path, or in a folder that is closed to us
        return False


def _folder(path: Path) -> ModelFolder:
    if not path.is_dir():
        raise ModelBroken(f"{path} is a file: choose the folder that holds the model's files.")
    path = path.resolve()
    return ModelFolder(path, name=path.name)


def _on_hub(wanted: HubId, progress: Progress, hub: Hub) -> ModelFolder:
    folder = hub.cached(wanted) or download(hub, wanted, progress)
    return ModelFolder(folder, name=wanted.repo, revision=folder.name)


def _checked(model: ModelFolder) -> ModelFolder:
    check_model(model.path, model.name)
    return model
