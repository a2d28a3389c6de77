"""Estimates the memory that a model takes while it decodes, from its config and the headers of its weights alone.

On a CPU, pages of the weight files count as memory of the process while they are read. The system takes them back
when it needs memory, so they are in `peak` and not in `need`. `docs/notes/2026-11-models.md` has the measurements.
"""

import platform
import re
from contextlib import suppress
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import cast, get_args

from app.errors import ModelError, OnlyDrafts
from app.models_registry.files.config import ModelConfig, read_config
from app.models_registry.files.weights import EXPERTS, HEADS, Tensor, Weights, check_model, read_weights
from app.system.machine import RAM, memories, multiplies_int8_fast
from app.system.programs import find_compiler
from app.values.draft_heads import is_draft_head
from app.values.gguf_header import kept_bits
from app.values.messages import ModelFolder
from app.values.model import (
    KEPT_STATES,
    USUAL_CONTEXT,
    Fit,
    Memory,
    MemoryNeed,
    Precision,
    RowPrice,
    Verdict,
    copying_words,
    gigabytes,
)
from app.values.packed_checkpoint import PACKED_BITS
from app.values.quantisation_sizes import MOSTLY, automatic, is_large_matrix, kept_words, model_bytes

NUMBER_BYTES: dict[Precision, int] = {"float32": 4, "bfloat16": 2, "float16": 2}
"""Bytes of a weight that is not quantised; app/values/quantisation_sizes.py counts quantised weights."""
STORED_AS: dict[Precision, str] = {"float32": "F32", "bfloat16": "BF16", "float16": "F16"}
CHUNK, GPU_CHUNK = 512, 1024
"""Tokens of a prompt that are read in one pass, on a CPU and on a GPU. The KV cache grows by CHUNK tokens."""
LOOKAHEAD_ROWS = 128
"""Rows of the widest step that is tried when a model is loaded."""
RECORDED_ROWS = 345
"""The sum of the rows of all steps that are recorded as CUDA graphs. Each graph may keep memory of its own."""
SCRATCH, SPAN = 1 << 26, 256
"""Maximum bytes of partial sums that our attention on a GPU allocates, and the number of tokens of each sum."""
WORKSPACE = 1 << 25
"""Bytes that cuBLAS takes for the stream of CUDA graphs."""
TIED_SHARE = 1 / 3
RUNTIME = {"cpu": 440_000_000, "cuda": 600_000_000}
"""Bytes of Python, torch and their libraries on a CPU, and of a CUDA context with its libraries on a device."""
KERNELS = 45_000_000
"""Bytes of the kernels that torch's library for CPUs builds, for half precision or packed weights."""
SMALL = 1_000_000
"""Number of parameters below which no weights are packed."""
KEPT_INPUTS = 2
"""Number of copies of its inputs that each recurrent layer keeps for a step's rows until the commit."""
SCORE_COPIES = 3
"""Number of float32 score matrices that exist at the same time if attention has no fused kernel."""


