"""Loads a source of drafts for a model: a small model with the same tokenizer, an EAGLE-3 head, or an assistant of
Gemma 4. The files of a head are not trusted."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from app.engine.block.block import chain_block
from app.engine.drafters.draft_model import DraftModel, RunnerSequenceReader, prefilled
from app.engine.drafters.eagle_head import EagleHead, layer_config
from app.engine.drafters.gemma4_assistant import Assistant
from app.engine.drafters.mixed_tree import DraftModelSource, DraftModelStatistics
from app.engine.layers.quantised_layers import QuantisedEmbedding
from app.engine.loading.head_loading import source_of
from app.engine.loading.loading import LoadedModel, load
from app.engine.loading.parts import no_progress
from app.engine.loading.text_part import read_config
from app.engine.loading.weights import (
    as_config_errors,
    as_model_errors,
    described_model,
    placement,
    read_weights,
)
from app.engine.lookahead.draft_model_budget import DraftModelBudget
from app.engine.machine.device_faults import refused_because
from app.engine.machine.tensor_files import TensorFiles
from app.engine.measuring.step_timing import question_seconds
from app.engine.runner.hidden_states import (
    WrittenStates,
    cached_layers,
    number_of_layers,
    write_last_states,
    write_layer_states,
)
from app.engine.runner.model_config import rotary_of
from app.engine.runner.model_runner import ModelRunner
from app.engine.runner.runner import BlockRunner
from app.engine.text.sandbox import Sandbox
from app.errors import AppError, BadOption
from app.values.draft_heads import EagleConfig, head_sizes, is_assistant, is_draft_head, read_eagle_config
from app.values.messages import ModelChoice, ModelFolder, Progress
from app.values.tokenizer_vocabulary import digest_of

TEXT = (
    "Here is how to make a simple vegetable soup. First, chop two onions, three carrots and a stick of celery. Heat"
    " some oil in a large pot and cook the vegetables for about five minutes, until they are soft. Then add a litre"
    " of water and a little salt, and let the soup cook on a low heat for half an hour.\n\nIf you have any"
    " questions, please feel free to ask."
)
ROWS, CHUNKS = 16, 4
"""One token of the text is read alone, then up to CHUNKS chunks of ROWS rows."""
FIRST = 4
"""How many predictions at the beginning are not compared, because they have too little context."""
USUAL = 0.4
"""The share of tokens that n-grams usually guess without a draft model."""

EMBEDDING = "embed_tokens.weight"
TO_TARGET, IN_DRAFT = "d2t", "t2d"
NUMBERS, WHOLE_NUMBERS = ("F32", "BF16", "F16"), ("I64", "I32")
"""The stored types that are allowed for a head's weights, and for the token ids of its vocabulary."""


class _Misfit(ValueError):
    """The reason why a model or head cannot draft: the part of a sentence after "because"."""


def with_draft_model(
    target: LoadedModel,
    draft: ModelFolder,
    choice: ModelChoice,
    sandbox: Sandbox | None = None,
    cache: Path | None = None,
    progress: Progress = no_progress,
) -> LoadedModel:
    """Load a draft model with the target's options, or a draft head; return the target with this source of drafts.

    Raises what `load` raises, and BadOption if the draft model cannot draft for the target."""
    if not target.can_draft:
        raise BadOption(f"{target.info.name} decodes plainly, so it cannot use a draft model: choose none.")
    try:
        if is_draft_head(draft.path):
            source = _head_source(target, draft)
        else:
            alone = replace(choice, name=choice.draft_model, draft_model="", offload=False)
            source = _model_source(
                target, load(draft, alone, sandbox, cache, reads_heads=False, progress=progress)
            )
    except _Misfit as misfit:
        raise BadOption(
            f"{draft.name} cannot draft for {target.info.name}, because {misfit}: choose another draft model, or "
            "none."
        ) from misfit
    return replace(target, info=replace(target.info, draft_model=draft.name), draft_models=(source,))


