"""A model's folder to a model that can decode: weights, tokenizer, and the runner that suits it."""

import sys
from collections.abc import Callable, Collection, Iterable
from ctypes import CDLL
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from app.engine.attention import register
from app.engine.attention.selector import SDPA, capabilities_of, choose_attention
from app.engine.compatibility import reason_against_trees
from app.engine.compiling import Compiled
from app.engine.config_check import check_config_size
from app.engine.cpu_kernels.loading import compiled_kernels, cpu_kernels
from app.engine.cuda_segments import expand_segments
from app.engine.device_faults import is_no_verdict
from app.engine.device_trial import device_fault
from app.engine.execution import run_in_blocks, run_in_chains
from app.engine.gguf import check_memory, reading_options, unpacked, without_bar
from app.engine.hardware import choose_device, dtype_name, numbered, sum_exactly
from app.engine.head_loading import FindHeads, carried_heads, drafting_heads, no_heads
from app.engine.kv_cache import layer_windows
from app.engine.lookahead.model_drafter import DraftModelSource
from app.engine.lookahead.model_statistics import ModelStatistics
from app.engine.measurement_cache import CacheKey
from app.engine.model_config import context_of, eos_ids, heads_of
from app.engine.packing import pack_weights
from app.engine.quantising import check_can_quantise, quantise, suiting_dtype
from app.engine.runner import BlockRunner, ModelRunner
from app.engine.sandbox import Sandbox, panics_as_errors
from app.engine.step_profile import StepProfile
from app.engine.text import Decode
from app.engine.tolerance import rounds_activations
from app.errors import AppError, BadOption, ModelBroken, ModelUnsafe, first_line
from app.messages import ModelChoice, ModelFolder, ModelInfo

if TYPE_CHECKING:
    from app.engine.grammar import Grammars

HERE = {"local_files_only": True, "trust_remote_code": False}
"""How transformers is to read a folder: nothing of it is asked for elsewhere, and none of its code is run."""


