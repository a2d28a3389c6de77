"""Reads the header of a GGUF file, without torch. The file comes from strangers and is not trusted.

    "GGUF" | version | counts | (key, type, value)… | (name, sizes, type, offset)… | tensors

A GgufHeader contains the length of a list in place of each list of strings and each long list of numbers.
"""

import re
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from io import BufferedReader
from math import prod
from pathlib import Path
from typing import Any

from app.errors import ModelBroken
from app.values.quantisation_sizes import is_large_matrix

MAGIC = b"GGUF"
VERSIONS = (2, 3)
MOST_TENSORS, MOST_VALUES, MOST_PARTS = 200_000, 10_000, 1_000
MOST_ENTRIES = 4_000_000
"""Maximum number of entries of all lists together. Large vocabularies have 300,000 tokens, each with a type, a
score and merges."""
LONGEST_TEXT = 4_000_000
"""Maximum bytes of one string; chat templates have thousands."""
KEPT_ENTRIES = 1_024
"""Lists of numbers with more entries are replaced by their length. Lists with an entry for each layer are
shorter."""
ALIGNMENT = 32
EMBEDDING, HEAD = "token_embd.weight", "output.weight"
STACK = "_exps."
"""A part of the names of tensors in which the matrices of all experts are stacked."""
PART = re.compile(r"(.+)-(\d{5})-of-(\d{5})\.gguf", re.IGNORECASE)
"""The names that llama.cpp gives to the parts of a split file."""
QUANTISATION = re.compile(r"(?:^|[-._])((?:I?Q|TQ)\d\w*|MXFP4\w*|BF16|F16|F32)$", re.IGNORECASE)
"""The part of a file's name, before its suffix, that names its quantisation."""
NEWEST_TYPE = 255
"""The largest number that counts as a newer type or version; larger numbers count as damage. Known types are below
50."""
TEXT, LIST = 8, 9
NUMBERS = {
    0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d",
}  # fmt: skip
BLOCKS: Mapping[int, tuple[str, int, int]] = {
    0: ("F32", 1, 4), 1: ("F16", 1, 2), 2: ("Q4_0", 32, 18), 3: ("Q4_1", 32, 20), 6: ("Q5_0", 32, 22),
    7: ("Q5_1", 32, 24), 8: ("Q8_0", 32, 34), 9: ("Q8_1", 32, 40), 10: ("Q2_K", 256, 84), 11: ("Q3_K", 256, 110),
    12: ("Q4_K", 256, 144), 13: ("Q5_K", 256, 176), 14: ("Q6_K", 256, 210), 15: ("Q8_K", 256, 292),
    16: ("IQ2_XXS", 256, 66), 17: ("IQ2_XS", 256, 74), 18: ("IQ3_XXS", 256, 98), 19: ("IQ1_S", 256, 50),
    20: ("IQ4_NL", 32, 18), 21: ("IQ3_S", 256, 110), 22: ("IQ2_S", 256, 82), 23: ("IQ4_XS", 256, 136),
    24: ("I8", 1, 1), 25: ("I16", 1, 2), 26: ("I32", 1, 4), 27: ("I64", 1, 8), 28: ("F64", 1, 8),
    29: ("IQ1_M", 256, 56), 30: ("BF16", 1, 2), 34: ("TQ1_0", 256, 54), 35: ("TQ2_0", 256, 66),
    39: ("MXFP4", 32, 17),
}  # fmt: skip
"""The types of tensors: each type's name, and how many numbers and how many bytes one block has."""
KEPT_BITS: Mapping[str, float] = {
    "Q4_0": 4.5, "Q4_1": 5.0, "Q5_0": 5.5, "Q5_1": 6.0, "Q8_0": 8.5, "Q2_K": 3.125, "Q3_K": 3.5625, "Q4_K": 4.625,
    "Q5_K": 5.625, "Q6_K": 6.5625, "IQ4_NL": 4.5, "IQ4_XS": 4.3125, "IQ3_S": 4.3125,
    "IQ3_XXS": 4.375, "IQ2_S": 3.625, "IQ2_XS": 3.625, "IQ2_XXS": 3.375, "IQ1_M": 3.625, "IQ1_S": 3.375,
    "TQ1_0": 2.0625, "TQ2_0": 2.0625, "MXFP4": 5.0,
}  # fmt: skip
"""The types of matrices that can stay packed, and their bits per number in a CPU's memory, with scales. Numbers of
types IQ1 and IQ2 take 3 bits, those of IQ3 take 4, and those of TQ1_0 take 2."""


def kept_bits(name: str, stored: str, shape: tuple[int, ...], is_on_cpu: bool) -> float:
    """Return the bits per number of this tensor if the tensor can stay packed, else 0.0.

    The matrices of experts, which are stacked in one tensor, stay packed on a CPU only."""
    is_stack = is_on_cpu and len(shape) == 3 and STACK in name
    return KEPT_BITS.get(stored, 0.0) if len(shape) == 2 or is_stack else 0.0


