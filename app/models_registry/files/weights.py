"""Reads the tensors of a model's weight files from their headers alone: shapes and stored types."""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Any

from app.errors import ModelBroken
from app.models_registry.files.config import ModelConfig, check_config, config_of, config_values
from app.models_registry.files.gguf_checks import check_gguf, gguf_tensors
from app.models_registry.files.model_files import check_folder, file_names, read_header, weight_files
from app.models_registry.files.recognition import refuse_embedder, refuse_tensors
from app.values.config_parts import text_values
from app.values.draft_heads import refuse_draft_head
from app.values.gguf_header import BLOCKS
from app.values.messages import ModelFolder
from app.values.packed_checkpoint import (
    LARGEST,
    MXFP4,
    PACKED_LEAVES,
    SIDES,
    STACKED_BLOCKS,
    STACKED_SCALES,
    CheckpointForm,
)

STORED_BYTES = {
    "F64": 8.0, "I64": 8.0, "U64": 8.0, "C64": 8.0, "F32": 4.0, "I32": 4.0, "U32": 4.0,
    "BF16": 2.0, "F16": 2.0, "I16": 2.0, "U16": 2.0, "F8_E4M3": 1.0, "F8_E5M2": 1.0, "F8_E8M0": 1.0,
    "I8": 1.0, "U8": 1.0, "BOOL": 1.0, "F4": 0.5, "I4": 0.5, "I2": 0.25,
    **{name: size / numbers for name, numbers, size in BLOCKS.values()},
}  # fmt: skip
MOST_SIZES = 8
NUMBERED = re.compile(r"\.(\d{1,6})\.")
"""The part of a tensor's name that is the number of its layer."""
SINKS = ".sinks"
RECURRENT = re.compile(r"\.x_proj|\.dt_proj|ssm_x\.|ssm_dt\.weight|time_mix|rg_lru|sconv|conv_qk")
EXPERTS = re.compile(r"expert|_exps")
"""RECURRENT matches tensors of layers whose code reads `linear.weight` itself, so that they cannot be quantised.
EXPERTS matches the matrices of experts, which transformers stacks in one tensor."""
EMBEDDINGS = ".embed_tokens.weight"
HEADS = ("lm_head.weight", "embed_out.weight", "output.weight")


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor of a weight file. Raises ValueError for an impossible shape or an unknown type."""

    name: str
    stored: str
    shape: tuple[int, ...]

    def __post_init__(self) -> None:
        if self.stored not in STORED_BYTES:
            raise ValueError(f"a tensor must be of a known type; it is “{self.stored}”")
        if len(self.shape) > MOST_SIZES or not all(isinstance(n, int) and 0 <= n < 2**48 for n in self.shape):
            limits = f"at most {MOST_SIZES} dimensions, each from 0 to 2^48 - 1"
            raise ValueError(f"a tensor must have {limits}; it is “{self.shape}”")

    @property
    def numbers(self) -> int:
        return prod(self.shape)


@dataclass(frozen=True, slots=True)
class Weights:
    """All tensors of a model, and whether they are in a GGUF file."""

    tensors: tuple[Tensor, ...]
    is_gguf: bool = False

    @property
    def numbers(self) -> int:
        """Number of stored parameters; a tied head may be among them."""
        return sum(tensor.numbers for tensor in self.tensors)

    @property
    def quantisable(self) -> int:
        """Number of parameters in matrices that can be quantised, without experts; 0 if any tensor is RECURRENT."""
        if any(RECURRENT.search(one.name) for one in self.tensors):
            return 0
        return sum(
            one.numbers for one in self.tensors if len(one.shape) == 2 and not EXPERTS.search(one.name)
        )

    def of_text(self, config: ModelConfig) -> "Weights":
        """Return the weights with their unpacked shapes. If the model also reads pictures or sound, returns only
        the weights of its decoder and its head."""
        if config.form:
            return self._unpacked(config.form).of_text(replace(config, form=None))
        found = (
            one.name
            for one in self.tensors
            if one.name.endswith(EMBEDDINGS)
            and one.shape[1:] == (config.hidden,)
            and one.shape[0] >= config.vocabulary  # embeddings may be padded
        )
        place = next(found, "").rpartition(".embed_tokens")[0]
        if not config.note or not place:
            return self
        kept = (one for one in self.tensors if one.name.startswith(place + ".") or one.name.endswith(HEADS))
        return replace(self, tensors=tuple(kept))

    def _unpacked(self, form: CheckpointForm) -> "Weights":
        """Return the weights with unpacked shapes and with types such as I4, but without scales and zeros."""
        found, names = list[Tensor](), {one.name for one in self.tensors}
        for one in self.tensors:
            stem, _, leaf = one.name.rpartition(".")
            if leaf in PACKED_LEAVES or one.name + LARGEST in names:
                found.append(Tensor(f"{stem}.weight", f"I{form.bits}", form.shape(one.shape)))
            elif leaf not in SIDES and not (form.method == MXFP4 and leaf.endswith(STACKED_SCALES)):
                found.append(one)
        return replace(self, tensors=tuple(found))

    @property
    def size(self) -> int:
        """Bytes of all tensors as they are stored."""
        return int(sum(tensor.numbers * STORED_BYTES[tensor.stored] for tensor in self.tensors))

    @property
    def stored(self) -> str:
        """The type in which most numbers are stored."""
        counts = Counter[str]()
        for tensor in self.tensors:
            counts[tensor.stored] += tensor.numbers
        return max(counts, key=counts.__getitem__, default="F32")

    @property
    def layers(self) -> int:
        """Number of layers according to the tensors' names; 0 if the names have no layer numbers."""
        found = (NUMBERED.search(tensor.name) for tensor in self.tensors)
        return max((int(place[1]) + 1 for place in found if place), default=0)

    @property
    def has_head(self) -> bool:
        return any(tensor.name.endswith(HEADS) for tensor in self.tensors)

    @property
    def has_sinks(self) -> bool:
        """Whether attention has learnt sinks, as in gpt-oss."""
        return any(tensor.name.endswith(SINKS) for tensor in self.tensors)


