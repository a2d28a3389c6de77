"""Makes a folder for a GGUF file, with the other files of a model: its config, tokenizer and chat template.

The folder is small and is cached. The GGUF file is not moved, copied or changed."""

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
import transformers

from app.engine.machine.hardware import dtype_name
from app.engine.text.sandbox import Sandbox, SandboxRefusal, unpack_here
from app.errors import ModelBroken, ModelTooLarge
from app.settings import assets_dir
from app.system.files import sync_file
from app.system.machine import ram
from app.values.gguf_header import GgufHeader, read_gguf_header
from app.values.gguf_words import check_vocabulary
from app.values.messages import ModelFolder, Progress
from app.values.model import gigabytes

KEPT = 20
"""Maximum number of folders in the cache; the oldest are removed first."""
KEY = re.compile(r"[0-9a-f]{32}")
"""Matches the names of folders in the cache."""
FORM = "6"
"""The version of the files in a folder. The names of folders depend on it."""


@contextmanager
def unpacked(
    folder: ModelFolder,
    cache: Path | None,
    progress: Progress = lambda *_: None,
    sandbox: Sandbox | None = None,
) -> Iterator[ModelFolder]:
    """Yield the model as a folder. Raises ModelBroken for a GGUF file that cannot be read.

    A GGUF file is unpacked into the cache unless that was done before; without a cache, into a temporary folder.
    Without a sandbox, the file is trusted and unpacked in this process."""
    if not folder.path.is_file():
        yield folder
    elif cache:
        yield _unpack(folder, cache, progress, sandbox)
    else:
        with TemporaryDirectory(prefix="foresight-") as temporary:
            yield _unpack(folder, Path(temporary), progress, sandbox)


def is_packed(folder: ModelFolder) -> bool:
    """Return whether this is a GGUF file with matrices that can stay packed. Raises ModelBroken."""
    return folder.path.is_file() and _header(folder).is_packed


def has_large_floats(folder: ModelFolder) -> bool:
    """Return whether a large matrix of a quantised model is stored as floats, as all embeddings are but those in
    GGUF files. Raises ModelBroken."""
    return not folder.path.is_file() or any(one.has_large_floats for one in _header(folder).tensors)


def check_memory(
    folder: ModelFolder,
    dtype: torch.dtype,
    keeps: bool = False,
    is_on_cpu: bool = True,
    quantises: bool = False,
) -> None:
    """Raise ModelTooLarge for a GGUF file whose weights do not fit the free memory.

    `keeps` says whether its matrices stay packed, and `quantises` whether dense weights are quantised. If the free
    memory is unknown, nothing is raised."""
    if not folder.path.is_file():
        return
    needed = _header(folder).bytes_in_memory(dtype.itemsize, keeps, is_on_cpu, quantises)
    free = ram().free
    if free and needed > free:
        form = f"in {dtype_name(dtype)}"
        if keeps or quantises:
            form = "with its weights packed as in the file" if keeps else "with quantised weights"
        raise ModelTooLarge(
            f"{folder.name} takes {gigabytes(needed)} of memory {form}, and {gigabytes(free)} are "
            "free: choose a smaller model or a lower precision, or close other programs."
        )


def _unpack(folder: ModelFolder, cache: Path, progress: Progress, sandbox: Sandbox | None) -> ModelFolder:
    file = folder.path.absolute()
    status = file.stat()
    parts = FORM, transformers.__version__, str(file.resolve()), str(status.st_size), str(status.st_mtime_ns)
    target = cache / sha256("\n".join(parts).encode("utf-8", "replace")).hexdigest()[:32]
    if not target.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=cache, prefix="unfinished-") as unfinished:
            made = Path(unfinished) / "model"
            _convert(folder, made, progress, sandbox)
            for written in filter(Path.is_file, made.rglob("*")):
                sync_file(written)  # after a power cut, an empty file would look like a complete one
            made.replace(target)
        folders = [path for path in cache.iterdir() if KEY.fullmatch(path.name)]
        for old in sorted(folders, key=lambda path: path.stat().st_mtime, reverse=True)[KEPT:]:
            shutil.rmtree(old, ignore_errors=True)
    return replace(folder, path=target, gguf=file)


def _convert(folder: ModelFolder, target: Path, progress: Progress, sandbox: Sandbox | None) -> None:
    def beat(seconds: float) -> None:
        progress(f"Unpacking {folder.name}, {seconds:.0f} s", 0, 0)

    # checked here first, because this check's message says what to do
    check_vocabulary(_header(folder).values, folder.name, assets_dir())
    try:
        (sandbox.unpack if sandbox else unpack_here)(folder.path.absolute(), target.absolute(), beat)
    except SandboxRefusal as refused:
        raise ModelBroken(
            f"The GGUF file of {folder.name} cannot be read ({refused}): choose the same model in safetensors, or "
            "another one."
        ) from refused


def _header(folder: ModelFolder) -> GgufHeader:
    try:
        return read_gguf_header(folder.path)
    except (ValueError, OSError) as error:
        raise ModelBroken(f"The GGUF file {folder.path} is damaged: {error}. Download it again.") from error
