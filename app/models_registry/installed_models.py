"""Lists, checks and deletes models on this machine: in the hub's cache, in the user's and other programs' folders.

Every model is checked by its files, without torch; a model that cannot be loaded is listed with the reason. Files
of other programs (GGUF files of LM Studio, Ollama and llama.cpp) are never changed or deleted.
"""

import re
import shutil
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from app.errors import ModelBroken, ModelError, ModelNotFound, ModelUnsafe, OnlyDrafts
from app.models_registry.downloads.repo_cache import PARTIAL
from app.models_registry.files.checksum import file_digest
from app.models_registry.files.gguf_checks import check_gguf, gguf_files
from app.models_registry.files.model_files import POOLING, check_folder, is_complete, names_below
from app.models_registry.files.recognition import is_of_other_kind
from app.models_registry.files.weights import check_model
from app.models_registry.hub.download_plan import DIGEST_PATTERN
from app.models_registry.hub.hub import PREFIX, Hub
from app.settings import DEMO_MODEL, assets_dir
from app.values.dataclass_json import parse_json
from app.values.gguf_header import parts_of
from app.values.model import CONFIG, InstalledModel, InstalledState, ModelOrigin

FOLDERS: tuple[tuple[str, ModelOrigin, int], ...] = (
    (".lmstudio/models", "lm-studio", 2),
    (".cache/lm-studio/models", "lm-studio", 2),
    (".cache/llama.cpp", "llama.cpp", 1),
    ("Library/Caches/llama.cpp", "llama.cpp", 1),
    ("AppData/Local/llama.cpp", "llama.cpp", 1),
)
"""Folders of GGUF files below the user's home, the program that has them, and how deep the files are."""
OLLAMA = ".ollama/models"
OLLAMA_SERVICE = Path("/usr/share/ollama/.ollama/models")
"""The folder of Ollama's models if it runs as a system service."""
OLLAMA_LIBRARY = ("registry.ollama.ai", "library")
"""The default registry and namespace, which Ollama leaves out of a model's name."""
MODEL_LAYER = "application/vnd.ollama.image.model"
OLLAMA_DIGEST = re.compile(r"sha256:([0-9a-f]{64})")
LONGEST_MANIFEST = 1_000_000


def installed(hub: Hub, folders: Iterable[Path] = (), home: Path | None = None) -> list[InstalledModel]:
    """List all models on this machine: the demo model first, then by name. Sends no request.

    Models of other programs are searched for in `home`, by default the user's home folder, and in the folder of
    Ollama's system service."""
    demo = _checked_model(DEMO_MODEL, assets_dir() / "demo-model", "demo")
    found = [*_in_cache(hub.root), *(model for folder in folders for model in _in_folder(folder))]
    for name, path, origin in models_of_other_apps(home or Path.home()):
        # A folder of another program may be among `folders`, and Ollama has several names for a file.
        if all(path != one.path for one in found):
            found.append(_checked_model(name, path, origin))
    return [demo, *sorted(found, key=lambda model: model.name.lower())]


def find_installed(name: str, hub: Hub, folders: Iterable[Path] = ()) -> InstalledModel:
    """Return the installed model of this name, or name@revision. If there are several, prefers a complete model.

    Raises ModelNotFound."""
    repo, _, revision = name.partition("@")
    named = [model for model in installed(hub, folders) if model.name == repo]
    found = [model for model in named if not revision or model.revision.startswith(revision)]
    if found:
        return min(found, key=lambda model: model.state == "incomplete")
    raise ModelNotFound(f"{name} is not installed: `python run.py models list` shows the installed models.")


def _in_cache(root: Path) -> Iterator[InstalledModel]:
    for folder in sorted(root.glob(PREFIX + "*")):
        if not folder.is_dir():
            continue
        name = folder.name.removeprefix(PREFIX).replace("--", "/")
        revisions = [
            path for path in sorted(folder.glob("snapshots/*")) if path.is_dir() and any(path.iterdir())
        ]
        for revision in revisions:
            # Datasets have another prefix. A tokenizer alone, or an image model, is listed with its problem.
            ggufs = gguf_files(revision, depth=1)
            if (revision / CONFIG).exists() or not ggufs:
                yield _checked_model(name, revision, "hub", revision.name)
            for file in ggufs:
                yield _checked_model(name_of(file), file, "hub-gguf")
        if not revisions:
            problem = "It has no files: delete it, or download it again."
            if any(folder.glob("blobs/*" + PARTIAL)):
                problem = "Its download is not finished: resume it, or delete it."
            yield InstalledModel(name, folder, "hub", disk_size(folder), state="incomplete", problem=problem)


