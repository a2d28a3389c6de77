"""The models on this machine: in the hub's cache, in folders of the user, and GGUF files of other programs.

Every model is checked by its files, without torch. One that cannot be loaded is listed with the reason. A model
in the cache is deleted by the hub's client, so that files which another revision shares are kept.
"""

import shutil
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from huggingface_hub import HFCacheInfo, scan_cache_dir

from app.errors import ModelBroken, ModelError, ModelNotFound, ModelUnsafe, OnlyDrafts
from app.models_registry.downloads.repo_cache import PARTIAL, RepoCache
from app.models_registry.files.checksum import file_digest
from app.models_registry.files.gguf import check_gguf, gguf_files
from app.models_registry.files.model_files import POOLING, check_folder, is_complete
from app.models_registry.files.weights import check_model
from app.models_registry.hub.download_plan import DIGEST_PATTERN
from app.models_registry.hub.hub import PREFIX, Hub
from app.models_registry.other_apps import models_of_other_apps, name_of
from app.settings import DEMO_MODEL, assets_dir
from app.values.config_limits import CONFIG
from app.values.model import InstalledModel, InstalledState, ModelOrigin


def installed(hub: Hub, folders: Iterable[Path] = (), home: Path | None = None) -> list[InstalledModel]:
    """All models on this machine, the demo first, then by name. Asks no network.

    Other programs' models are looked for in the person's home folder."""
    demo = _checked_model(DEMO_MODEL, assets_dir() / "demo-model", "demo")
    found = [*_in_cache(hub.root), *(model for folder in folders for model in _in_folder(folder))]
    for other in models_of_other_apps(home or Path.home()):
        # A folder of theirs may be the person's, too; Ollama has one file by many names.
        if all(other.path != one.path for one in found):
            found.append(_checked_model(other.name, other.path, other.origin))
    return [demo, *sorted(found, key=lambda model: model.name.lower())]


def delete(model: InstalledModel, hub: Hub) -> int:
    """Delete a model of the hub's cache and return the freed bytes. Raises ModelError when that fails."""
    if model.origin == "demo":
        raise ModelError("The demo model ships with the app and stays: choose another one.")
    if model.origin == "folder":
        raise ModelError(
            f"{model.name} is not in the hub's cache: Foresight deletes nothing in a folder of yours. "
            f"Delete {model.path} yourself."
        )
    if model.origin not in ("hub", "hub-gguf"):
        raise ModelError(
            f"{model.name} belongs to another program, and Foresight does not delete it: delete it there "
            f"({model.path})."
        )
    folder = _repo_folder(model, hub)
    before = disk_size(folder)
    try:
        _delete_files(folder, model)
        if folder.exists() and not any(folder.glob("snapshots/*")):
            shutil.rmtree(folder)  # what no revision uses any more, such as half of a download
    except OSError as error:
        raise ModelError(
            f"{model.name} could not be deleted ({error.strerror}): close programs that use it, and check the "
            f"permissions of {folder}."
        ) from error
    return before - disk_size(folder)


def freed_by(model: InstalledModel, hub: Hub) -> int:
    """The bytes that deleting this model would free."""
    if model.origin == "hub-gguf":
        return sum(path.stat().st_size for path in _own_blobs(model.path.parent, model.path))
    if model.origin != "hub":
        return 0
    if not model.revision:
        return disk_size(RepoCache(hub.root, model.name).folder)
    if scan := _scanned(model.path):
        return int(scan.delete_revisions(model.revision).expected_freed_size)
    return sum(path.stat().st_size for path in _own_blobs(model.path))


def verify(model: InstalledModel) -> list[str]:
    """The damaged files of a model, as sentences. In the hub's cache a file's name is its checksum."""
    if model.path.is_file():
        check_gguf(model.path, model.name)
        return list(_damage(model.path, model.path.name))
    check_folder(model.path)
    problems: list[str] = []
    pooling = model.path / POOLING
    for path in sorted(path for path in (*model.path.iterdir(), pooling) if path.is_file()):
        problems += _damage(path, path.relative_to(model.path).as_posix())
    return problems


def _damage(path: Path, name: str) -> Iterator[str]:
    digest = path.resolve().name
    if DIGEST_PATTERN.fullmatch(digest) and file_digest(path, digest) != digest:
        yield (
            f"{name} is damaged (its checksum is wrong): delete {path.resolve()} and download the model again."
        )


def has_checksums(model: InstalledModel) -> bool:
    """Whether the model's files have known checksums to be compared with."""
    paths = model.path.iterdir() if model.path.is_dir() else [model.path]
    return any(DIGEST_PATTERN.fullmatch(path.resolve().name) for path in paths)


def find_installed(name: str, hub: Hub, folders: Iterable[Path] = ()) -> InstalledModel:
    """The installed model of this name, or name@revision; of several a complete one. Raises ModelNotFound."""
    repo, _, revision = name.partition("@")
    named = [model for model in installed(hub, folders) if model.name == repo]
    found = [model for model in named if not revision or model.revision.startswith(revision)]
    if found:
        return min(found, key=lambda model: model.state == "incomplete")
    raise ModelNotFound(f"{name} is not installed: `python run.py models list` shows what is.")


