"""Which draft models and EAGLE-3 heads draft, what they are worth at first, and how others are refused."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from app.engine.drafters.draft_model import DraftModel
from app.engine.drafters.mixed_tree import DraftModelStatistics
from app.engine.loading.draft_loading import (
    CHUNKS,
    ROWS,
    USUAL,
    first_draft_statistics,
    logits_along,
    with_draft_model,
)
from app.engine.loading.loading import LoadedModel, load
from app.engine.runner.runner import BlockRunner
from app.engine.runner.sequential_runner import SequentialRunner
from app.engine.session.session import Session, no_progress
from app.errors import AppError, BadOption, ModelBroken, OnlyDrafts
from app.values.draft_heads import head_sizes, read_eagle_config
from app.values.messages import ModelChoice, ModelFolder
from tests.engine.architectures import GEMMA3, LLAMA, Architecture
from tests.engine.architectures import VOCABULARY as ZOO_VOCABULARY
from tests.engine.eagle_heads import (
    KINDS,
    LAYER,
    VOCABULARY,
    WIDTH,
    Weights,
    config_of,
    random_weights,
    tables,
    write_head,
    write_target,
)
from tests.engine.places import Places
from tests.engine.replies import Zoo, numbers

CPU = ModelChoice("target", dtype="float32", device="cpu")
KIND = KINDS["llama"]


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    return load(write_target(tmp_path_factory.mktemp("eagle") / "target"), CPU)


def hooks_of(loaded: LoadedModel) -> int:
    assert isinstance(loaded.runner, BlockRunner)
    return sum(len(module._forward_hooks) for module in loaded.runner.model.modules())


def drafted(target: LoadedModel, folder: ModelFolder) -> DraftModel:
    """What drafts; the target is given back as it was."""
    try:
        loaded = with_draft_model(target, folder, CPU)
    finally:
        assert isinstance(target.runner, BlockRunner)
        hooks = hooks_of(target)
        for module in target.runner.model.modules():
            module._forward_hooks.clear()
    assert loaded.info.draft_model == folder.name
    assert hooks == len(KIND.config["eagle_aux_hidden_state_layer_ids"])
    (source,) = loaded.draft_models
    assert 0 < source.budget.question < 1
    return source.model


def test_a_head_that_passes_its_trial_drafts(target: LoadedModel, tmp_path: Path) -> None:
    model = drafted(target, write_head(tmp_path / "head", KIND.config, random_weights(KIND)))
    assert model.name == "head"
    assert not target.draft_models


def test_a_head_in_several_files_and_of_another_type_drafts(target: LoadedModel, tmp_path: Path) -> None:
    weights = {
        name: one.bfloat16() if one.is_floating_point() else one for name, one in random_weights(KIND).items()
    }
    folder = write_head(tmp_path / "head", KIND.config, weights)
    (folder.path / "model.safetensors").unlink()
    names = sorted(weights)
    parts = {"model-1.safetensors": names[:5], "model-2.safetensors": names[5:]}
    for file, part in parts.items():
        save_file({name: weights[name] for name in part}, folder.path / file)
    index = {"weight_map": {name: file for file, part in parts.items() for name in part}}
    (folder.path / "model.safetensors.index.json").write_text(json.dumps(index))
    drafted(target, folder)


def test_a_config_that_tells_no_layers_means_the_usual_ones(target: LoadedModel, tmp_path: Path) -> None:
    config = config_of(LAYER, eagle_aux_hidden_state_layer_ids=None)
    drafted(target, write_head(tmp_path / "head", config, random_weights(KIND)))
    assert read_eagle_config(tmp_path / "head", "head").states_of(32) == (2, 16, 29)


def test_an_embedding_that_is_the_targets_is_there_once(target: LoadedModel, tmp_path: Path) -> None:
    assert isinstance(target.runner, BlockRunner)
    own = target.runner.model.get_input_embeddings()
    for weights in ({"embed_tokens.weight": own.weight.detach().clone()}, {}):
        found = random_weights(KIND)
        del found["embed_tokens.weight"]
        folder = write_head(tmp_path / f"head-{len(weights)}", KIND.config, found | weights)
        head = drafted(target, folder)._reader._head
        assert head.embed_tokens is own


def test_the_head_of_a_quantised_model_drafts(tmp_path: Path) -> None:
    loaded = load(write_target(tmp_path / "target"), replace(CPU, quantisation="int8"))
    drafted(loaded, write_head(tmp_path / "head", KIND.config, random_weights(KIND)))


def test_a_model_that_takes_no_draft_trees_has_no_use_for_it(target: LoadedModel, tmp_path: Path) -> None:
    assert isinstance(target.runner, BlockRunner)
    chains = replace(target, runner=SequentialRunner(target.runner.model, 256))
    with pytest.raises(
        BadOption, match=r"drafts here only for models that take draft trees: choose no draft model"
    ):
        with_draft_model(chains, write_head(tmp_path / "head", KIND.config, random_weights(KIND)), CPU)


def test_a_head_is_no_model_and_the_old_one_stays(tmp_path: Path) -> None:
    head = write_head(tmp_path / "head", KIND.config, random_weights(KIND))
    session = Session(Places({"target": write_target(tmp_path / "target").path, "head": head.path}))
    loaded = session.open(CPU, no_progress)
    with pytest.raises(OnlyDrafts) as refused:
        session.open(replace(CPU, name="head"), no_progress)
    assert str(refused.value) == (
        "head is an EAGLE-3 head, which writes no text of its own: load org/target, and choose this as its draft "
        "model."
    )
    assert session.open(CPU, no_progress) is loaded
    session.close()


Change = Callable[[Weights], Weights]


def without(*names: str) -> Change:
    return lambda weights: {name: one for name, one in weights.items() if name not in names}


def plus(**others: torch.Tensor) -> Change:
    return lambda weights: weights | {name.replace("__", "."): one for name, one in others.items()}


DOUBLED = tables()["d2t"].index_fill(0, torch.tensor([1]), -1)
BROKEN_WEIGHTS: dict[str, tuple[Change, str]] = {
    "missing": (without("fc.weight"), "its weights have no fc.weight"),
    "missing norm": (
        without("layers.0.hidden_norm.weight"),
        "its weights have no layers.0.hidden_norm.weight",
    ),
    "missing table": (without("d2t"), "its weights have no d2t"),
    "shape": (
        plus(fc__weight=torch.ones(WIDTH, 2 * WIDTH)),
        f"fc.weight has the shape [{WIDTH}, {2 * WIDTH}], but by its config it should have [{WIDTH}, {3 * WIDTH}]",
    ),
    "embedding": (
        plus(embed_tokens__weight=torch.ones(7, WIDTH)),
        "embed_tokens.weight has the shape [7, 32]",
    ),
    "stored": (plus(norm__weight=torch.ones(WIDTH, dtype=torch.int8)), "norm.weight is stored as I8"),
    "table": (
        plus(d2t=tables()["d2t"] + VOCABULARY),
        "d2t refers to tokens that do not exist, or to a token twice",
    ),
    "below": (plus(d2t=tables()["d2t"] - 1), "d2t refers to tokens that do not exist, or to a token twice"),
    "twice": (plus(d2t=DOUBLED), "d2t refers to tokens that do not exist, or to a token twice"),
    "tables": (plus(t2d=~tables()["t2d"]), "d2t and t2d contradict each other"),
    "not numbers": (plus(fc__weight=torch.full((WIDTH, 3 * WIDTH), torch.nan)), "its trial failed ("),
}


@pytest.mark.parametrize("broken", BROKEN_WEIGHTS.values(), ids=BROKEN_WEIGHTS)
def test_weights_that_do_not_fit_are_refused(
    target: LoadedModel, tmp_path: Path, broken: tuple[Change, str]
) -> None:
    change, words = broken
    refuse(target, write_head(tmp_path / "head", KIND.config, change(random_weights(KIND))), words)


def test_a_file_that_was_cut_off_is_refused(target: LoadedModel, tmp_path: Path) -> None:
    folder = write_head(tmp_path / "head", KIND.config, random_weights(KIND))
    file = folder.path / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-1000])
    refuse(target, folder, "its trial failed (")
    file.unlink()
    refuse(target, folder, "its weights have no fc.weight")


def refuse(target: LoadedModel, folder: ModelFolder, words: str) -> None:
    with pytest.raises(BadOption) as refused:
        with_draft_model(target, folder, CPU)
    sentence = str(refused.value)
    assert sentence.startswith(f"head cannot draft for target, because {words}"), sentence
    assert sentence.endswith(": choose another draft model, or none."), sentence
    assert len(sentence) < 400
    assert hooks_of(target) == 0


BROKEN_CONFIGS: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "other states": (
        {},
        {"target_hidden_size": 64},
        "reads hidden states of size 64, and the model's have size 32",
    ),
    "other vocabulary": ({"vocab_size": 5000}, {}, "vocabulary of 5,000 tokens, and the model's has 4,096"),
    "layers beyond": (
        {},
        {"eagle_aux_hidden_state_layer_ids": [1, 2, 5]},
        "after layer 5, but there are 4 layers",
    ),
    "one layer more": ({"num_hidden_layers": 2}, {}, "its weights have no layers.1."),
    "wide": ({"hidden_size": 200_000}, {"target_hidden_size": 32}, "has the shape"),
    "rotary table": (
        {"rope_parameters": {"rope_type": "dynamic", "factor": 2.0}},
        {},
        "its rotary table depends",
    ),
    "unknown table": ({"rope_parameters": {"rope_type": "spiral"}}, {}, "trial failed ("),
    "unknown activation": ({"hidden_act": "magic"}, {}, "trial failed ("),
    "odd heads": ({"num_attention_heads": 3}, {}, "trial failed ("),
}


@pytest.mark.parametrize("broken", BROKEN_CONFIGS.values(), ids=BROKEN_CONFIGS)
def test_configs_that_do_not_fit_are_refused(
    target: LoadedModel, tmp_path: Path, broken: tuple[dict[str, Any], dict[str, Any], str]
) -> None:
    layer, changes, words = broken
    folder = write_head(tmp_path / "head", config_of(LAYER | layer, **changes), random_weights(KIND))
    with pytest.raises(BadOption) as refused:
        with_draft_model(target, folder, CPU)
    assert words in str(refused.value)
    assert hooks_of(target) == 0


IMPOSSIBLE: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "another kind": ({}, {"speculators_model_type": "dflash"}, "a speculator of the kind 'dflash'"),
    "no layer": ({}, {"transformer_layer_config": None}, "cannot be that of an EAGLE-3 head ("),
    "other layer": ({"model_type": "mamba"}, {}, "model_type must be one of llama, qwen3; it is “mamba”"),
    "no size": ({"hidden_size": None}, {}, "hidden_size"),
    "huge": ({"intermediate_size": 10**30}, {}, "intermediate_size must be from 1 to 2,000,000"),
    "many layers": ({"num_hidden_layers": 9}, {}, "num_hidden_layers must be from 1 to 8"),
    "negative": ({"head_dim": -8}, {}, "head_dim must be from 1 to 20,000"),
    "a word": ({"vocab_size": "many"}, {}, "vocab_size must be from 1"),
    "true": ({"num_attention_heads": True}, {}, "num_attention_heads must be from 1"),
    "names more": ({}, {"draft_vocab_size": VOCABULARY + 1}, "draft_vocab_size must be from 1 to 4,096"),
    "no layer 0": ({}, {"eagle_aux_hidden_state_layer_ids": [0, 1, 2]}, "layer_ids must be from 1"),
    "many states": (
        {},
        {"eagle_aux_hidden_state_layer_ids": [1] * 9},
        "the number of states that it reads must be at most 8; it is 9",
    ),
    "layers in words": ({}, {"eagle_aux_hidden_state_layer_ids": "low"}, "layer_ids must be from 1"),
    "two norms": (
        {},
        {"norm_before_fc": True, "fc_norm": True},
        "norm_before_fc must be off if fc_norm is on",
    ),
    "window": ({"layer_types": ["sliding_attention"]}, {}, "its attention has a sliding window"),
}


@pytest.mark.parametrize("broken", IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_impossible_configs_are_refused_before_anything_is_loaded(
    tmp_path: Path, broken: tuple[dict[str, Any], dict[str, Any], str]
) -> None:
    layer, changes, words = broken
    folder = write_head(tmp_path / "head", config_of(LAYER | layer, **changes), {"fc.weight": torch.ones(1)})
    with pytest.raises(ModelBroken) as refused:
        head_sizes(folder.path, folder.name)
    assert words in str(refused.value)
    assert len(str(refused.value)) < 400


def test_a_head_that_is_refused_leaves_the_old_model_loaded(tmp_path: Path) -> None:
    head = write_head(tmp_path / "head", KIND.config, without("fc.weight")(random_weights(KIND)))
    session = Session(Places({"target": write_target(tmp_path / "target").path, "head": head.path}))
    session.open(CPU, no_progress)
    with pytest.raises(AppError, match=r"no fc\.weight"):
        session.open(replace(CPU, draft_model="head"), no_progress)
    assert session.info is not None
    assert not session.info.draft_model
    session.close()


def test_the_layout_is_the_published_one(tmp_path: Path) -> None:
    """Of a head of one layer, made of Llama's parts, in the order of its file."""
    write_head(tmp_path / "head", KIND.config, random_weights(KIND))
    assert sorted(load_file(tmp_path / "head" / "model.safetensors")) == [
        "d2t",
        "embed_tokens.weight",
        "fc.weight",
        "layers.0.hidden_norm.weight",
        "layers.0.input_layernorm.weight",
        "layers.0.mlp.down_proj.weight",
        "layers.0.mlp.gate_proj.weight",
        "layers.0.mlp.up_proj.weight",
        "layers.0.post_attention_layernorm.weight",
        "layers.0.self_attn.k_proj.weight",
        "layers.0.self_attn.o_proj.weight",
        "layers.0.self_attn.q_proj.weight",
        "layers.0.self_attn.v_proj.weight",
        "lm_head.weight",
        "norm.weight",
        "t2d",
    ]


