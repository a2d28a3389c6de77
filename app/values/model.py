"""Values about models that layers exchange: installed and remote models, whether they fit, and downloads."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from app.values.gguf_header import packing_of
from app.values.quantisation_sizes import Quantisation, kept_words
from app.values.validation import require, require_one_of

Precision = Literal["float32", "bfloat16", "float16", "int8", "int4"]
"""The type of a model's weights in memory."""
DownloadState = Literal["queued", "running", "paused", "failed", "done"]
"""The state of a download. A cancelled download is forgotten."""
InstalledState = Literal["ready", "incomplete", "unusable", "draft head"]
"""The state of an installed model. A draft head is not a model, because it can only draft for a model."""
ModelOrigin = Literal["demo", "hub", "folder", "hub-gguf", "lm-studio", "ollama", "llama.cpp"]
"""Where an installed model is stored: in the app, in the hub's cache, in a user's folder, or by another program."""
Verdict = Literal["fits", "fits with int4", "too big"]
Use = Literal["chat", "code", "reasoning", "comparison"]
"""The purpose of a model of the catalogue; "comparison" is for models that papers measured."""
Kind = Literal["dense", "hybrid", "mixture"]
"""dense: all weights serve every token; hybrid: some layers are recurrent; mixture: a token uses some experts."""
CONFIG = "config.json"
LONGEST_CONFIG = 2_000_000
"""Bytes of the largest accepted config.json, which comes from strangers and is not trusted."""
LARGEST_SIZES = {
    "num_hidden_layers": 2_000, "hidden_size": 200_000, "intermediate_size": 2_000_000,
    "num_attention_heads": 10_000, "num_key_value_heads": 10_000, "head_dim": 20_000, "vocab_size": 20_000_000,
    "max_position_embeddings": 100_000_000,
}  # fmt: skip
"""The largest accepted sizes in a config.json, far above those of any model."""
DISK_RESERVE = 200_000_000
"""Bytes that a download leaves free on the disk."""
USUALLY_FREE = 0.8
"""The share of a device's memory that other programs usually leave."""
PREFIX_SHARE = 0.05
"""The share of free memory that the cached prefixes of other conversations may take."""
USABLE = 0.95 - PREFIX_SHARE
"""The share of the free memory that a model may take. As much as for cached prefixes stays free in addition."""
USUAL_CONTEXT = 4096
"""The context in tokens for which the memory of models is estimated by default."""
KEPT_STATES = 4
"""How many earlier states of recurrent layers are kept. The KV cache can be rewound to the position of each."""
UNKNOWN_CONTEXT = 32_768
"""The assumed context in tokens of a model whose config names no limit, such as a recurrent model."""
COPIED = 10e9
"""The assumed speed, in bytes per second, at which a GPU reads main memory; PCIe 4 reaches 25 GB/s."""


@dataclass(frozen=True, slots=True)
class FileProgress:
    """One file of a download: its size, and how many bytes are downloaded."""

    name: str
    size: int
    done: int = 0

    def __post_init__(self) -> None:
        require(0 <= self.done <= self.size, f"done must be from 0 to {self.size}", self.done)


def best_gguf(files: Sequence[FileProgress], disk: int, memory: int) -> str:
    """Return the largest file that fits the free bytes of disk and memory, because larger files round less.

    Files of 16 or 32 bits are returned only if there are no others. If no file fits the memory, returns the
    smallest file that fits the disk, else ""."""
    storable = [file for file in files if file.size + DISK_RESERVE <= disk]
    packed = [file for file in storable if not packing_of(file.name).endswith(("F16", "F32"))] or storable
    fitting = [file for file in packed if file.size <= memory]
    ranked = sorted(fitting or packed, key=lambda file: file.size, reverse=bool(fitting))
    return ranked[0].name if ranked else ""


