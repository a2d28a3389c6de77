"""Loads a model from its folder: weights, tokenizer, and the runner that suits it."""

import logging
import sys
import tomllib
from collections.abc import Callable, Collection
from ctypes import CDLL
from dataclasses import dataclass, field, replace
from functools import cache
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from transformers import (
    AutoTokenizer,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
)

from app.engine.attention import register
from app.engine.block.step_profile import StepProfile
from app.engine.cpu_kernels import compiled_kernels
from app.engine.drafters.mixed_tree import DraftModelSource
from app.engine.layers.packed_layers import packed_bytes, packed_weights, packer, packing_fault
from app.engine.layers.quantisation import BITS, check_can_quantise, quantise, settled, suiting_dtype
from app.engine.loading.device_trial import device_fault
from app.engine.loading.head_loading import carried_heads, drafting_heads
from app.engine.loading.kept_layers import packable
from app.engine.loading.kernel_choice import KernelChoice, choose_kernels
from app.engine.loading.parts import (
    LOADED,
    PREPARED,
    QUANTISED,
    READ,
    Listener,
    counting_passes,
    counting_weights,
    no_progress,
    part_of_load,
)
from app.engine.loading.text_part import read_config, text_config
from app.engine.loading.weights import (
    HERE,
    Place,
    as_config_errors,
    as_model_errors,
    described_model,
    has_integers,
    offloaded_bytes,
    placement,
    read_weights,
)
from app.engine.lookahead.model_statistics import ModelStatistics
from app.engine.machine.compiling import Compiled
from app.engine.machine.hardware import choose_device, dtype_name, numbered, sum_exactly
from app.engine.machine.process_memory import expand_segments, return_freed_memory
from app.engine.measuring.measurement_cache import CacheKey
from app.engine.runner.model_config import context_of, eos_ids
from app.engine.runner.model_runner import ModelRunner
from app.engine.runner.runner import BlockRunner
from app.engine.text.detokenizer import Decode
from app.engine.text.gguf_folder import check_memory, has_large_floats, is_packed, unpacked
from app.engine.text.sandbox import Sandbox, chat_format_here, panics_as_errors
from app.settings import assets_dir
from app.system.child_process import awaited
from app.values.chat_format import UNKNOWN_FORMAT, ChatFormat, main_template
from app.values.config_parts import unread_parts
from app.values.dataclass_json import json_text
from app.values.messages import ModelChoice, ModelFolder, ModelInfo, Progress
from app.values.quantisation_sizes import MOSTLY, Quantisation

if TYPE_CHECKING:
    from app.engine.sampling.grammar_mask import Grammars

log = logging.getLogger(__name__)

ChooseKernels = Callable[[PreTrainedModel, ModelChoice, int], KernelChoice]
"""(model, the options it was chosen with, its context in tokens) -> the kernels that run the model."""

NO_TEMPLATE = (
    "its files have no chat template, so messages are sent as a dialogue (User: … Assistant: …). A model made for "
    "chats, often named -instruct or -it, answers better"
)
FITTING_TEMPLATE = (
    "its files have no chat template, so messages are written in the format that its control tokens suggest"
)
LARGE_FLOATS = (
    "The file stores some large matrices as floats, such as the embedding; they were quantised to 8 bits. The "
    "quantisation “none” keeps them, but then each step takes longer."
)
STARTS = "<|begin_of_text|>", "<bos>", "<BOS_TOKEN>", "<\uff5cbegin▁of▁sentence\uff5c>", "<s>"
"""Tokens that begin a text. A chat begins with the first that the vocabulary has, unless default-templates.toml
gives another."""


