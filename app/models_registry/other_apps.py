"""GGUF models that other programs have on this machine. They are listed and loaded, and never changed or deleted.

LM Studio    ~/.lmstudio/models/publisher/model/file.gguf
Ollama       ~/.ollama/models/manifests/registry.ollama.ai/library/name/tag -> blobs/sha256-…
llama.cpp    ~/.cache/llama.cpp/file.gguf, on macOS ~/Library/Caches/llama.cpp
"""

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from app.models_registry.files.gguf import gguf_files
from app.models_registry.hub.hub import PREFIX
from app.values.dataclass_json import parse_json
from app.values.model import ModelOrigin

LM_STUDIO = (".lmstudio/models", ".cache/lm-studio/models")
LLAMA_CPP = (".cache/llama.cpp", "Library/Caches/llama.cpp", "AppData/Local/llama.cpp")
OLLAMA = (".ollama/models",)
OLLAMA_SERVICE = Path("/usr/share/ollama/.ollama/models")
"""Where it keeps models when the system runs it."""
OLLAMA_LIBRARY = ("registry.ollama.ai", "library")
"""What Ollama leaves out of a model's name."""
MODEL_LAYER = "application/vnd.ollama.image.model"
DIGEST = re.compile(r"sha256:([0-9a-f]{64})")
LONGEST_MANIFEST = 1_000_000


@dataclass(frozen=True, slots=True)
class FoundModel:
    """A GGUF file of another program."""

    name: str
    path: Path
    origin: ModelOrigin


def models_of_other_apps(home: Path) -> Iterator[FoundModel]:
    """All of them; nothing for a program that is not here or whose folder cannot be read."""
    for place in LM_STUDIO:
        yield from _files(home / place, "lm-studio", depth=2)
    for place in LLAMA_CPP:
        yield from _files(home / place, "llama.cpp", depth=1)
    for folder in (*(home / place for place in OLLAMA), OLLAMA_SERVICE):
        yield from ollama_models(folder)


def ollama_models(folder: Path) -> Iterator[FoundModel]:
    """The models of an Ollama store, by their manifests."""
    with suppress(OSError):
        for manifest in sorted(path for path in (folder / "manifests").glob("*/*/*/*") if path.is_file()):
            if digest := _weights_digest(manifest):
                *place, model, tag = manifest.relative_to(folder / "manifests").parts
                name = "/".join([*([] if tuple(place) == OLLAMA_LIBRARY else place), f"{model}:{tag}"])
                yield FoundModel(name, folder / "blobs" / f"sha256-{digest}", "ollama")


def name_of(path: Path) -> str:
    """A person's name for a GGUF file: Ollama's, or the file's own; in the hub's cache with the repository."""
    if path.parent.name == "blobs":
        found = (one.name for one in ollama_models(path.parent.parent) if one.path.name == path.name)
        if name := next(found, ""):
            return name
    repos = [one.name.removeprefix(PREFIX) for one in path.parents if one.name.startswith(PREFIX)]
    return "/".join([*(repo.replace("--", "/") for repo in repos[:1]), path.stem])


def _files(folder: Path, origin: ModelOrigin, depth: int) -> Iterator[FoundModel]:
    with suppress(OSError):
        for path in gguf_files(folder, depth):
            yield FoundModel(name_of(path), path, origin)


def _weights_digest(manifest: Path) -> str:
    """The checksum of the weights that a manifest names; "" where it makes no sense."""
    if manifest.stat().st_size > LONGEST_MANIFEST:
        return ""
    try:
        layers = parse_json(manifest.read_bytes())["layers"]
        digests = [layer["digest"] for layer in layers if layer["mediaType"] == MODEL_LAYER]
        found = DIGEST.fullmatch(digests[0])
    except (ValueError, LookupError, TypeError):
        return ""
    return found[1] if found else ""