@dataclass(frozen=True, slots=True)
class Download:
    """The state of a download at one moment.

    `name` is org/name or org/name@revision, and identifies the download. `speed` is in bytes per second over the
    last seconds. `note` is a sentence, such as why it failed, or that it will be retried. `asks_token` is
    whether the hub requires a login. `page` is the model's page on the hub."""

    name: str
    state: DownloadState = "queued"
    files: tuple[FileProgress, ...] = ()
    speed: float = 0.0
    note: str = ""
    asks_token: bool = False
    page: str = ""
    folder: Path | None = None

    def __post_init__(self) -> None:
        require_one_of(DownloadState, "state", self.state)

    @property
    def size(self) -> int:
        """The size of all files in bytes; 0 until the files are known."""
        return sum(file.size for file in self.files)

    @property
    def done(self) -> int:
        return sum(file.done for file in self.files)

    @property
    def seconds_left(self) -> float | None:
        """Seconds left at the present speed; None if they are unknown."""
        if self.state != "running" or not self.speed or not self.size:
            return None
        return (self.size - self.done) / self.speed


@dataclass(frozen=True, slots=True)
class Memory:
    """The memory of a device in bytes. With `is_usual`, `free` is the part that other programs usually leave."""

    device: str
    free: int
    total: int
    is_usual: bool = False

    def __post_init__(self) -> None:
        require(0 <= self.free <= self.total, f"free memory must be from 0 to {self.total}", self.free)

    @property
    def usual(self) -> "Memory":
        """The device's memory with the usually free part as `free`, so that advice does not change from minute to
        minute."""
        return replace(self, free=int(self.total * USUALLY_FREE), is_usual=True)

    @property
    def usable(self) -> int:
        """How many bytes a model may take."""
        return int(self.free * USABLE)

    def limit_words(self, need: int) -> str:
        """Return words about the usable part if only because of it `need` bytes are too many, else ""."""
        shown = self.total if self.is_usual else self.free
        return f", of which a model may use {gigabytes(self.usable)}" if self.usable < need <= shown else ""

    @property
    def words(self) -> str:
        """The memory in words: "8.00 GB free", or "16 GB in this machine"."""
        where = "this machine" if self.device == "cpu" else self.device
        return f"{gigabytes(self.total)} in {where}" if self.is_usual else f"{gigabytes(self.free)} free"


@dataclass(frozen=True, slots=True)
class MemoryNeed:
    """The memory that a model needs while it decodes, in bytes."""

    weights: int
    cache: int
    rows: int
    runtime: int

    @property
    def total(self) -> int:
        return self.weights + self.cache + self.rows + self.runtime


@dataclass(frozen=True, slots=True)
class RowPrice:
    """The memory of one row of a step, in bytes: its logits, and its keys and values."""

    logits: int
    cache: int


@dataclass(frozen=True, slots=True)
class Fit:
    """Whether a model fits a device, estimated from its config and its file headers alone.

    `longest_context` is how many tokens fit at this precision, 0 if the weights do not fit; `peak` is the largest
    resident size in bytes of a process with the model. `room` is how many bytes of the device its weights may take.
    `offloaded` is how many bytes of weights stay in main memory if a GPU is too small, 0 if that is not needed or
    not possible. `note` is a sentence about parts of the model that are not read, or "". `kept_bits` is the mean
    number of bits of a weight if weights stay packed as in their file, else 0."""

    need: MemoryNeed
    memory: Memory
    precision: Precision
    context: int
    longest_context: int
    verdict: Verdict
    sentence: str
    peak: int = 0
    room: int = 0
    offloaded: int = 0
    note: str = ""
    kept_bits: float = 0.0

    @property
    def form(self) -> str:
        """The type or quantisation of the weights in memory, in words."""
        return kept_words(self.kept_bits) if self.kept_bits else self.precision

    @property
    def quantisation(self) -> Quantisation:
        """The quantisation for which the memory was estimated."""
        return self.precision if self.precision == "int8" or self.precision == "int4" else "none"


@dataclass(frozen=True, slots=True)
class InstalledModel:
    """A model on this machine. `path` is a folder or a GGUF file.

    `problem` explains why it cannot be used; `size` is in bytes on disk."""

    name: str
    path: Path
    origin: ModelOrigin
    size: int
    revision: str = ""
    state: InstalledState = "ready"
    problem: str = ""