@dataclass(frozen=True, slots=True)
class Estimator:
    """Estimates one model on one kind of device.

    `packs`: a CPU's kernels keep the weights in an order of their own. `has_triton`: on a GPU attention runs in our
    own kernels, which multiply by packed weights, too. `is_head`: this is a draft head, which is not quantised with
    its target. `is_fast`: int8 is fastest on the CPU. `keeps`: the CPU's kernels multiply by packed weights."""

    shape: ModelConfig
    weights: Weights
    device: str = "cpu"
    packs: bool = field(default_factory=lambda: platform.machine() in ("x86_64", "AMD64"))
    has_triton: bool = field(default_factory=lambda: find_spec("triton") is not None)
    draft_models: tuple["Estimator", ...] = ()
    is_head: bool = False
    is_fast: bool = field(default_factory=multiplies_int8_fast)
    keeps: bool = field(default_factory=lambda: platform.system() == "Linux" and find_compiler() is not None)

    def automatic(self, precision: Precision) -> Precision:
        """Return the precision that "auto" chooses: a quantisation, `precision`, or float32 if a
        CPU's kernels keep most weights packed."""
        kept: Precision = "float32" if self.device == RAM else precision
        if self.kept_bits(kept):
            return kept
        share = self.weights.quantisable / max(self.weights.numbers, 1)
        found, _ = automatic(self._numbers(), share, self.is_fast and self.device == RAM)
        return precision if found == "none" else found

    def kept_bits(self, precision: Precision) -> float:
        """Return the mean bits of the weights that stay packed at this precision; 0.0 if most are unpacked."""
        is_on_gpu = self.device != RAM and self.has_triton and precision in NUMBER_BYTES
        if not (is_on_gpu or (self.device == RAM and self.keeps and precision == "float32")):
            return 0.0
        kept = [(one.numbers, bits) for one, bits in self._packed_bits() if bits]
        numbers = sum(count for count, _ in kept)
        is_most = 0 < MOSTLY * self.weights.numbers <= numbers and self.weights.quantisable > 0
        return sum(count * bits for count, bits in kept) / numbers if is_most else 0.0

    def need(self, precision: Precision, context: int) -> MemoryNeed:
        """Estimate the memory of the model and its draft models with this many tokens in its context."""
        has_kernels = self.device == "cpu" and (precision != "float32" or self._numbers() > SMALL)
        runtime = RUNTIME["cpu" if self.device == "cpu" else "cuda"] + (KERNELS if has_kernels else 0)
        lengths = [(one, min(context, one.shape.context)) for one in self.draft_models]
        drafts = [one.need(precision, length) for one, length in lengths]
        each = [(self, context), *lengths]
        cached = -(-(context + LOOKAHEAD_ROWS) // CHUNK) * CHUNK
        return MemoryNeed(
            weights=self._weights(precision) + sum(one.weights for one in drafts),
            cache=cached * row_price(self.shape, self._width(precision)).cache
            + (1 + KEPT_STATES) * self.shape.state * NUMBER_BYTES["float32"]
            + sum(one.cache for one in drafts),
            # The models compute one after the other, but each keeps its CUDA graphs.
            rows=max(one._rows(precision, length) for one, length in each)
            + sum(one._recorded(precision, length) for one, length in each),
            runtime=runtime,
        )

    def peak(self, precision: Precision, context: int) -> int:
        """Estimate the largest size of the process: its need, and the pages of files that it has read."""
        each = (replace(self, draft_models=()), *self.draft_models)
        return self.need(precision, context).total + sum(one._pages(precision, context) for one in each)

    def _pages(self, precision: Precision, context: int) -> int:
        """Estimate the bytes of this model's files that are in memory besides its need."""
        if self.device != "cpu":
            return 0
        if STORED_AS.get(precision) == self.weights.stored:
            # Packed weights were copied; the file's pages stay until the system needs memory.
            return self._packed() * NUMBER_BYTES[precision] if self._does_pack(precision) else 0
        need = self.need(precision, context)
        return max(need.runtime + self._kept(precision) + self.weights.size - need.total, 0)

    def longest_context(self, precision: Precision, free: int) -> int:
        """Return the longest context that fits into `free` bytes, in steps of CHUNK tokens; 0 if none fits."""
        low, high = 0, -(-self.shape.context // CHUNK)
        while low < high:
            middle = (low + high + 1) // 2
            fits = self.need(precision, min(middle * CHUNK, self.shape.context)).total <= free
            low, high = (middle, high) if fits else (low, middle - 1)
        return min(low * CHUNK, self.shape.context)

    def offloaded(self, precision: Precision, room: int) -> int:
        """Return the bytes of weights that stay in main memory if a GPU has `room` bytes for weights.

        Returns 0 if none have to, or if none can: on a CPU, with quantised weights or a GGUF file, or if the GPU
        has no room for the embedding and the largest other piece."""
        weights = replace(self, draft_models=()).need(precision, 1).weights
        if weights <= room or self.device == "cpu" or precision not in STORED_AS or self.weights.is_gguf:
            return 0
        embedding = self.shape.embedding
        piece = max(embedding, self._packed() // max(self.shape.layers, 1)) * NUMBER_BYTES[precision]
        is_enough = room >= embedding * NUMBER_BYTES[precision] + piece
        return min(weights, weights - room + piece) if is_enough else 0

    @property
    def _is_tied(self) -> bool:
        """Whether the head is tied. Some model families do not say so in their config, but then store no head."""
        return self.shape.is_tied or not self.weights.has_head

    def _numbers(self) -> int:
        """Count the parameters; a tied head counts once even if it is stored."""
        twice = self._is_tied and self.weights.has_head
        return self.weights.numbers - (self.shape.embedding if twice else 0)

    def _packed(self) -> int:
        return max(0, self._numbers() - self.shape.embedding)

    def _does_pack(self, precision: Precision) -> bool:
        is_dense = precision in ("float32", "bfloat16") and not self.kept_bits(precision)
        return self.device == "cpu" and self.packs and is_dense

    def _weights(self, precision: Precision) -> int:
        tied_share = self.shape.embedding / max(1, self._numbers())
        is_doubled = self._is_tied and tied_share <= TIED_SHARE and self._does_pack(precision)
        second = self.shape.embedding * NUMBER_BYTES[precision] if is_doubled else 0
        return self._kept(precision) + second

    def _kept(self, precision: Precision) -> int:
        """Count the bytes of the weights, each once."""
        if self.kept_bits(precision):
            bits = self._packed_bits()
            return int(sum(one.numbers * (kept / 8 or self._width(precision)) for one, kept in bits))
        if precision != "int8" and precision != "int4":
            return self._numbers() * NUMBER_BYTES[precision]
        if self.weights.is_gguf or self.is_head:
            return self._numbers() * self._width(precision)
        tensors = [one for one in self.weights.tensors if not (self._is_tied and one.name.endswith(HEADS))]
        return model_bytes({one.name: one.shape for one in tensors}, self._width(precision), precision)

    def _packed_bits(self) -> list[tuple[Tensor, float]]:
        """Return each tensor with the bits of its numbers if it stays packed, else with 0.0.

        Beside packed weights, large matrices of floats are quantised to 8 bits on a CPU."""
        bits = [(one, self._tensor_bits(one)) for one in self.weights.tensors]
        if self.device != RAM or not any(kept for _, kept in bits):
            return bits
        return [(one, kept or (8.0 if self._is_large(one) else 0.0)) for one, kept in bits]

    def _is_large(self, tensor: Tensor) -> bool:
        return is_large_matrix(tensor.shape) and not EXPERTS.search(tensor.name)

    def _tensor_bits(self, tensor: Tensor) -> float:
        """Return the bits of a number of this tensor if it stays packed; 0.0 if it cannot."""
        bits = kept_bits(tensor.name, tensor.stored, tensor.shape, self.device == RAM)
        if not bits and (not EXPERTS.search(tensor.name) or (tensor.stored == "F4" and self.device == RAM)):
            bits = PACKED_BITS.get(tensor.stored, 0.0)
        digits = re.search(r"\d", tensor.stored)
        if not bits or not digits:
            return 0.0
        # A CPU's kernels read numbers of TQ1_0 as 2 bits, those of IQ1 and IQ2 as 3, and those of IQ3 as 4.
        number = int(bits) if tensor.stored.startswith("IQ") else max(2, int(digits[0]))
        return bits if self.device == RAM else bits - number + (4 if number <= 4 else 8)

    def _width(self, precision: Precision) -> int:
        return activation_bytes(precision, self.device)

    @property
    def _is_ours(self) -> bool:
        """Whether attention runs in our own kernels on a GPU, whose steps can be recorded as CUDA graphs."""
        return self.device != "cpu" and self.has_triton

    def _rows(self, precision: Precision, context: int) -> int:
        width = self._width(precision)
        chunk = min(CHUNK if self.device == "cpu" else GPU_CHUNK, context)
        prompt = chunk * self._row(width) + self._attention(chunk, context, width)
        kept = KEPT_INPUTS * self.shape.inputs * NUMBER_BYTES["float32"]
        step = LOOKAHEAD_ROWS * (self._row(width) + row_price(self.shape, width).logits + kept)
        return int(max(prompt, step + self._attention(LOOKAHEAD_ROWS, context, 4)))

    def _recorded(self, precision: Precision, context: int) -> int:
        """Count the bytes that CUDA graphs keep: the results of each graph, and the logits that all share."""
        if not self._is_ours:
            return 0
        width = self._width(precision)
        logits = self.shape.vocabulary * width
        sums = RECORDED_ROWS * self._attention(LOOKAHEAD_ROWS, context, width) // LOOKAHEAD_ROWS
        return RECORDED_ROWS * (self._row(width) + logits) + LOOKAHEAD_ROWS * logits + sums + WORKSPACE

    def _row(self, width: int) -> int:
        return (4 * self.shape.hidden + 3 * self.shape.intermediate) * width

    def _attention(self, rows: int, context: int, width: int) -> int:
        if self._is_ours:
            return min(SCRATCH, rows * -(-context // SPAN) * self.shape.heads * self.shape.head_size * 4)
        # torch's kernel has neither soft-capping nor sinks; the sdpa backend has both, but stores the scores.
        if self.shape.is_softcapped or self.weights.has_sinks:
            return rows * context * (SCORE_COPIES * self.shape.heads * 4 + 1)
        # The mask is repeated for the heads that share a key, and the kernel copies it to float32.
        return rows * context * max(1, self.shape.heads // self.shape.key_heads) * (width + 4)


def row_price(shape: ModelConfig, width: int) -> RowPrice:
    """Return the memory of one row: its logits, as computed and again in float32, and its keys and values.

    `width` is the size of an activation in bytes."""
    return RowPrice(logits=shape.vocabulary * (width + 4), cache=shape.cached * width)


def activation_bytes(precision: Precision, device: str) -> int:
    """Return the bytes of an activation, which with quantised weights is float32 on a CPU and 16 bits on a GPU."""
    is_quantised = precision in ("int8", "int4")
    return 4 if precision == "float32" or (is_quantised and device == "cpu") else 2


def judge(
    estimator: Estimator, memory: Memory, precision: Precision, context: int, is_automatic: bool = False
) -> Fit:
    """Judge whether a model fits a device, and say so in a sentence.

    If `is_automatic`, judges the model with the precision that "auto" chooses."""
    if is_automatic:
        precision = estimator.automatic(precision)
    usable = memory.usable
    context = min(context, estimator.shape.context)
    need = estimator.need(precision, context)
    longest = estimator.longest_context(precision, usable)
    verdict: Verdict = "too big"
    if need.total <= usable:
        verdict = "fits"
    elif estimator.need("int4", context).total <= usable:
        verdict = "fits with int4"
    kept = estimator.kept_bits(precision)
    form = kept_words(kept) if kept else precision
    sentence = _sentence(verdict, form, need.total, memory, longest, context, estimator.shape.context)
    drafts = (one.need(precision, 1).weights for one in estimator.draft_models)
    in_part = replace(estimator, has_triton=False).need(precision, context)  # with torch's kernels
    room = max(usable - in_part.total + in_part.weights - sum(drafts), 0)
    offloaded = 0 if verdict == "fits" else estimator.offloaded(precision, room)
    if offloaded:
        sentence += f" With --offload about {copying_words(offloaded)}."
    peak = estimator.peak(precision, context)
    return Fit(
        need,
        memory,
        precision,
        context,
        longest,
        verdict,
        sentence,
        peak,
        room,
        offloaded,
        estimator.shape.note,
        kept,
    )


def _sentence(
    verdict: Verdict, form: str, total: int, memory: Memory, longest: int, context: int, most: int
) -> str:
    where = "memory" if memory.device == "cpu" else f"the memory of {memory.device}"
    available = (
        f"there are {memory.words}" if memory.is_usual else f"{gigabytes(memory.free)} of {where} are free"
    )
    needs = f"needs about {gigabytes(total)}, and {available}{memory.limit_words(total)}"
    if verdict == "fits":
        whole = f"Its whole context of {most:,} tokens fits." if longest == most else ""
        return f"Fits: it {needs}. {whole or f'A context of {longest:,} tokens would still fit.'}"
    if verdict == "fits with int4":
        sentence, beginning = f"Fits only with int4: in {form} it {needs}.", f"In {form} a"
    else:
        sentence, beginning = f"Too big with {context:,} tokens of context: it {needs}.", "A"
    return f"{sentence} {beginning} context of {longest:,} tokens would fit." if longest else sentence


def judge_folder(
    folder: Path,
    name: str,
    memory: Memory,
    precision: Precision,
    context: int,
    draft: Path | None = None,
    is_automatic: bool = False,
) -> Fit:
    """Judge whether the model in this folder or GGUF file fits, with its draft model.

    Raises ModelError for invalid files."""
    check_model(folder, name)
    estimator = _estimator(folder, name, memory)
    if draft:
        with suppress(OnlyDrafts):
            check_model(draft, draft.name)
        drafting = replace(_estimator(draft, draft.name, memory), is_head=is_draft_head(draft))
        estimator = replace(estimator, draft_models=(drafting,))
    return judge(estimator, memory, precision, context, is_automatic)


def _estimator(folder: Path, name: str, memory: Memory) -> Estimator:
    config = read_config(folder, name)
    return Estimator(config, read_weights(folder, name).of_text(config), memory.device)


def fit_on_device(
    folder: ModelFolder, precision: str, device: str, context: int, draft: Path | None = None
) -> Fit | None:
    """Judge whether a model fits this device, with its draft model; None if that cannot be estimated."""
    memory = next((one for one in memories() if one.device == device), None)
    if memory is None or precision not in get_args(Precision):
        return None
    width = cast(Precision, precision)
    try:
        return judge_folder(folder.path, folder.name, memory, width, context or USUAL_CONTEXT, draft)
    except ModelError:  # loading the model reports the reason
        return None