def _grammars() -> "Grammars":
    # Imported here, because tools/gpu_report runs without llguidance.
    from app.engine.sampling.grammar_mask import Grammars

    return Grammars()


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model that is ready to decode, with its tokenizer and its measurements."""

    info: ModelInfo
    tokenizer: PreTrainedTokenizerBase
    runner: ModelRunner
    eos_ids: frozenset[int]
    vocabulary: int  # the number of tokens with weights; a tokenizer may have more
    profile: StepProfile = field(default_factory=StepProfile)  # empty until it is measured
    cache_key: CacheKey = field(default_factory=dict)  # key of its measurements, once they are cached
    statistics: ModelStatistics = field(default_factory=ModelStatistics)
    grammars: Callable[[], "Grammars"] = field(default_factory=lambda: cache(_grammars))
    draft_models: tuple[DraftModelSource, ...] = ()  # at most one

    @property
    def current_info(self) -> ModelInfo:
        """The model's info with the present state of its CUDA graphs, because they may fail after the load."""
        if not isinstance(self.runner, BlockRunner):
            return self.info
        steps = self.runner.steps
        return replace(self.info, graphs=bool(steps.buckets)).with_note("graphs", steps.note)

    @property
    def can_draft(self) -> bool:
        """Whether lookahead can be used, because steps of several rows work with this model."""
        return not self.info.note("lookahead")

    def decode(self, ids: list[int]) -> str:
        """Decode token ids to text, without special tokens."""
        return str(self.tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False))

    def decode_with(self, shown: Collection[str]) -> Decode:
        """Return a function like `decode` that keeps the special tokens whose names occur in the texts `shown`."""
        if not any(shown):
            return self.decode
        known = self.tokenizer.added_tokens_decoder.items()
        special = {number: token.content for number, token in known if token.special}
        left_out = {number for number, name in special.items() if not any(name in text for text in shown)}

        def decode(ids: list[int]) -> str:
            kept = [token for token in ids if token not in left_out]
            return str(self.tokenizer.decode(kept, clean_up_tokenization_spaces=False))

        return decode


def load(
    folder: ModelFolder,
    choice: ModelChoice,
    sandbox: Sandbox | None = None,
    cache: Path | None = None,
    reads_heads: bool = True,
    place: Place = lambda _config, device: placement(device),
    choose: ChooseKernels = choose_kernels,
    progress: Progress = no_progress,
) -> LoadedModel:
    """Read a model from its folder or GGUF file, quantise it as `choice` says, and choose its kernels.

    The tokenizer and the chat template are tried in the sandbox first; without a sandbox they are trusted. `cache`
    is the folder for the config and the tokenizer that are made from a GGUF file. With `reads_heads`, the
    checkpoint's own heads are read unless a draft model is chosen.

    Raises ModelError for files that cannot be used, BadOption for a choice that is not possible here, and errors of
    memory and of the device."""
    chosen = choose_device(choice.device, fault_of=device_fault)
    with as_model_errors(folder), panics_as_errors(), unpacked(folder, cache, progress, sandbox) as whole:
        with as_config_errors(whole):
            stated = read_config(whole.path)
            config = text_config(stated)
            described = described_model(whole, config)
        is_on_cpu = chosen.device.type == "cpu"
        _compile_kernels(is_on_cpu, progress)
        form = _settled_form(folder, config, described, choice, chosen.device)
        quantisation, keeps, quantises = form.quantisation, form.keeps, form.quantises
        choice = replace(
            choice, quantisation=quantisation, dtype="float32" if keeps and is_on_cpu else choice.dtype
        )
        device = numbered(chosen.device)
        dtype = suiting_dtype(choice, device)
        sum_exactly(device)
        expand_segments(device)
        check_can_quantise(quantisation, dtype, device)
        check_memory(folder, dtype, keeps, is_on_cpu, quantises)
        tokenizer, chat_format, template_note = _read_tokenizer(whole, stated, sandbox)
        # A model that is to be quantised is moved slice by slice later.
        placed = place(config, device) if quantisation == "none" and not keeps else {}
        reading = part_of_load(progress, f"Reading {folder.name}", 0, READ)
        with counting_weights(described.num_parameters(), reading):
            pack = packer(device) if keeps else None
            model = read_weights(whole, config, dtype, placed, described, pack, quantises)
            model.requires_grad_(False)
        heads = carried_heads(model, whole) if reads_heads and not choice.draft_model else (None, "")
        listen = part_of_load(progress, f"Quantising {folder.name}", READ, QUANTISED)
        quantised = _move(model, quantisation, device, listen)
        trying = part_of_load(progress, "Trying kernels for this device", QUANTISED, PREPARED)
        trying(0, 1)
        with counting_passes(model, trying):
            loaded = prepare(model, tokenizer, whole, choice, quantised, choose, chat_format)
        info, sources = drafting_heads(heads, model, loaded.runner, loaded.info)
    info = info.with_note("device", chosen.note).with_note("template", template_note)
    info = info.with_note("parts", unread_parts(stated.to_dict())).with_note("quantised", form.note)
    return replace(loaded, info=info, draft_models=sources)


