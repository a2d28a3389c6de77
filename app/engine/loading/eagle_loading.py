"""Loads an EAGLE-3 head as what drafts for a model, or says in one sentence why it cannot.

Its files come from strangers: config.json is held against the headers of the weights before any memory is taken,
and the weights are read by safetensors alone.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from app.engine.drafters.eagle_head import EagleHead, layer_config
from app.engine.drafters.model_drafter import DraftModelSource
from app.engine.layers.quantised_layers import QuantisedEmbedding
from app.engine.loading.head_trial import source_of
from app.engine.loading.loading import LoadedModel
from app.engine.machine.device_faults import refused_because
from app.engine.machine.tensor_files import TensorFiles
from app.engine.runner.hidden_states import write_layer_states
from app.engine.runner.kv_cache import layer_windows
from app.engine.runner.model_config import rotary_of
from app.engine.runner.runner import BlockRunner
from app.errors import BadOption
from app.values.eagle_config import EagleConfig, read_eagle_config
from app.values.messages import ModelFolder

EMBEDDING = "embed_tokens.weight"
TO_TARGET, IN_DRAFT = "d2t", "t2d"
NUMBERS, WHOLE_NUMBERS = ("F32", "BF16", "F16"), ("I64", "I32")
"""How its weights may be stored, and the tokens of its vocabulary."""


class _Misfit(ValueError):
    """Why a head cannot draft: what follows "for" in a sentence."""


def with_eagle_head(target: LoadedModel, draft: ModelFolder) -> LoadedModel:
    """The target with the head in this folder. Raises a ModelError or BadOption."""
    config, runner = read_eagle_config(draft.path, draft.name), target.runner
    if not isinstance(runner, BlockRunner) or not runner.has_fixed_positions:
        raise BadOption(
            f"{draft.name} is an EAGLE-3 head, which drafts here only for models that take draft trees: choose no "
            f"draft model for {target.info.name}."
        )
    if target.info.devices:  # a layer of the target that a head asks may be split among them
        raise _refusal(target, draft, "the model is split among devices")
    if target.info.offloaded:
        raise _refusal(target, draft, "part of the model is in main memory")
    try:
        source = _source(config, draft, runner)
    except _Misfit as misfit:
        raise _refusal(target, draft, str(misfit)) from misfit
    except Exception as error:  # a broken file's, torch's, a driver's: each has types of its own
        raise _refusal(target, draft, f"its trial failed ({refused_because(error)})") from error
    return replace(target, info=replace(target.info, draft_model=draft.name), draft_models=(source,))


def _refusal(target: LoadedModel, draft: ModelFolder, why: str) -> BadOption:
    return BadOption(
        f"{draft.name} cannot draft for {target.info.name}, for {why}: choose another draft model, or none."
    )


def _source(config: EagleConfig, draft: ModelFolder, runner: BlockRunner) -> DraftModelSource:
    about = runner.model.config.get_text_config(decoder=True)
    states = config.states_of(len(layer_windows(about)))
    _check_fit(config, int(about.hidden_size), runner)
    with ExitStack() as stack:
        head = _read(config, len(states), TensorFiles(draft.path, stack), runner.model)
    try:
        written = write_layer_states(runner.model, states)
    except ValueError as error:
        raise _Misfit(str(error)) from error
    return source_of(head, draft.name, runner, written)


def _check_fit(config: EagleConfig, width: int, runner: BlockRunner) -> None:
    if config.target_hidden != width:
        raise _Misfit(f"it reads states of {config.target_hidden:,} numbers, and the model's have {width:,}")
    if config.vocabulary != runner.vocabulary:
        raise _Misfit(
            f"it was made for a vocabulary of {config.vocabulary:,} tokens, and the model's has "
            f"{runner.vocabulary:,}"
        )
    if rotary_of(layer_config(config), runner.context).kind != "fixed":
        raise _Misfit("its rotary table depends on the length of the text")


def _read(config: EagleConfig, states: int, files: TensorFiles, model: PreTrainedModel) -> EagleHead:
    """The head with its weights, on the model's device and in its precision."""
    head = EagleHead(config, states)
    wanted = {name: weight for name, weight in head.named_parameters() if name != EMBEDDING}
    for name, weight in wanted.items():
        _check(files, name, weight.shape, NUMBERS)
    targets = _targets(config, files)
    found = {name: files.read(name).to(model.device, model.dtype) for name in wanted}
    head.load_state_dict(found, strict=False, assign=True)
    head.tie(_embedding(config, files, model), targets)
    return head.requires_grad_(False).train(False)


def _embedding(config: EagleConfig, files: TensorFiles, model: PreTrainedModel) -> nn.Module:
    """Its own, or the model's where it has none or the same."""
    models: nn.Module = model.get_input_embeddings()
    if EMBEDDING not in files:
        is_plain = type(models) is nn.Embedding or (
            isinstance(models, QuantisedEmbedding) and models.is_plain
        )
        if not is_plain or config.hidden != config.target_hidden:
            raise _Misfit(f"its weights have no {EMBEDDING}")
        return models
    _check(files, EMBEDDING, (config.vocabulary, config.hidden), NUMBERS)
    own = files.read(EMBEDDING).to(model.device, model.dtype)
    if type(models) is nn.Embedding and torch.equal(own, models.weight):
        return models
    embedding: nn.Module = nn.Embedding.from_pretrained(own)  # type: ignore[no-untyped-call]
    return embedding


def _targets(config: EagleConfig, files: TensorFiles) -> Tensor:
    """The target's token of each of the head's own [draft vocab]."""
    own = torch.arange(config.draft_vocabulary)
    if TO_TARGET not in files and config.draft_vocabulary == config.vocabulary:
        return own
    _check(files, TO_TARGET, own.shape, WHOLE_NUMBERS)
    targets = own + files.read(TO_TARGET)
    if (
        int(targets.min()) < 0
        or int(targets.max()) >= config.vocabulary
        or len(set(targets.tolist())) < len(own)
    ):
        raise _Misfit(f"{TO_TARGET} leads to tokens that there are not")
    if IN_DRAFT in files:
        _check(files, IN_DRAFT, (config.vocabulary,), ("BOOL",))
        known = files.read(IN_DRAFT)
        if int(known.sum()) != len(own) or not known[targets].all():
            raise _Misfit(f"{TO_TARGET} and {IN_DRAFT} contradict each other")
    return targets


def _check(files: TensorFiles, name: str, shape: Sequence[int], stored: Sequence[str]) -> None:
    """Raise _Misfit where the weights have no such tensor."""
    if name not in files:
        raise _Misfit(f"its weights have no {name}")
    found, kind = files.shape(name), files.stored(name)
    if found != list(shape):
        raise _Misfit(f"{name} has the shape {found}, and its config tells of {list(shape)}")
    if kind not in stored:
        raise _Misfit(f"{name} is stored as {kind}, and not as one of {', '.join(stored)}")