@dataclass(frozen=True, slots=True)
class GgufTensor:
    """One tensor: its type (`stored`), its shape in torch's order, and the offset and size of its bytes."""

    name: str
    stored: str
    shape: tuple[int, ...]
    begin: int
    size: int
    file: Path = Path()

    @property
    def numbers(self) -> int:
        return prod(self.shape)

    @property
    def has_large_floats(self) -> bool:
        """Whether this is a large matrix that cannot stay packed."""
        return is_large_matrix(self.shape) and self.stored not in KEPT_BITS


@dataclass(frozen=True, slots=True)
class GgufHeader:
    """The values and the tensors of a file. `size` is the least number of bytes that the file must have."""

    values: Mapping[str, Any]
    tensors: tuple[GgufTensor, ...]
    size: int

    @property
    def architecture(self) -> str:
        """The name that llama.cpp gives the model's architecture."""
        return str(self.values.get("general.architecture", ""))[:60]

    @property
    def is_packed(self) -> bool:
        """Whether any matrix has a type that can stay packed."""
        return any(kept_bits(one.name, one.stored, one.shape, is_on_cpu=True) for one in self.tensors)

    @property
    def numbers(self) -> int:
        return sum(tensor.numbers for tensor in self.tensors)

    def bytes_in_memory(
        self, itemsize: int, keeps: bool, is_on_cpu: bool = True, quantises: bool = False
    ) -> int:
        """Return the bytes of all tensors in memory. With `keeps`, matrices that can stay packed do so.

        If a load `quantises`, other matrices take 8 bits a number, but with `keeps` only the large ones."""

        def bits(one: GgufTensor) -> float:
            kept = kept_bits(one.name, one.stored, one.shape, is_on_cpu) if keeps else 0.0
            is_quantised = quantises and (one.has_large_floats if keeps else len(one.shape) == 2)
            return kept or (8 if is_quantised else 8 * itemsize)

        return sum(int(one.numbers * bits(one) / 8) for one in self.tensors)

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of a tensor, () if it does not exist; "#" in `name` matches any layer's number."""
        form = re.compile(re.escape(name).replace("\\#", r"\d+"))
        found = (one.shape for one in self.tensors if form.fullmatch(one.name))
        return next(found, ())

    def value(self, key: str) -> Any:
        """Return the value of this key for the file's architecture; None if the file does not have it."""
        return self.values.get(f"{self.architecture}.{key}")


