"""Lists the files that make up a model, and checks, without loading weights, that none is missing.

A safetensors file begins with a list of its tensors, so an incomplete file is recognised at once:

    8 bytes: N | N bytes: JSON {"name": {"dtype", "shape", "data_offsets": [begin, end]}, …} | the tensors
"""

import re
import stat
from collections.abc import Iterable
from fnmatch import fnmatch
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from app.errors import ModelBroken
from app.models_registry.files.recognition import (
    FORM_FILES,
    INDEX,
    MODULES,
    SAFETENSORS,
    WHOLE,
    refuse_config,
    refuse_files,
)
from app.values.dataclass_json import parse_json
from app.values.draft_heads import is_draft_head
from app.values.model import CONFIG, LONGEST_CONFIG

MAX_SHARDS = 1_900
POOLING = "1_Pooling/config.json"
"""The file that says how a sentence-embedding model pools its vectors."""
MERGES = "merges.txt"
VOCABULARY = "vocab.json"
"""This file and MERGES together are a tokenizer."""
TOKENIZERS = ("tokenizer.json", "tokenizer.model", "spiece.model", "vocab.txt")
TEXTS = (
    *TOKENIZERS,
    VOCABULARY,
    MERGES,
    CONFIG,
    "generation_config.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template.*",
    MODULES,  # this and the next belong to sentence-embedding models
    "sentence_bert_config.json",
    *FORM_FILES,
)
EMPTY_END = "its last weights are all zeros, as after a download that was not finished"
BLOCK = 2**16
"""Number of bytes that are read at a time; usually one block shows that a file is complete."""
MAX_HEADER = 100_000_000
"""The largest header in bytes (N above) that the library safetensors reads."""
POINTER = b"version https://git-lfs"
"""The beginning of a file that stands for another file until Git LFS has fetched it."""
MORE_TEMPLATES = "additional_chat_templates"
"""A folder from which transformers reads chat templates."""
IN_FOLDERS = re.compile(rf"{POOLING}|{MORE_TEMPLATES}/\w[\w.-]{{0,100}}\.jinja", re.ASCII)
LONGEST = {
    CONFIG: LONGEST_CONFIG,
    "generation_config.json": 2_000_000,
    "*.jinja": 1_000_000,
    INDEX: 32_000_000,
}
"""Maximum bytes by file name; other text files may have MAX_TEXT_BYTES."""
MAX_TEXT_BYTES = 100_000_000


def needed_files(names: Iterable[str], shards: Iterable[str]) -> list[str]:
    """Return the files of a repository that are needed for loading: no pickles, no code, no second copies of
    weights.

    If a repository has both model.safetensors and shards, the app and transformers read model.safetensors.
    `shards` are the weight files that the index names."""
    names = list(names)
    weights = [WHOLE] if WHOLE in names else [INDEX, *shards]
    # fnmatch's * also matches slashes, but these files are at the top of their repository.
    texts = [name for name in names if "/" not in name and any(fnmatch(name, text) for text in TEXTS)]
    inside = (name for name in names if IN_FOLDERS.fullmatch(name) and (name != POOLING or MODULES in names))
    return [*texts, *weights, *inside]


def has_weights(names: Iterable[str]) -> bool:
    """Return whether there are safetensors weights among these files."""
    return not {WHOLE, INDEX}.isdisjoint(names)


def has_tokenizer(names: Iterable[str]) -> bool:
    """Return whether any of these files can be a tokenizer."""
    names = set(names)
    return not names.isdisjoint(TOKENIZERS) or {VOCABULARY, MERGES} <= names


def check_folder(folder: Path, name: str = "") -> None:
    """Raise a ModelError, with advice, if the files of this folder's model cannot be loaded."""
    more = folder / MORE_TEMPLATES
    try:
        for path in sorted([*folder.iterdir(), *(more.iterdir() if more.is_dir() else ())]):
            _check_readable(path)  # everything that transformers may open
        names = file_names(folder)
        refuse_files(names_below(folder), f"The folder {folder}")
        refuse_config(_read_object(folder / CONFIG), name or folder.name, names)
        if not has_tokenizer(names) and not is_draft_head(folder):  # a draft head has no tokenizer
            raise ModelBroken(f"The folder {folder} has no tokenizer: add the model's tokenizer.json.")
        for weights in weight_files(folder):
            _check_weights(weights)
    except OSError as error:
        raise ModelBroken(
            f"{error.filename or folder} cannot be read ({error.strerror}): check its permissions."
        ) from error


def _check_readable(path: Path) -> None:
    """Raise ModelBroken for a file that cannot be read to its end, such as a pipe or a text of gigabytes."""
    if not path.exists() or path.is_dir():  # a broken link is reported as missing by whatever needs the file
        return
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise ModelBroken(f"{path} is a pipe, a socket or a device: delete it, or choose another folder.")
    most = longest(path.name)
    if most:
        refuse_pointer(path)
    if most and status.st_size > most:
        raise ModelBroken(
            f"{path} is too large ({status.st_size:,} bytes; at most {most:,} are read): "
            f"get the model's own {path.name} again, or choose another model."
        )


def refuse_pointer(path: Path) -> None:
    """Raise ModelBroken if this is a pointer that Git LFS has not replaced by the file itself."""
    with path.open("rb") as file:
        if file.read(len(POINTER)) == POINTER:
            raise ModelBroken(
                f"{path} is only a pointer of Git LFS: run `git lfs pull` in its folder, or get the file itself."
            )