def _in_folder(folder: Path) -> Iterator[InstalledModel]:
    """Yield the models in this folder or right below it, and GGUF files up to two levels below it."""
    with suppress(OSError):  # a folder that cannot be read has no models
        folders = [folder] if (folder / CONFIG).exists() else sorted(folder.iterdir())
        for one in folders:
            if (one / CONFIG).exists():
                yield _checked_model(one.name, one, "folder")
        for file in gguf_files(folder, depth=2):
            yield _checked_model(name_of(file), file, "folder")


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
    """Return whether all files of a model exist, valid or not. Also returns True for files of another program, and
    if this cannot be found out."""
    try:
        if folder.is_file():
            return all(part.exists() for part in parts_of(folder))
        return is_complete(folder) or is_of_other_kind(names_below(folder))
    except (ModelBroken, OSError):
        return True


def model_size(folder: Path) -> int:
    """Return the bytes of a model's files, without subfolders. A link counts as the file to which it leads."""
    if not folder.is_dir():
        return sum(part.stat().st_size for part in parts_of(folder) if part.exists())
    return sum(path.stat().st_size for path in folder.iterdir() if path.is_file())


def models_of_other_apps(home: Path) -> Iterator[tuple[str, Path, ModelOrigin]]:
    """Yield the name, the file and the origin of each GGUF model that another program has."""
    for below, origin, depth in FOLDERS:
        with suppress(OSError):  # the program is not installed, or its folder cannot be read
            for path in gguf_files(home / below, depth):
                yield name_of(path), path, origin
    for folder in (home / OLLAMA, OLLAMA_SERVICE):
        for name, path in ollama_models(folder):
            yield name, path, "ollama"


