"""Heads for multi-token prediction that a checkpoint carries: found, loaded, tried and timed with their model.

A head is used where it says what it says by transformers' own code. Otherwise the model is used without it, and a
note says why.
"""

import logging
import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from torch import nn
from transformers import PreTrainedModel
from transformers.modeling_layers import MtpModel

from app.engine import attention
from app.engine.drafters.model_drafter import DraftModelSource
from app.engine.drafters.mtp_head import MtpHead
from app.engine.loading.head_trial import source_of
from app.engine.machine.device_faults import refused_because
from app.engine.machine.tensor_files import tensor_names
from app.engine.runner.hidden_states import write_last_states
from app.engine.runner.model_runner import ModelRunner
from app.engine.runner.runner import BlockRunner
from app.values.messages import ModelFolder, ModelInfo

log = logging.getLogger(__name__)

NAME = "multi-token prediction"
MOST_HEADS = 16
"""A config that tells of more is not believed."""
_NAMES = re.compile(r"(^|\.)mtp[._]|\.(eh_proj|enorm|hnorm)\.")
"""What weights of such heads are called: mtp.fc.weight, model.layers.61.eh_proj.weight."""
_CARRIES = f"This checkpoint carries heads for {NAME}"
_NOT_LOADED = f"{_CARRIES} that transformers does not load."
_NO_BLOCKS = f"{_CARRIES}, which draft here only for models that take draft trees."
_FAILED = f"{_CARRIES}, whose trial failed ({{}})."
USED = f"Its own head for {NAME} drafts, too, where that pays."


@dataclass(frozen=True, slots=True)
class CarriedHeads:
    """The heads of a checkpoint, or why they are not read; neither where it carries none."""

    heads: MtpModel | None = None
    note: str = ""


FindHeads = Callable[[PreTrainedModel, ModelFolder], CarriedHeads]
"""(a model, the folder that it was read from just now) -> its heads."""


def no_heads(_model: PreTrainedModel, _folder: ModelFolder) -> CarriedHeads:
    """None, whatever the checkpoint carries: nobody would ask them."""
    return CarriedHeads()


def carried_heads(model: PreTrainedModel, folder: ModelFolder) -> CarriedHeads:
    """Those beside a model that was read from this folder just now: its embeddings are not quantised yet."""
    if not any(map(_NAMES.search, tensor_names(folder.path))):
        return CarriedHeads()
    config = model.config.get_text_config(decoder=True)
    if not 0 < (getattr(config, "num_mtp_layers", None) or 0) <= MOST_HEADS:
        return CarriedHeads(note=_NOT_LOADED)
    try:
        heads = read_heads(model)
    except Exception as error:  # a broken file's, torch's, a driver's: each has types of its own
        return CarriedHeads(note=_failure(error))
    # The model's own may be quantised next, and their memory freed.
    heads.embed_tokens = heads.shared_head = nn.Identity()
    return CarriedHeads(heads)


def drafting_heads(
    carried: CarriedHeads, model: PreTrainedModel, runner: ModelRunner, info: ModelInfo
) -> tuple[ModelInfo, tuple[DraftModelSource, ...]]:
    """What is known of the model with its heads, and sources of drafts for its runner, one at most."""
    sources, note = _sources(carried, model, runner)
    return replace(info, heads=bool(sources)).with_note("heads", note), sources


def _sources(
    carried: CarriedHeads, model: PreTrainedModel, runner: ModelRunner
) -> tuple[tuple[DraftModelSource, ...], str]:
    """With what is to be said of them."""
    if carried.heads is None:
        return (), carried.note
    if not isinstance(runner, BlockRunner) or not runner.has_fixed_positions:
        return (), _NO_BLOCKS
    try:
        carried.heads.tie_with_main_model(model)
        carried.heads.train(False).to(model.device)
        carried.heads.set_attn_implementation(attention.NAME)
        source = source_of(MtpHead(carried.heads), NAME, runner, write_last_states(runner.model))
        return (source,), USED
    except Exception as error:  # a model's own, torch's, a driver's: each has types of its own
        return (), _failure(error)


def _failure(error: Exception) -> str:
    log.info("heads cannot draft", exc_info=error)
    return _FAILED.format(refused_because(error))


def read_heads(model: PreTrainedModel) -> MtpModel:
    """All heads of the checkpoint that the model was read from. Raises whatever is wrong with them."""
    config = model.config.get_text_config(decoder=True)
    behind = range(config.num_hidden_layers, config.num_hidden_layers + config.num_mtp_layers)
    # transformers reads the weights that a model leaves out, and names the layers of published sizes alone.
    left_out = {rf"^model\.layers\.{number}\." for number in behind}
    model._keys_to_ignore_on_load_unexpected = left_out.union(model._keys_to_ignore_on_load_unexpected or ())
    heads = MtpModel.from_pretrained(model, device_map={"": model.device})
    heads.requires_grad_(False).train(False)
    return heads