def longest(name: str) -> int:
    """Return the maximum number of bytes of a file of this name; 0 for a file that is not read as a whole."""
    known = next((most for pattern, most in LONGEST.items() if fnmatch(name, pattern)), 0)
    return known or (MAX_TEXT_BYTES if any(fnmatch(name, pattern) for pattern in TEXTS) else 0)


def is_complete(folder: Path) -> bool:
    """Return whether the config, the tokenizer and all weights exist. Raises ModelBroken for an invalid index."""
    names = file_names(folder)
    if CONFIG not in names or not (has_tokenizer(names) or is_draft_head(folder)):
        return False
    return (WHOLE in names or INDEX in names) and all(path.exists() for path in weight_files(folder))


def file_names(folder: Path) -> list[str]:
    """Return the names of the files in a folder, sorted; links to missing files do not count."""
    return sorted(path.name for path in folder.iterdir() if path.is_file())


def names_below(folder: Path) -> list[str]:
    """Return the names of the files in a folder and one level below it, or two levels if it has a config.json."""
    names = file_names(folder)
    below = ("*/*", "*/*/*") if CONFIG in names else ("*/*",)
    return [*names, *(path.relative_to(folder).as_posix() for one in below for path in folder.glob(one))]


def weight_files(folder: Path) -> list[Path]:
    """Return the safetensors files that transformers will read, also missing files. Raises ModelBroken, OSError."""
    if (folder / WHOLE).exists():
        return [folder / WHOLE]
    index = (folder / INDEX).read_bytes()
    return [folder / name for name in shard_names(index, str(folder / INDEX), "get this file again")]


def shard_names(index: bytes, where: str, advice: str) -> list[str]:
    """Return the weight files that an index names. Raises ModelBroken unless there are 1 to MAX_SHARDS."""
    try:
        listed = parse_json(index)["weight_map"]  # maps each tensor to its file
    except (ValueError, TypeError, LookupError):
        listed = {}
    names = list(listed.values()) if isinstance(listed, dict) else []
    if all(map(_is_weight_file, names)) and 0 < len(found := sorted(set(names))) <= MAX_SHARDS:
        return found
    raise ModelBroken(f"{where} lists no weight files of its folder: {advice}.")


def _is_weight_file(name: object) -> bool:
    """Return whether a value is the plain name of a safetensors file, without a path on any system."""
    if not isinstance(name, str) or not name.endswith(SAFETENSORS):
        return False
    return name.isprintable() and not any(sign in name for sign in "/\\:")


def _check_weights(path: Path) -> None:
    if not path.exists():
        raise ModelBroken(f"The weights are not complete: {path} is missing. Download this file again.")
    header_size, tensors = read_header(path)
    try:
        listed = [tensor for name, tensor in tensors.items() if name != "__metadata__"]
        ends = [tensor["data_offsets"][1] for tensor in listed]
        places = [(tensor["data_offsets"][0], len(tensor["shape"])) for tensor in listed]
        expected, actual = 8 + header_size + int(max(ends)), path.stat().st_size
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError) as error:
        raise _damaged(path, "it is not a safetensors file") from error
    if expected != actual:
        raise _damaged(path, f"it has {actual:,} bytes and its header promises {expected:,}")
    if is_end_empty(path, ((8 + header_size + begin, size) for begin, size in places)):
        raise _damaged(path, EMPTY_END)


def is_end_empty(path: Path, tensors: Iterable[tuple[int, int]]) -> bool:
    """Return whether a weight file has only zeros from the middle of its last matrix on.

    `tensors` are the offsets of its tensors, and their numbers of dimensions. Returns False if only the last matrix
    is zero, or if the file begins with zeros, because a complete file may have such weights."""
    placed = sorted(tensors)
    place = max((place for place, (_, dimensions) in enumerate(placed) if dimensions > 1), default=0)
    if not place:
        return False
    begin, (end, _) = placed[place][0], (placed[place + 1 :] or [(path.stat().st_size, 0)])[0]
    with path.open("rb") as file:
        first, before, head = (_block(file, at) for at in (placed[0][0], begin - BLOCK, begin))
        file.seek((begin + end) // 2)
        rest = iter(partial(file.read, BLOCK), b"")
        is_cut = any(head) or not any(before)
        return any(first) and is_cut and not any(block.strip(b"\0") for block in rest)


def _block(file: BinaryIO, begin: int) -> bytes:
    file.seek(max(0, begin))
    return file.read(BLOCK)


def read_header(path: Path) -> tuple[int, Any]:
    """Return the size in bytes of a safetensors file's header, and the parsed header. Raises ModelBroken."""
    refuse_pointer(path)
    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        if size > min(MAX_HEADER, path.stat().st_size):
            raise _damaged(path, "it is not a safetensors file")
        header = file.read(size)
    try:
        return size, parse_json(header)
    except ValueError as error:
        raise _damaged(path, "it is not a safetensors file") from error


def _read_object(path: Path) -> dict[str, Any]:
    try:
        found = parse_json(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise _damaged(path, "it is not valid JSON") from error
    if not isinstance(found, dict):
        raise _damaged(path, "it is not a JSON object")
    return found


def _damaged(path: Path, how: str) -> ModelBroken:
    # In the hub's cache the file is a link, and is fetched again only if the linked file is deleted.
    return ModelBroken(f"{path} is damaged: {how}. Delete {path.resolve()} and download it again.")
