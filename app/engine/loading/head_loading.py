"""Loads the heads for multi-token prediction in a checkpoint, and tries and times draft heads of all kinds."""

import logging
import re
from dataclasses import replace
from typing import Any

from torch import nn
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.core_model_loading import WeightRenaming
from transformers.modeling_layers import MtpModel

from app.engine import attention
from app.engine.block.block import chain_block
from app.engine.drafters.draft_model import DraftModel, SequenceReader
from app.engine.drafters.gemma4_assistant import Assistant, AssistantReader
from app.engine.drafters.head_reader import Head, HeadReader, MtpHead
from app.engine.drafters.mixed_tree import DraftModelSource
from app.engine.lookahead.draft_model_budget import DraftModelBudget
from app.engine.machine.device_faults import refused_because
from app.engine.machine.hardware import is_close, tolerance_of
from app.engine.machine.tensor_files import TensorFiles
from app.engine.measuring.step_timing import question_seconds, trial_text
from app.engine.runner.hidden_states import HiddenStates, WrittenStates, write_last_states
from app.engine.runner.kv_cache import block_cache
from app.engine.runner.model_runner import ModelRunner
from app.engine.runner.runner import BlockRunner, run_block
from app.values.messages import ModelFolder, ModelInfo

log = logging.getLogger(__name__)

NAME = "multi-token prediction"
MOST_HEADS = 16
"""Maximum number of heads. If a config declares more, no heads are read."""
_NAMES = re.compile(r"(^|\.)mtp[._]|\.(eh_proj|enorm|hnorm)\.")
"""Matches the names of weights of heads, for example mtp.fc.weight and model.layers.61.eh_proj.weight."""
_ONE_LAYER = re.compile(r"^mtp\.layers\.0\.self_attn\.")
_FURTHER_LAYER = re.compile(r"^mtp\.(layers\.[1-9]|embed_tokens\.)")
"""Matches weights of further layers or of an own embedding, which heads of Qwen3-Next and Qwen3.5 do not have."""
_RENAMED = {
    r"^layers\.0\.(?!(?:mtp_block|enorm|hnorm|eh_proj|post_norm)\.)": "layers.0.mtp_block.",
    r"^fc\.": "layers.0.eh_proj.",
    r"^pre_fc_norm_embedding\.": "layers.0.enorm.",
    r"^pre_fc_norm_hidden\.": "layers.0.hnorm.",
    r"^norm\.": "layers.0.post_norm.",
}
"""The names of a head's weights in checkpoints of Qwen and Mellum, without mtp., and their names in MtpModel.
transformers renames these weights itself since 5.20."""
_CONTAINS = f"This checkpoint contains heads for {NAME}"
_NOT_LOADED = f"{_CONTAINS} that transformers does not load."
_NO_BLOCKS = f"{_CONTAINS}, which are used here only for models that take draft trees."
_FAILED = f"{_CONTAINS}, whose trial failed ({{}})."
USED = f"Its own head for {NAME} guesses tokens, too, if that saves time."


CarriedHeads = tuple[MtpModel | None, str]
"""The heads of a checkpoint, and a note that says why they are not read; (None, "") if it has no heads."""


def carried_heads(model: PreTrainedModel, folder: ModelFolder) -> CarriedHeads:
    """Read the heads of this folder's model. Must be called before the model's embeddings are quantised."""
    names = list(TensorFiles(folder.path))
    if not any(map(_NAMES.search, names)):
        return None, ""
    config = model.config.get_text_config(decoder=True)
    is_qwens = any(map(_ONE_LAYER.match, names)) and not any(map(_FURTHER_LAYER.match, names))
    if is_qwens:
        declare_head(config)
    if not 0 < (getattr(config, "num_mtp_layers", None) or 0) <= MOST_HEADS:
        return None, _NOT_LOADED
    try:
        heads = read_heads(model)
    except Exception as error:  # a broken file, torch and a driver all raise errors of different types
        return None, _failure(error)
    # Reset, so that the model's own embedding and head can be freed when they are quantised.
    heads.embed_tokens = heads.shared_head = nn.Identity()
    return heads, ""