def _lazy_grammars() -> Callable[[], "Grammars"]:
    @cache
    def grammars() -> "Grammars":
        from app.engine.grammar import Grammars  # imported here: measuring machines do without llguidance

        return Grammars()

    return grammars


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model ready to decode. `can_draft`: steps of more than one row work."""

    info: ModelInfo
    tokenizer: PreTrainedTokenizerBase
    runner: ModelRunner
    eos_ids: frozenset[int]
    vocabulary: int  # tokens that it has weights for, numbered from 0: a tokenizer may know more
    profile: StepProfile = field(default_factory=StepProfile)  # empty until it is measured
    cache_key: CacheKey = field(default_factory=dict)  # what notes about it go by, once it is measured
    statistics: ModelStatistics = field(default_factory=ModelStatistics)
    grammars: Callable[[], "Grammars"] = field(default_factory=_lazy_grammars)
    draft_models: tuple[DraftModelSource, ...] = ()  # one at most

    @property
    def current_info(self) -> ModelInfo:
        """What is known of it now: whether its steps can be recorded may turn out late."""
        if not isinstance(self.runner, BlockRunner):
            return self.info
        steps = self.runner.steps
        return replace(self.info, graphs=bool(steps.buckets), graphs_note=steps.note)

    @property
    def can_draft(self) -> bool:
        """Whether lookahead works with this model."""
        return not self.info.lookahead_note

    def within_vocabulary(self, ids: list[int]) -> list[int]:
        """The ids, if there is an embedding for each: on a card, another would end all work there."""
        if max(ids) >= self.vocabulary:
            raise BadOption(
                f"The tokenizer and the weights of {self.info.name} do not fit each other (token {max(ids):,} of "
                f"{self.vocabulary:,}): choose another model, or download it again."
            )
        return ids

    def decode(self, ids: list[int]) -> str:
        """The text of these ids, special tokens left out."""
        return str(self.tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False))

    def decode_with(self, shown: Collection[str]) -> Decode:
        """`decode`, with these special tokens in the text."""
        if not shown:
            return self.decode
        known = self.tokenizer.added_tokens_decoder.items()
        left_out = {number for number, token in known if token.special and token.content not in shown}

        def decode(ids: list[int]) -> str:
            kept = [token for token in ids if token not in left_out]
            return str(self.tokenizer.decode(kept, clean_up_tokenization_spaces=False))

        return decode


def load(
    folder: ModelFolder,
    choice: ModelChoice,
    sandbox: Sandbox | None = None,
    cache: Path | None = None,
    find_heads: FindHeads = carried_heads,
) -> LoadedModel:
    """Read a model from its folder or GGUF file. Raises ModelError with a sentence for what is wrong with it.

    Its tokenizer and its chat template are tried in the sandbox first; without one they are trusted. `cache` keeps
    what a GGUF file's folder holds. A chosen draft model takes the place of the checkpoint's own heads."""
    chosen = choose_device(choice.device, fault_of=device_fault)
    device = numbered(chosen.device)
    dtype = suiting_dtype(choice, device)
    check_can_quantise(choice.quantisation, dtype, device)
    sum_exactly(device)
    expand_segments(device)
    try:
        check_memory(folder, dtype)
        with panics_as_errors(), unpacked(folder, cache) as whole:
            find = no_heads if choice.draft_model else find_heads
            loaded = _load(whole, choice, device, dtype, sandbox, find)
    except AppError:
        raise
    except Exception as error:  # libraries that read what anybody may have written raise anything
        if is_no_verdict(error):
            raise
        raise _broken(folder, error) from error
    return replace(loaded, info=replace(loaded.info, device_note=chosen.note))


def _load(
    folder: ModelFolder,
    choice: ModelChoice,
    device: torch.device,
    dtype: torch.dtype,
    sandbox: Sandbox | None,
    find_heads: FindHeads,
) -> LoadedModel:
    config = AutoConfig.from_pretrained(folder.path, **HERE)
    check_config_size(folder, config, dtype)
    tokenizer = _read_tokenizer(folder, sandbox)
    placed = placement(device) if choice.quantisation == "none" else {}  # to be quantised, slice by slice
    model = _read_weights(folder, config, dtype, placed).requires_grad_(False)
    heads = find_heads(model, folder)
    quantised = quantise(model, choice.quantisation, device)  # before dense weights would need room there
    model.train(False).to(device)
    loaded = prepare(model, tokenizer, folder, choice, quantised)
    info, sources = drafting_heads(heads, model, loaded.runner, loaded.info)
    return replace(loaded, info=info, draft_models=sources)


def _read_tokenizer(folder: ModelFolder, sandbox: Sandbox | None) -> PreTrainedTokenizerBase:
    if sandbox:
        sandbox.check_tokenizer(folder)
    tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(folder.path, **HERE)
    if tokenizer.chat_template and sandbox:
        sandbox.check_template(folder.name, tokenizer.get_chat_template(), tokenizer.special_tokens_map)
    return tokenizer


def prepare(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    folder: ModelFolder,
    choice: ModelChoice,
    quantised: int = 0,
) -> LoadedModel:
    """Find out how a model can decode, and wrap it; `quantised` of its weights are whole numbers."""
    register()
    text_config = model.config.get_text_config(decoder=True)
    machine = capabilities_of(model.device)
    # In float32 itself they are not the default yet.
    if machine.device.type == "cpu" and (choice.attention == "native" or rounds_activations(model)):
        machine = replace(machine, cpu_kernels=cpu_kernels())
    attention = choose_attention(choice.attention, machine, heads_of(text_config, model.dtype))
    reason = reason_against_trees(model, SDPA.attend)
    parameters = model.num_parameters() + quantised
    if layer_windows(text_config):  # recurrent layers read their Linears' weights in ways of their own
        pack_weights(model)
    context = min(context_of(text_config), choice.context or sys.maxsize)
    execution = (
        run_in_chains(model, context, reason)
        if reason
        else run_in_blocks(model, attention, machine, context, choice.attention)
    )
    info = ModelInfo(
        name=folder.name,
        label=folder.label,
        revision=folder.revision,
        architecture=type(model).__name__,
        parameters=parameters,
        context=context,
        dtype=dtype_name(model.dtype),
        device=str(model.device),
        lookahead_note=execution.lookahead_note,
        chains_note=execution.chains_note,
        quantisation=choice.quantisation,
        quantised_share=quantised / parameters,
        attention="" if reason else execution.attention.name,
        attention_note="" if reason else execution.attention.note,
        fused=execution.fused,
        fused_note=execution.fused_note,
        compiler_note=compiler_note(choice, model),
    )
    vocabulary = int(text_config.vocab_size)
    return LoadedModel(info, tokenizer, execution.runner, eos_ids(model, tokenizer), vocabulary)


def compiler_note(
    choice: ModelChoice, model: PreTrainedModel, find: Callable[[], Compiled[CDLL]] = compiled_kernels
) -> str:
    """Why quantised weights have no kernel of ours on a CPU that could have one."""
    is_wanted = choice.quantisation != "none" and model.dtype == torch.float32 and model.device.type == "cpu"
    return find().note if is_wanted else ""


def placement(
    device: torch.device, find: Callable[[str], object] = find_spec
) -> dict[str, dict[str, torch.device]]:
    """Have transformers put each weight on the device as it reads it, which needs accelerate.

    Without accelerate the file is mapped into memory and moved from there. On Linux that is no copy, either, unless
    the weights change their type."""
    return {"device_map": {"": device}} if device.type != "cpu" and find("accelerate") else {}


def _read_weights(
    folder: ModelFolder,
    config: PreTrainedConfig,
    dtype: torch.dtype,
    placed: dict[str, dict[str, torch.device]],
) -> PreTrainedModel:
    # transformers types this by its arguments' defaults; with output_loading_info it is a pair.
    with without_bar(folder):
        read: Any = AutoModelForCausalLM.from_pretrained(
            folder.path,
            config=config,
            dtype=dtype,
            **HERE,
            **placed,
            **reading_options(folder),
            ignore_mismatched_sizes=True,  # they are reported below, in our own words
            output_loading_info=True,
        )
    model: PreTrainedModel = read[0]
    _check_complete(folder, read[1]["missing_keys"])
    _check_sizes(folder, [name for name, *_shapes in read[1]["mismatched_keys"]])
    return model


def _check_complete(folder: ModelFolder, missing: Iterable[str]) -> None:
    if names := sorted(missing):
        raise ModelBroken(
            f"The weights of {folder.name} are incomplete (missing: {len(names)}, the first is {names[0]}): "
            "download the model again."
        )


def _check_sizes(folder: ModelFolder, mismatched: Iterable[str]) -> None:
    if names := sorted(mismatched):
        raise ModelBroken(
            f"The weights of {folder.name} do not fit its config.json (of another size: {len(names)}, the first "
            f"is {names[0]}): download the model again."
        )


def _broken(folder: ModelFolder, error: Exception) -> ModelBroken | ModelUnsafe:
    words = first_line(error)[:200].rstrip(".:")
    if "trust_remote_code" in str(error):
        return ModelUnsafe(
            f"{folder.name} needs Python code of its own, which Foresight does not run: choose a model whose "
            "architecture transformers knows."
        )
    return ModelBroken(
        f"{folder.name} could not be loaded ({words}): check that the folder holds a complete text model in "
        "safetensors, or download it again."
    )