def read_weights(folder: Path, name: str) -> Weights:
    """Read the weights of the model in this folder or GGUF file. Raises ModelBroken for an invalid header."""
    if folder.is_file():
        return Weights(tuple(Tensor(*one) for one in gguf_tensors(folder, name)), is_gguf=True)
    headers = (read_header(path)[1] for path in weight_files(folder))
    return Weights(tuple(tensor for header in headers for tensor in tensors(header, name)))


def tensors(directory: Any, name: str) -> Iterable[Tensor]:
    """Return the tensors that the header `directory` lists. Raises ModelBroken."""
    try:
        listed = {key: value for key, value in directory.items() if key != "__metadata__"}
        return [_tensor(key, value) for key, value in listed.items()]
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError) as error:
        raise ModelBroken(
            f"A weight file of {name} is invalid ({str(error)[:200]}): choose another model, or download it "
            "again."
        ) from error


def _tensor(name: str, value: dict[str, Any]) -> Tensor:
    if isinstance(stored := value["dtype"], str) and stored not in STORED_BYTES and stored.isascii():
        raise ModelBroken(
            f"The model's tensor {name[:60]} is stored as a type that this version of Foresight does not know "
            f"({stored[:20]}): choose another quantisation of the model, or update Foresight."
        )
    tensor = Tensor(name, value["dtype"], tuple(value["shape"]))
    begin, end = value["data_offsets"]
    if end - begin != tensor.numbers * STORED_BYTES[tensor.stored]:
        raise ValueError(
            f"a tensor's bytes must match its shape; {end - begin:,} bytes do not match “{tensor.shape}”"
        )
    if name.endswith(STACKED_BLOCKS) and tensor.stored == "U8":
        return Tensor(name, "F4", (*tensor.shape[:-1], 2 * tensor.shape[-1]))
    return tensor


def check_model(folder: Path, name: str) -> None:
    """Raise a ModelError, with advice, if the model in this folder or GGUF file cannot be loaded.

    The config.json must not name more layers or larger sizes than the weights have. Raises OnlyDrafts for a draft
    head whose files are valid."""
    check_gguf(folder, name) if folder.is_file() else check_folder(folder, name)
    refuse_draft_head(ModelFolder(folder, name))
    refuse_embedder(file_names(folder) if folder.is_dir() else (), name)
    config = config_of(folder, name)
    sizes = check_config(config, name)
    weights = read_weights(folder, name)
    if folder.is_dir() and not text_values(config_values(config, name)).get("quantization_config"):
        refuse_tensors((tensor.name for tensor in weights.tensors), weights.stored, name)
    widest = max((size for tensor in weights.tensors for size in tensor.shape), default=0)
    has = {
        "num_hidden_layers": weights.layers or sizes["num_hidden_layers"],
        "hidden_size": widest,
        "vocab_size": widest,
    }
    for key, most in has.items():
        if sizes[key] > most:
            raise ModelBroken(
                f"The config.json of {name} does not fit its weights ({key} is {sizes[key]:,}, the weights have "
                f"{most:,}): choose another model."
            )