TEXT = list(numbers(100, seed=3))


def runner_of(zoo: Zoo, architecture: Architecture = LLAMA) -> BlockRunner:
    runner = zoo.runner(architecture)
    assert isinstance(runner, BlockRunner)
    return runner


def test_a_copy_is_always_right(zoo: Zoo) -> None:
    runner = runner_of(zoo)
    statistics = first_draft_statistics(runner, runner, TEXT, ZOO_VOCABULARY)
    assert statistics.gain == pytest.approx(1 - USUAL)
    assert runner.length == 0, "the text is dropped"


def test_one_that_knows_nothing_of_the_target_brings_nothing(zoo: Zoo) -> None:
    statistics = first_draft_statistics(runner_of(zoo), runner_of(zoo, GEMMA3), TEXT, ZOO_VOCABULARY)
    assert statistics.gain == 0


@pytest.mark.parametrize("text", [[], TEXT[:ROWS]], ids=["none", "short"])
def test_a_text_that_is_too_short_tells_nothing(zoo: Zoo, text: list[int]) -> None:
    runner = runner_of(zoo)
    assert first_draft_statistics(runner, runner_of(zoo), text, ZOO_VOCABULARY) == DraftModelStatistics()


def test_logits_are_those_of_one_pass_after_another(zoo: Zoo) -> None:
    runner = runner_of(zoo)
    text = TEXT[: 1 + CHUNKS * ROWS]
    found = logits_along(runner, text)
    assert len(found) == len(text)
    again = logits_along(runner, text[: 1 + ROWS])
    assert torch.allclose(found[: 1 + ROWS], again, atol=1e-5)