def drafting_heads(
    carried: CarriedHeads, model: PreTrainedModel, runner: ModelRunner, info: ModelInfo
) -> tuple[ModelInfo, tuple[DraftModelSource, ...]]:
    """Try the first head with its model; return the model's info with a note, and a source of drafts.

    There is no source unless the head passes its trial."""
    sources: tuple[DraftModelSource, ...] = ()
    heads, note = carried
    if heads is not None and isinstance(runner, BlockRunner) and runner.has_fixed_rotary:
        try:
            heads.tie_with_main_model(model)
            heads.train(False).to(model.device)
            heads.set_attn_implementation(attention.NAME)
            source = source_of(MtpHead(heads), NAME, runner, write_last_states(runner.model))
            sources, note = (source,), USED
        except Exception as error:  # the model, torch and a driver all raise errors of different types
            note = _failure(error)
    elif heads is not None:
        note = _NO_BLOCKS
    return replace(info, heads=bool(sources)).with_note("heads", note), sources


def _failure(error: Exception) -> str:
    log.info("heads cannot draft", exc_info=error)
    return _FAILED.format(refused_because(error))


def declare_head(config: PreTrainedConfig) -> None:
    """Declare a head of Qwen's layout, unless this config of transformers declares heads."""
    if not hasattr(config, "mtp_layer_types"):
        config.num_mtp_layers, config.mtp_layer_types = 1, ["full_attention"]
        if config.model_type == "mellum":  # declares its heads since transformers 5.20
            config.mtp_layer_types, config.mtp_mlp_layer_types = ["sliding_attention"], ["sparse"]


def read_heads(model: PreTrainedModel) -> MtpModel:
    """Read all heads of the model's checkpoint. Raises errors of any type."""
    config = model.config.get_text_config(decoder=True)
    extra = range(config.num_hidden_layers, config.num_hidden_layers + config.num_mtp_layers)
    # For the heads, transformers reads only weights that match `_keys_to_ignore_on_load_unexpected`. Its patterns
    # have only the layer numbers of published checkpoints.
    left_out = {r"^mtp\.", *(rf"^model\.layers\.{number}\." for number in extra)}
    model._keys_to_ignore_on_load_unexpected = left_out.union(model._keys_to_ignore_on_load_unexpected or ())
    mapped: Any = model  # transformers declares no type of `_weight_conversions`
    renamed = [WeightRenaming(name, meant) for name, meant in _RENAMED.items()]
    mapped._weight_conversions = [*renamed, *mapped._weight_conversions]
    heads = MtpModel.from_pretrained(model, device_map={"": model.device})
    heads.requires_grad_(False).train(False)
    return heads


def source_of(
    head: Head | Assistant, name: str, runner: BlockRunner, written: WrittenStates
) -> DraftModelSource:
    """Try and time a head; return a source of drafts for this runner.

    If the trial fails, ends `written`, so that the runner's model writes no more states for the head. Raises
    ArithmeticError if the head's logits differ, and any error of the trial."""
    try:
        seconds = _trial_seconds(head, runner, written)
    except Exception:
        written.end()
        raise
    reader = reader_of(head, runner, written.of(runner.cache))
    return DraftModelSource(DraftModel(reader, name, runner.vocabulary), DraftModelBudget(*seconds))


def reader_of(head: Head | Assistant, runner: BlockRunner, target: HiddenStates) -> SequenceReader:
    """Make a reader that computes this head's logits from these hidden states of the target."""
    if isinstance(head, Assistant):
        return AssistantReader(head, target, runner.context, runner.vocabulary)
    return HeadReader(head, target, runner.attention.attend, runner.context, runner.vocabulary)


def _trial_seconds(
    head: Head | Assistant, runner: BlockRunner, written: WrittenStates
) -> tuple[float, float]:
    """Compare the head's logits with those of a plain pass. Raises ArithmeticError if they differ.

    Returns the seconds of a pass over one token, and of each further token in a pass."""
    model, cache = runner.model, block_cache(runner.model.config)
    target = written.of(cache)
    reader = reader_of(head, runner, target)
    text = trial_text(reader)
    half = len(text) // 2
    run_block(model, cache, chain_block(text[:-1], 0, wanted=()), runner.attention.attend)
    cache.commit(range(len(text) - 1))
    reader.read(text[:half], 0)
    found = reader.read(text, half)[None]
    expected = head.expected(text, target)
    named = ~expected.isneginf()
    if not is_close(found[named][None], expected[named][None], tolerance_of(model)):
        raise ArithmeticError("its logits differ from those of one plain pass")
    return question_seconds(reader)