def _compile_kernels(is_on_cpu: bool, progress: Progress) -> None:
    """Wait until the CPU's kernels are compiled, if a CPU is used. Reports the seconds that have passed."""
    what = "Compiling for this processor"
    progress(what, 0, LOADED)
    if is_on_cpu:
        awaited(compiled_kernels, lambda seconds: progress(f"{what}, {seconds:.0f} s", 0, 0))


def _move(model: Any, quantisation: Quantisation, device: torch.device, listen: Listener) -> int:
    """Quantise the model, set it to inference and move it to the device; return how many weights were quantised."""
    # In this order, so that dense weights take no memory on the device.
    quantised = quantise(model, quantisation, device, progress=listen)
    if quantised:
        return_freed_memory()  # the weights as they were read
    ready = model.train(False)
    if not offloaded_bytes(model):  # otherwise accelerate moves weights, and the model cannot be moved
        ready.to(device)
    return quantised


@dataclass(frozen=True, slots=True)
class _WeightForm:
    """How weights are kept in memory: quantised as chosen, or packed as in their file (`keeps`).

    A load `quantises` dense weights to this quantisation; with `keeps`, large ones to 8 bits."""

    quantisation: Quantisation
    note: str = ""
    keeps: bool = False
    quantises: bool = False


def _settled_form(
    folder: ModelFolder,
    config: PreTrainedConfig,
    model: PreTrainedModel,
    choice: ModelChoice,
    device: torch.device,
) -> _WeightForm:
    """Return the form of the weights, with a note. The model may be on the meta device.

    The matrices of a quantised file stay packed if they are most of the model and the device has kernels for them.
    They do not if a quantisation or offloading is chosen, or half precision on a CPU."""
    is_quantised = is_packed(folder) or has_integers(config)
    if is_quantised and _keeps_packed(model, choice, device):
        quantises = choice.quantisation == "auto" and device.type == "cpu"
        note = LARGE_FLOATS if quantises and has_large_floats(folder) else ""
        return _WeightForm("none", note, keeps=True, quantises=quantises)
    quantisation, note = settled(choice, model, device)
    if is_quantised and quantisation == "none":
        dtype = dtype_name(suiting_dtype(choice, device))
        note = (
            f"The file's quantised weights were dequantised to {dtype}: they stay packed only if they are most of "
            "the model, and only on a GPU with Triton, or in float32 on a CPU with a C compiler."
        )
    return _WeightForm(quantisation, note, quantises=quantisation != "none")


def _keeps_packed(model: PreTrainedModel, choice: ModelChoice, device: torch.device) -> bool:
    is_on_cpu = device.type == "cpu"
    is_open = choice.quantisation in ("auto", "none") and not choice.offload
    if not is_open or (is_on_cpu and choice.dtype not in ("auto", "float32")):
        return False
    kept = sum(map(prod, packable(model, is_on_cpu).values()))
    dtype = torch.float32 if is_on_cpu else suiting_dtype(choice, device)
    if kept < MOSTLY * model.num_parameters() or device.type not in ("cpu", "cuda"):
        return False
    fault = packing_fault(device, dtype)
    if fault:
        log.info("quantised weights are dequantised: %s", fault)
    return not fault