def _model_source(target: LoadedModel, draft: LoadedModel) -> DraftModelSource:
    """Time a small model, compare it with the target, and make a source from it. Raises _Misfit, BadOption."""
    runner = draft.runner
    if not isinstance(runner, BlockRunner) or not runner.is_rewindable:
        raise BadOption(
            f"{draft.info.name} cannot be a draft model, because its state cannot be rewound: choose a model with "
            "full attention, or none."
        )
    if digest_of(draft.tokenizer.get_vocab()) != digest_of(target.tokenizer.get_vocab()):
        raise _Misfit("their tokenizers differ")
    reader = RunnerSequenceReader(runner)
    model = DraftModel(reader, draft.info.name, target.vocabulary)
    source = DraftModelSource(model, DraftModelBudget(*question_seconds(reader, runner.warm_up)))
    text, vocabulary = target.tokenizer.encode(TEXT), min(target.vocabulary, runner.vocabulary)
    source.recall(first_draft_statistics(target.runner, runner, text, vocabulary))
    return source


def first_draft_statistics(
    target: ModelRunner, draft: ModelRunner, text: Sequence[int], vocabulary: int
) -> DraftModelStatistics:
    """Compare both models' next tokens along the text. The gain is the share of equal tokens, less USUAL.

    Returns default statistics if the text or a context is too short. Tokens from `vocabulary` on are left out,
    because one of the models may not have them."""
    text = [token for token in text if token < vocabulary]
    chunks = min((min(len(text), target.context, draft.context) - 1) // ROWS, CHUNKS)
    if chunks < 1:
        return DraftModelStatistics()
    text = text[: 1 + ROWS * chunks]
    expected, guessed = (
        logits_along(runner, text)[FIRST:, :vocabulary].argmax(dim=-1) for runner in (target, draft)
    )
    return DraftModelStatistics(max((expected == guessed).float().mean().item() - USUAL, 0.0))


def logits_along(runner: ModelRunner, text: Sequence[int]) -> Tensor:
    """Compute the logits [len(text), vocab] after each token. Drops the runner's prefix before and afterwards."""
    runner.forget()
    found = [prefilled(runner, text[:1])[None].float().cpu()]
    for start in range(1, len(text), ROWS):
        chunk = text[start : start + ROWS]
        logits = runner.forward(chain_block(chunk, start, wanted=tuple(range(len(chunk)))))
        found.append(logits.float().cpu())  # the next pass may overwrite the logits
        runner.commit(range(len(chunk)))
    runner.forget()
    return torch.cat(found)


def _head_source(target: LoadedModel, draft: ModelFolder) -> DraftModelSource:
    """Read and try a draft head, and make a source from it. Raises _Misfit, ModelError, BadOption."""
    runner = target.runner
    if not isinstance(runner, BlockRunner) or not runner.has_fixed_rotary:
        raise BadOption(
            f"{draft.name} is a draft head, which drafts here only for models that take draft trees: choose no "
            f"draft model for {target.info.name}."
        )
    if target.info.offloaded:
        raise _Misfit("part of the model is in main memory")
    reads, vocabulary = head_sizes(draft.path, draft.name)
    width = runner.model.config.get_text_config(decoder=True).hidden_size
    if reads != width:
        raise _Misfit(f"it reads hidden states of size {reads:,}, and the model's have size {width:,}")
    if vocabulary != runner.vocabulary:
        raise _Misfit(
            f"it was made for a vocabulary of {vocabulary:,} tokens, and the model's has {runner.vocabulary:,}"
        )
    read = _read_assistant if is_assistant(draft.path) else _read_eagle
    try:
        head, written = read(draft, runner)
        return source_of(head, draft.name, runner, written)
    except (_Misfit, AppError):
        raise
    except Exception as error:  # files, torch and drivers raise errors of their own types
        raise _Misfit(f"its trial failed ({refused_because(error)})") from error


def _read_assistant(draft: ModelFolder, runner: BlockRunner) -> tuple[Assistant, WrittenStates]:
    """Read an assistant for the runner's model; let the model's passes write the states that assistants read."""
    model = runner.model
    with as_model_errors(draft), as_config_errors(draft):
        config = read_config(draft.path)
        described = described_model(draft, config)
    layers = _read_layers(described, model)
    with as_model_errors(draft):
        read = read_weights(draft, config, model.dtype, placement(model.device), described)
    read.requires_grad_(False).train(False).to(model.device)
    return Assistant(read, model.get_input_embeddings(), layers), write_last_states(model)


def _read_layers(assistant: PreTrainedModel, model: PreTrainedModel) -> dict[str, int]:
    """Map each kind of layer to the index of the model's last layer of this kind with its own keys and values.

    Raises _Misfit if the model lacks a kind that the assistant has, or if heads differ in number or size."""
    own, config = assistant.config.get_text_config(), model.config.get_text_config(decoder=True)
    kinds = (getattr(config, "layer_types", None) or [])[: cached_layers(model)]
    layers = {kind: number for number, kind in enumerate(kinds)}
    for number, kind in enumerate(own.layer_types):
        if kind not in layers:
            raise _Misfit(f"it reads keys of {kind.replace('_', ' ')}, which the model does not have")
        mine, theirs = own.per_layer_config[number], config.per_layer_config[layers[kind]]
        if (mine.num_key_value_heads, mine.head_dim) != (theirs.num_key_value_heads, theirs.head_dim):
            raise _Misfit(
                f"it reads {mine.num_key_value_heads} keys of size {mine.head_dim} for each token, and the model "
                f"has {theirs.num_key_value_heads} of size {theirs.head_dim}"
            )
    return layers


def _read_eagle(draft: ModelFolder, runner: BlockRunner) -> tuple[EagleHead, WrittenStates]:
    """Read an EAGLE-3 head for the runner's model; let the model's passes write the states that the head reads."""
    config, model = read_eagle_config(draft.path, draft.name), runner.model
    if rotary_of(layer_config(config), runner.context).kind != "fixed":
        raise _Misfit("its rotary table depends on the length of the text")
    states = config.states_of(number_of_layers(model))
    head = EagleHead(config, len(states))
    wanted = {name: weight for name, weight in head.named_parameters() if name != EMBEDDING}
    files = TensorFiles(draft.path)
    for name, weight in wanted.items():
        _check_stored(files, name, weight.shape, NUMBERS)
    targets = _targets(config, files)
    found = {name: files.read(name).to(model.device, model.dtype) for name in wanted}
    head.load_state_dict(found, strict=False, assign=True)
    head.tie(_embedding(config, files, model), targets)
    head.requires_grad_(False).train(False)
    try:
        return head, write_layer_states(model, states)
    except ValueError as error:
        raise _Misfit(str(error)) from error


def _embedding(config: EagleConfig, files: TensorFiles, model: PreTrainedModel) -> nn.Module:
    """Return the head's embedding, or the model's if the head's is missing or equal. Raises _Misfit."""
    models: nn.Module = model.get_input_embeddings()
    if EMBEDDING not in files:
        is_plain = type(models) is nn.Embedding or (
            isinstance(models, QuantisedEmbedding) and models.is_plain
        )
        if not is_plain or config.hidden != config.target_hidden:
            raise _Misfit(f"its weights have no {EMBEDDING}")
        return models
    _check_stored(files, EMBEDDING, (config.vocabulary, config.hidden), NUMBERS)
    own = files.read(EMBEDDING).to(model.device, model.dtype)
    if type(models) is nn.Embedding and torch.equal(own, models.weight):
        return models
    embedding: nn.Module = nn.Embedding.from_pretrained(own)  # type: ignore[no-untyped-call]
    return embedding


def _targets(config: EagleConfig, files: TensorFiles) -> Tensor:
    """Read the target's token id for each of the head's own token ids [draft vocab]. Raises _Misfit."""
    own = torch.arange(config.draft_vocabulary)
    if TO_TARGET not in files and config.draft_vocabulary == config.vocabulary:
        return own
    _check_stored(files, TO_TARGET, own.shape, WHOLE_NUMBERS)
    targets = own + files.read(TO_TARGET)
    is_inside = int(targets.min()) >= 0 and int(targets.max()) < config.vocabulary
    if not is_inside or len(set(targets.tolist())) < len(own):
        raise _Misfit(f"{TO_TARGET} refers to tokens that do not exist, or to a token twice")
    if IN_DRAFT in files:
        _check_stored(files, IN_DRAFT, (config.vocabulary,), ("BOOL",))
        known = files.read(IN_DRAFT)
        if int(known.sum()) != len(own) or not known[targets].all():
            raise _Misfit(f"{TO_TARGET} and {IN_DRAFT} contradict each other")
    return targets


def _check_stored(files: TensorFiles, name: str, shape: Sequence[int], stored: Sequence[str]) -> None:
    """Raise _Misfit unless the weights have a tensor of this name, shape and one of these types."""
    if name not in files:
        raise _Misfit(f"its weights have no {name}")
    stored_as = files.lazy(name)
    found, kind = list(stored_as.get_shape()), str(stored_as.get_dtype())
    if found != list(shape):
        raise _Misfit(f"{name} has the shape {found}, but by its config it should have {list(shape)}")
    if kind not in stored:
        raise _Misfit(f"{name} is stored as {kind} instead of one of {', '.join(stored)}")