def ollama_models(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield the name and the file of each model in an Ollama store, as its manifests list them."""
    manifests = folder / "manifests"
    with suppress(OSError):
        for manifest in sorted(path for path in manifests.glob("*/*/*/*") if path.is_file()):
            if digest := _weights_digest(manifest):
                *source, model, tag = manifest.relative_to(manifests).parts
                name = "/".join([*([] if tuple(source) == OLLAMA_LIBRARY else source), f"{model}:{tag}"])
                yield name, folder / "blobs" / f"sha256-{digest}"


def _weights_digest(manifest: Path) -> str:
    """Return the checksum of the weights that a manifest names; "" if the manifest is invalid."""
    if manifest.stat().st_size > LONGEST_MANIFEST:
        return ""
    try:
        layers = parse_json(manifest.read_bytes())["layers"]
        digests = [layer["digest"] for layer in layers if layer["mediaType"] == MODEL_LAYER]
        found = OLLAMA_DIGEST.fullmatch(digests[0])
    except (ValueError, LookupError, TypeError):
        return ""
    return found[1] if found else ""


def name_of(path: Path) -> str:
    """Return a GGUF file's name in Ollama, or else its stem, which follows the repository's name if the file is in
    the hub's cache."""
    if path.parent.name == "blobs":
        names = (name for name, file in ollama_models(path.parent.parent) if file.name == path.name)
        if name := next(names, ""):
            return name
    repos = [one.name.removeprefix(PREFIX) for one in path.parents if one.name.startswith(PREFIX)]
    return "/".join([*(repo.replace("--", "/") for repo in repos[:1]), path.stem])


def hub_name(model: InstalledModel) -> str:
    """Return the name by which a model in the hub's cache is downloaded; "" for other models."""
    if model.origin != "hub-gguf":
        return model.name if model.origin == "hub" else ""
    folder = _repo_folder(model.path)
    file = Path(*model.path.relative_to(folder).parts[2:]).as_posix()
    return f"{folder.name.removeprefix(PREFIX).replace('--', '/')}:{file}"


def _repo_folder(path: Path) -> Path:
    """Return the folder of the repository in the hub's cache to which this path belongs."""
    return next(folder for folder in (path, *path.parents) if folder.name.startswith(PREFIX))


def delete(model: InstalledModel) -> int:
    """Delete a model of the hub's cache and return the freed bytes.

    Raises ModelError if the model is not in the hub's cache or cannot be deleted."""
    if model.origin == "demo":
        raise ModelError("The demo model ships with the app and stays: choose another one.")
    if model.origin == "folder":
        raise ModelError(
            f"{model.name} is in a folder of yours, and Foresight deletes nothing there. "
            f"Delete {model.path} yourself."
        )
    if model.origin not in ("hub", "hub-gguf"):
        raise ModelError(
            f"{model.name} belongs to another program, and Foresight does not delete it: delete it there "
            f"({model.path})."
        )
    folder = _repo_folder(model.path)
    before = disk_size(folder)
    try:
        _delete_files(folder, model)
    except OSError as error:
        raise ModelError(
            f"{model.name} could not be deleted ({error.strerror}): close programs that use it, and check the "
            f"permissions of {folder}."
        ) from error
    return before - disk_size(folder)


def _delete_files(folder: Path, model: InstalledModel) -> None:
    blobs = _own_blobs(model)
    if model.origin == "hub-gguf":
        for part in parts_of(model.path):
            part.unlink(missing_ok=True)
        for above in (path for path in model.path.parents if path.is_relative_to(folder / "snapshots")):
            if not any(above.iterdir()):
                above.rmdir()
    elif model.revision:
        shutil.rmtree(model.path)
        for ref in folder.glob("refs/**/*"):
            if ref.is_file() and ref.read_text(encoding="utf-8").strip() == model.path.name:
                ref.unlink()
    else:
        shutil.rmtree(folder)
    for blob in blobs:
        blob.unlink()
    if folder.exists() and not any(folder.glob("snapshots/*")):
        shutil.rmtree(folder)  # files that no revision uses, such as unfinished downloads


def freed_by(model: InstalledModel) -> int:
    """Return the minimum number of bytes that deleting this model would free."""
    if model.origin not in ("hub", "hub-gguf"):
        return 0
    # A cache without links keeps the bytes in the snapshot; without a snapshot the path is the whole folder.
    in_snapshot = disk_size(model.path) if model.path.is_dir() else 0
    return in_snapshot + sum(path.stat().st_size for path in _own_blobs(model))


def _own_blobs(model: InstalledModel) -> set[Path]:
    """Return the blobs to which only this model's revision, or only its GGUF file, links."""
    if not model.path.is_dir():
        snapshot = next(path for path in model.path.parents if path.parent.name == "snapshots")
        mine = set(parts_of(model.path))
    elif model.revision:
        snapshot, mine = model.path, set(model.path.rglob("*"))
    else:
        return set()
    linked = {path.resolve() for path in snapshot.parent.glob("*/**/*") if path not in mine}
    own = {path.resolve() for path in mine if path.is_symlink() and path.exists()}
    return {path for path in own - linked if path.parent == snapshot.parent.parent / "blobs"}


def disk_size(folder: Path) -> int:
    """Return the bytes on the disk below a folder; links count as 0."""
    paths = folder.rglob("*") if folder.exists() else iter(())
    return sum(path.lstat().st_size for path in paths if path.is_file() and not path.is_symlink())


def verify(model: InstalledModel) -> list[str]:
    """Check a model's files and their checksums. Returns a sentence for each file whose checksum is wrong.

    Only files in the hub's cache have checksums, in their names. Raises ModelError for invalid files."""
    if model.path.is_file():
        check_gguf(model.path, model.name)
        folder, paths = model.path.parent, parts_of(model.path)
    else:
        check_folder(model.path)
        folder, paths = model.path, sorted((*model.path.iterdir(), model.path / POOLING))
    files = [(path, path.resolve()) for path in paths if path.is_file()]
    return [
        f"{path.relative_to(folder).as_posix()} is damaged (its checksum is wrong): delete {file} and download the "
        "model again."
        for path, file in files
        if DIGEST_PATTERN.fullmatch(file.name) and file_digest(file, file.name) != file.name
    ]


def has_checksums(model: InstalledModel) -> bool:
    """Return whether any file of the model has a known checksum."""
    paths = model.path.iterdir() if model.path.is_dir() else [model.path]
    return any(DIGEST_PATTERN.fullmatch(path.resolve().name) for path in paths)