def _read_tokenizer(
    folder: ModelFolder, config: PreTrainedConfig, sandbox: Sandbox | None
) -> tuple[PreTrainedTokenizerBase, ChatFormat, str]:
    """Return the tokenizer, the chat format, and a note if the model's files have no chat template.

    A tokenizer without a template gets the default template that fits its tokens, if any."""
    if sandbox:
        sandbox.check_tokenizer(folder)
    # For GGUF files AutoTokenizer is not used, because it builds some tokenizers anew from their words and merges.
    kind: Any = PreTrainedTokenizerFast if folder.gguf else AutoTokenizer
    known = {} if folder.gguf else {"config": config}
    tokenizer: PreTrainedTokenizerBase = kind.from_pretrained(folder.path, **known, **HERE)
    if isinstance(named := tokenizer.chat_template, dict):  # transformers needs a default
        tokenizer.chat_template = {**named, "default": main_template(named)} if named else None
    note = ""
    if not tokenizer.chat_template:
        tokenizer.chat_template = default_template(tokenizer.get_added_vocab())
        note = FITTING_TEMPLATE if tokenizer.chat_template else NO_TEMPLATE
    elif sandbox:
        sandbox.check_template(folder.name, tokenizer.get_chat_template(), tokenizer.special_tokens_map)
    if not tokenizer.chat_template:
        return tokenizer, UNKNOWN_FORMAT, note
    find = sandbox.chat_format if sandbox else chat_format_here
    controls = [token.content for token in tokenizer.added_tokens_decoder.values() if token.special]
    return tokenizer, find(tokenizer.get_chat_template(), tokenizer.special_tokens_map, controls), note


def default_template(tokens: Collection[str]) -> str:
    """Return the chat template that fits a model with these control tokens; "" if none is known."""
    listed = tomllib.loads((assets_dir() / "default-templates.toml").read_text(encoding="utf-8"))["turns"]
    turns = next((one for one in listed if all(token in tokens for token in one["tokens"].split())), None)
    if turns is None:
        return ""
    start = next((token for token in STARTS if token in tokens), "")
    turns = {"names": {}, "ends": {}, "start": start, "folds_system": False, **turns}
    body = (assets_dir() / "default-template.jinja").read_text(encoding="utf-8")
    return f"{{%- set turns = {json_text(turns)} %}}{body}"


def prepare(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    folder: ModelFolder,
    choice: ModelChoice,
    quantised: int = 0,
    choose: ChooseKernels = choose_kernels,
    chat_format: ChatFormat = UNKNOWN_FORMAT,
) -> LoadedModel:
    """Choose kernels for a model and describe it; `quantised` is the number of its quantised weights."""
    register()
    config = model.config.get_text_config(decoder=True)
    kept = 0 if quantised else sum(prod(weight.shape) for weight in packed_weights(model))
    parameters = model.num_parameters() + quantised + kept  # counted before `choose` lets oneDNN pack weights
    context = min(context_of(config), choice.context or sys.maxsize)
    kernels = choose(model, choice, context)
    info = ModelInfo(
        name=folder.name,
        label=folder.label,
        revision=folder.revision,
        architecture=type(model).__name__,
        parameters=parameters,
        context=context,
        dtype=dtype_name(model.dtype),
        device=str(model.device),
        quantisation=choice.quantisation if quantised and choice.quantisation != "auto" else "none",
        quantised_share=quantised / parameters,
        kept_bits=8 * packed_bytes(model) / kept if kept else 0.0,
        attention=kernels.attention.name if kernels.attends else "",
        fused=kernels.fused,
        offloaded=offloaded_bytes(model),
        chat_format=chat_format,
        notes={
            **kernels.notes,
            "attention": kernels.attention.note if kernels.attends else "",
            "compiler": compiler_note(choice, model),
        },
    )
    vocabulary = int(config.vocab_size)
    ends = eos_ids(model, tokenizer, chat_format.turn_ends)
    return LoadedModel(info, tokenizer, kernels.runner, ends, vocabulary)


def compiler_note(
    choice: ModelChoice, model: PreTrainedModel, find: Callable[[], Compiled[CDLL]] = compiled_kernels
) -> str:
    """Return why our CPU kernels for quantised weights could not be compiled; "" if they were, or are not used."""
    is_wanted = choice.quantisation in BITS and model.dtype == torch.float32 and model.device.type == "cpu"
    return find().note if is_wanted else ""