def disk_size(folder: Path) -> int:
    """Bytes on the disk below a folder; links count nothing."""
    paths = folder.rglob("*") if folder.exists() else iter(())
    return sum(path.lstat().st_size for path in paths if path.is_file() and not path.is_symlink())


def _repo_folder(model: InstalledModel, hub: Hub) -> Path:
    if model.origin == "hub-gguf":
        return next(path for path in model.path.parents if path.name.startswith(PREFIX))
    return RepoCache(hub.root, model.name).folder


def _delete_files(folder: Path, model: InstalledModel) -> None:
    if model.origin == "hub-gguf":
        blobs = _own_blobs(model.path.parent, model.path)
        for path in (model.path, *blobs):
            path.unlink()
        if not any(model.path.parent.iterdir()):
            model.path.parent.rmdir()
    elif model.revision:
        _delete_revision(folder, model.path)
    else:
        shutil.rmtree(folder)


def _delete_revision(folder: Path, snapshot: Path) -> None:
    if scan := _scanned(snapshot):
        return scan.delete_revisions(snapshot.name).execute()
    # The hub's client skips a model with anything unexpected in it, such as a dangling link.
    blobs = _own_blobs(snapshot)
    shutil.rmtree(snapshot)
    for path in [*blobs, *(ref for ref in folder.glob("refs/**/*") if _points_to(ref, snapshot.name))]:
        path.unlink()
    return None


def _scanned(snapshot: Path) -> HFCacheInfo | None:
    """The scan of this model alone: a copy under another name may have the same commit."""
    folder = snapshot.parent.parent
    scan = scan_cache_dir(folder.parent)
    repos = frozenset(repo for repo in scan.repos if repo.repo_path.name == folder.name)
    return replace(scan, repos=repos) if repos else None


def _own_blobs(snapshot: Path, file: Path | None = None) -> set[Path]:
    """The blobs that nothing else links to than this snapshot, or than this file of it."""
    mine = {file} if file else set(snapshot.rglob("*"))
    linked = {path.resolve() for path in snapshot.parent.glob("*/**/*") if path not in mine}
    own = {path.resolve() for path in mine if path.is_symlink() and path.exists()}
    return {path for path in own - linked if path.parent == snapshot.parent.parent / "blobs"}


def _points_to(ref: Path, revision: str) -> bool:
    return ref.is_file() and ref.read_text(encoding="utf-8").strip() == revision


def _in_cache(root: Path) -> Iterator[InstalledModel]:
    for folder in sorted(root.glob(PREFIX + "*")):
        if not folder.is_dir():
            continue
        name = folder.name.removeprefix(PREFIX).replace("--", "/")
        revisions = [
            path for path in sorted(folder.glob("snapshots/*")) if path.is_dir() and any(path.iterdir())
        ]
        for revision in revisions:
            # Datasets have a prefix of their own; a tokenizer alone, or an image model, is no text model of ours.
            if not _has_only_gguf(revision):
                yield _checked_model(name, revision, "hub", revision.name)
            for file in gguf_files(revision, depth=1):
                yield _checked_model(name_of(file), file, "hub-gguf")
        if not revisions:
            yield _not_finished(name, folder)


def _not_finished(name: str, folder: Path) -> InstalledModel:
    has_partial = any(folder.glob("blobs/*" + PARTIAL))
    problem = (
        "Its download is not finished: resume it, or delete what has come."
        if has_partial
        else ("It has no files: delete it, or download it again.")
    )
    return InstalledModel(name, folder, "hub", disk_size(folder), state="incomplete", problem=problem)


def _in_folder(folder: Path) -> Iterator[InstalledModel]:
    """The model that this folder is, or those right below it, and GGUF files; nothing where it cannot be read."""
    with suppress(OSError):
        places = [folder] if (folder / CONFIG).exists() else sorted(folder.iterdir())
        for place in places:
            if (place / CONFIG).exists():
                yield _checked_model(place.name, place, "folder")
        for file in gguf_files(folder, depth=2):
            yield _checked_model(name_of(file), file, "folder")


def _has_only_gguf(revision: Path) -> bool:
    return not (revision / CONFIG).exists() and bool(gguf_files(revision, depth=1))


def _checked_model(name: str, folder: Path, origin: ModelOrigin, revision: str = "") -> InstalledModel:
    state: InstalledState = "ready"
    problem = ""
    try:
        check_model(folder, name)
    except OnlyDrafts as error:
        state, problem = "draft head", str(error)
    except ModelError as error:
        is_whole = isinstance(error, ModelUnsafe) or _is_all_here(folder)
        state, problem = ("unusable" if is_whole else "incomplete"), str(error)
    return InstalledModel(name, folder, origin, model_size(folder), revision, state, problem)


def _is_all_here(folder: Path) -> bool:
    """Whether all files are there, however little they make sense."""
    if folder.is_file():
        return True
    try:
        return is_complete(folder)
    except (ModelBroken, OSError):
        return True


def model_size(folder: Path) -> int:
    """Bytes of a model's files, through links."""
    if not folder.is_dir():
        return folder.stat().st_size if folder.exists() else 0
    return sum(path.stat().st_size for path in folder.iterdir() if path.is_file())