@dataclass(frozen=True, slots=True)
class DraftModels:
    """The installed models that can draft for a model. `known` is the hub id of a recommended draft model."""

    installed: tuple[InstalledModel, ...] = ()
    known: str = ""


@dataclass(frozen=True, slots=True)
class CatalogueEntry:
    """A recommended model. `size` is its download in bytes, `context` is in tokens, `is_first` marks a good
    first model, and `wng` are the recommended W, N and G of lookahead. `source` is the public page that
    names the model, read on the day `checked`."""

    repo: str
    family: str
    parameters: int
    size: int
    context: int
    licence: str
    use: Use
    good_for: str
    is_gated: bool = False
    is_first: bool = False
    kind: Kind = "dense"
    source: str = ""
    checked: str = ""
    wng: tuple[int, int, int] = (15, 5, 15)

    def __post_init__(self) -> None:
        require(self.repo.count("/") == 1, "repo must be org/name", self.repo)
        require_one_of(Use, "use", self.use)
        require_one_of(Kind, "kind", self.kind)
        for name in ("parameters", "size", "context"):
            require(getattr(self, name) > 0, f"{name} must be above 0", getattr(self, name))
        require(len(self.wng) == 3 and min(self.wng) > 0, "wng must be three numbers above 0", self.wng)

    def matches(self, words: str) -> bool:
        """Return whether the entry's description contains all of these words."""
        description = f"{self.repo} {self.family} {self.use} {self.good_for}".lower()
        return all(word in description for word in words.lower().split())


@dataclass(frozen=True, slots=True)
class Recommendation:
    """An entry of the catalogue, and whether it fits this machine with automatic settings."""

    entry: CatalogueEntry
    fit: Fit


@dataclass(frozen=True, slots=True)
class FolderContents:
    """The models in a folder (folders and GGUF files), and its other folders; `parent` is None at the top."""

    folder: Path
    parent: Path | None
    models: tuple[Path, ...] = ()
    folders: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True)
class DiskUse:
    """The disk of the models' folder: `free` of `total` bytes."""

    folder: Path
    free: int
    total: int


@dataclass(frozen=True, slots=True)
class SearchHit:
    """A model that a search found on the hub."""

    repo: str
    downloads: int = 0
    likes: int = 0
    is_gated: bool = False


@dataclass(frozen=True, slots=True)
class RemoteModel:
    """A model on the hub that is not downloaded. `size` is the download's size in bytes.

    `ggufs` are the files to choose from if the repository has no other weights; the smallest first."""

    repo: str
    commit: str
    size: int
    files: tuple[FileProgress, ...]
    is_gated: bool = False
    licence: str = ""
    downloads: int = 0
    architecture: str = ""
    parameters: int = 0
    context: int = 0
    fit: Fit | None = None
    problems: tuple[str, ...] = ()
    ggufs: tuple[FileProgress, ...] = ()


def copying_words(offloaded: int) -> str:
    """Return words about the time that `offloaded` bytes of weights in main memory cost in each step."""
    return (
        f"{gigabytes(offloaded)} of its weights stay in main memory and are copied to the GPU in each step, which "
        f"takes about {max(offloaded / COPIED, 0.1):.1f} s (at {gigabytes(COPIED)} a second)"
    )


def gigabytes(count: float) -> str:
    """Return a number of bytes in words: "1.25 GB", "310 MB", "12 kB"."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size * 0.9995:
            value = count / size
            return f"{value:.2f} {unit}" if value < 10 else f"{value:.0f} {unit}"
    return f"{count:.0f} bytes"


def parameters_label(count: int) -> str:
    """Return a number of parameters as in models' names: "260K", "7.3M", "1.5B"."""
    for unit, letter in ((10**9, "B"), (10**6, "M"), (10**3, "K")):
        if count >= 0.9995 * unit:  # from here on, the smaller unit would be rounded to 1000
            size = f"{count / unit:.1f}" if count < 10 * unit else f"{count / unit:.0f}"
            return f"{size.removesuffix('.0')}{letter}"
    return str(count)