def is_gguf(path: Path) -> bool:
    """Return whether this file begins with GGUF's magic bytes; False if it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


def parts_of(path: Path) -> list[Path]:
    """Return the files of the model that this file belongs to, existing or not; the first has the values."""
    part = PART.fullmatch(path.name)
    count = int(part[3]) if part else 0
    if part is None or not 0 < int(part[2]) <= count <= MOST_PARTS:
        return [path]
    return [
        path.with_name(f"{part[1]}-{place:05}-of-{part[3]}{path.suffix}") for place in range(1, count + 1)
    ]


def packing_of(name: str) -> str:
    """Return the quantisation in the name of a GGUF file, such as "Q4_K_M"; "" if the name has none."""
    part = PART.fullmatch(name)
    found = QUANTISATION.search(part[1] if part else name.removesuffix(".gguf"))
    return found[1].upper() if found else ""


def read_gguf_header(path: Path) -> GgufHeader:
    """Read the header of a model, with the tensors of all its files.

    Raises ValueError if a header is invalid, OSError if a file cannot be read, ModelBroken for variants of GGUF
    that this version does not know."""
    first, *others = [read_gguf_part(part) for part in parts_of(path)]
    return replace(first, tensors=sum((one.tensors for one in others), first.tensors))


def read_gguf_part(path: Path) -> GgufHeader:
    """Read the header of one file. Raises the same errors as `read_gguf_header`."""
    status = path.stat()
    return _read(path, status.st_size, status.st_mtime_ns)


def read_gguf_values(path: Path) -> Mapping[str, Any]:
    """Read all values of a file, with all entries of all lists. The lists may need much memory, so callers run
    this in a process with a memory limit.

    Raises ValueError if the header is invalid, OSError if it cannot be read, ModelBroken for an unknown version."""
    with _reading(path, MOST_ENTRIES) as reader:
        return reader.values()[0]


@lru_cache(maxsize=8)
def _read(path: Path, _size: int, _changed: int) -> GgufHeader:
    """Read a header. It is cached while the file stays the same; a large vocabulary takes tenths of a second."""
    with _reading(path) as reader:
        return reader.header()


@contextmanager
def _reading(path: Path, kept: int = KEPT_ENTRIES) -> Iterator["_Reader"]:
    with path.open("rb") as file:
        try:
            yield _Reader(file, path, kept)
        except (struct.error, LookupError, OverflowError) as error:
            raise ValueError("its header is cut off, or has a value of an unknown type") from error


class _Reader:
    def __init__(self, file: BufferedReader, path: Path, kept: int) -> None:
        self._file = file
        self._path = path
        self._size = path.stat().st_size
        # Longer lists of numbers are replaced by their length; lists of strings too, unless all entries are kept.
        self._kept = kept
        self._entries = 0

    def values(self) -> tuple[dict[str, Any], int]:
        """Read up to the tensors; return the values and the number of tensors."""
        if self._file.read(4) != MAGIC:
            raise ValueError("it is not a GGUF file")
        version = self._number("<I")
        if version not in VERSIONS:
            raise _unknown_version(version)
        tensors = self._count("<Q", MOST_TENSORS)
        return {self._text(): self._value() for _ in range(self._count("<Q", MOST_VALUES))}, tensors

    def header(self) -> GgufHeader:
        values, tensors = self.values()
        listed = [self._tensor() for _ in range(tensors)]
        alignment = values.get("general.alignment", ALIGNMENT)
        if not isinstance(alignment, int) or not 0 < alignment <= 2**20:
            raise ValueError("its alignment is impossible")
        begin = -(-self._file.tell() // alignment) * alignment
        placed = tuple(_placed(one, begin, self._path) for one in listed)
        return GgufHeader(values, placed, max((one.begin + one.size for one in placed), default=begin))

    def _number(self, form: str) -> Any:
        return struct.unpack(form, self._file.read(struct.calcsize(form)))[0]

    def _count(self, form: str, most: int) -> int:
        return self._possible(int(self._number(form)), most)

    def _possible(self, count: int, most: int) -> int:
        if count > min(most, self._size):
            raise ValueError(f"its header is not valid (it counts {count:,} entries)")
        return count

    def _text(self) -> str:
        size = self._count("<Q", LONGEST_TEXT)
        return self._file.read(size).decode("utf-8", "replace")

    def _value(self) -> Any:
        kind = self._number("<I")
        if kind == TEXT:
            return self._text()
        return self._list() if kind == LIST else self._number(NUMBERS[kind])

    def _list(self) -> list[Any] | int:
        kind = self._number("<I")
        count = self._count("<Q", MOST_ENTRIES - self._entries)
        self._entries += count
        if kind == TEXT and self._kept >= MOST_ENTRIES:
            return [self._text() for _ in range(count)]
        if kind == TEXT:
            for _ in range(count):
                # Seeking inside the buffer is quick. If the file is too short, a later read fails.
                size = int.from_bytes(self._file.read(8), "little")
                self._file.seek(self._possible(size, LONGEST_TEXT), 1)
            return count
        size = count * struct.calcsize(NUMBERS[kind])
        if count > self._kept:
            self._file.seek(size, 1)
            return count
        return list(struct.unpack(f"<{count}{NUMBERS[kind][1:]}", self._file.read(size)))

    def _tensor(self) -> tuple[str, tuple[int, ...], int, int]:
        name = self._text()
        sizes = tuple(self._number("<Q") for _ in range(self._count("<I", 8)))
        return name, tuple(reversed(sizes)), self._number("<I"), self._number("<Q")


def _unknown_version(version: int) -> Exception:
    swapped = int.from_bytes(version.to_bytes(4, "little"), "big")
    if swapped in VERSIONS:
        return ModelBroken("The GGUF file is big-endian: choose a little-endian file of the model.")
    if 0 < version <= NEWEST_TYPE:
        return ModelBroken(
            f"The GGUF file has version {version} of the format, which this version of Foresight does not know: "
            "choose a newer file of the model, or update Foresight."
        )
    return ValueError(f"its version is {version}")


def _placed(listed: tuple[str, tuple[int, ...], int, int], begin: int, file: Path) -> GgufTensor:
    name, shape, kind, offset = listed
    if kind not in BLOCKS and kind <= NEWEST_TYPE:
        raise ModelBroken(
            f"The model's tensor {name[:60]} is stored as a type that this version of Foresight does not know "
            f"({kind}): choose another quantisation of the model, or update Foresight."
        )
    if kind not in BLOCKS:
        raise ValueError(f"its tensor {name[:60]} is of the unknown type {kind}")
    stored, numbers, size = BLOCKS[kind]
    if any(not 0 < one < 2**40 for one in shape) or (shape and shape[-1] % numbers):
        raise ValueError(f"the sizes of its tensor {name[:60]} are impossible")
    return GgufTensor(name, stored, shape, begin + offset, prod(shape) // numbers * size, file)
