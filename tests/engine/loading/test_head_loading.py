"""Which heads draft, and what is said of those that do not. Whatever is wrong with them, the model is used."""

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from app.engine.loading.head_loading import drafting_heads, read_heads
from app.engine.loading.loading import LoadedModel, load
from app.engine.runner.runner import BlockRunner
from app.engine.runner.sequential_runner import SequentialRunner
from app.values.messages import ModelChoice, ModelFolder
from tests.engine.heads import write_with_head
from tests.engine.tiny import write_tiny
from tests.tiers import some

CPU = ModelChoice("target", dtype="float32", device="cpu")
CONTAINS = "This checkpoint contains heads for multi-token prediction"

Weights = dict[str, Tensor]


@pytest.fixture(scope="module")
def carrying(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_with_head(tmp_path_factory.mktemp("head") / "carrying").path


def changed(folder: Path, to: Path, change: Callable[[Weights], Weights]) -> ModelFolder:
    """A copy of a model with other weights in its file."""
    shutil.copytree(folder, to)
    path = to / "model.safetensors"
    save_file(change(load_file(path)), path, {"format": "pt"})
    return ModelFolder(to, to.name)


def hooks_of(loaded: LoadedModel) -> int:
    assert isinstance(loaded.runner, BlockRunner)
    return len(loaded.runner.model.get_decoder()._forward_hooks)


def test_a_head_that_passes_its_trial_drafts(carrying: Path) -> None:
    loaded = load(ModelFolder(carrying, "carrying"), CPU)
    (source,) = loaded.draft_models
    assert loaded.info.heads
    assert (
        loaded.info.note("heads")
        == "Its own head for multi-token prediction guesses tokens, too, if that saves time."
    )
    assert "heads" not in loaded.info.refusals
    assert 0 < source.budget.question < 1
    assert hooks_of(loaded) == 1


def test_the_head_of_a_quantised_model_drafts(carrying: Path) -> None:
    loaded = load(ModelFolder(carrying, "carrying"), replace(CPU, quantisation="int8"))
    assert loaded.info.heads, loaded.info.note("heads")


def test_a_model_without_heads_keeps_no_states(tmp_path: Path) -> None:
    loaded = load(write_tiny(tmp_path / "tiny"), CPU)
    assert (loaded.info.heads, loaded.info.note("heads"), loaded.draft_models) == (False, "", ())
    assert hooks_of(loaded) == 0


def test_heads_that_nobody_would_ask_are_not_read(carrying: Path) -> None:
    """Those of a draft model, and of a rank above 0."""
    loaded = load(ModelFolder(carrying, "carrying"), CPU, reads_heads=False)
    assert (loaded.info.heads, loaded.info.note("heads"), loaded.draft_models) == (False, "", ())
    assert hooks_of(loaded) == 0


def test_heads_that_transformers_drops_are_told_of(tmp_path: Path) -> None:
    write_tiny(tmp_path / "tiny")
    folder = changed(
        tmp_path / "tiny", tmp_path / "other", lambda weights: weights | {"mtp.fc.weight": torch.ones(2, 2)}
    )
    loaded = load(folder, CPU)
    assert loaded.info.note("heads") == f"{CONTAINS} that transformers does not load."
    assert loaded.info.refusals["heads"] == loaded.info.note("heads")
    assert not loaded.draft_models


@pytest.mark.parametrize("more", ["mtp.layers.1.self_attn.k_proj.weight", "mtp.embed_tokens.weight"])
def test_heads_of_several_layers_or_with_an_embedding_are_told_of(tmp_path: Path, more: str) -> None:
    write_with_head(tmp_path / "one", "qwen3.5")
    folder = changed(
        tmp_path / "one", tmp_path / "more", lambda weights: weights | {more: torch.ones(32, 32)}
    )
    loaded = load(folder, CPU)
    assert loaded.info.note("heads") == f"{CONTAINS} that transformers does not load."
    assert not loaded.draft_models


@pytest.mark.parametrize("kind", some({"qwen3.5": "qwen3.5", "qwen3.5-moe": "qwen3.5-moe"}, "qwen3.5"))
def test_the_head_of_a_model_that_reads_pictures_drafts(tmp_path: Path, kind: str) -> None:
    """Qwen3.5 is published so: the text model inside, the head beside it."""
    write_with_head(tmp_path / "text", kind)
    folder = changed(
        tmp_path / "text",
        tmp_path / "whole",
        lambda weights: {
            re.sub(r"^model\.", "model.language_model.", name): weights[name] for name in weights
        },
    )
    config = json.loads((folder.path / "config.json").read_text())
    tower = {"depth": 1, "hidden_size": 16, "intermediate_size": 16, "num_heads": 2, "out_hidden_size": 32}
    whole = {
        "model_type": config["model_type"].removesuffix("_text"),
        "text_config": config | {"mtp_num_hidden_layers": 1},
        "vision_config": tower,
    }
    (folder.path / "config.json").write_text(json.dumps(whole))
    loaded = load(folder, CPU)
    assert loaded.info.heads, loaded.info.note("heads")
    assert loaded.info.note("parts") == "It is loaded as a text model: pictures are not read here."


def test_a_model_that_takes_no_draft_trees_has_no_use_for_them(carrying: Path) -> None:
    loaded = load(ModelFolder(carrying, "carrying"), CPU)
    assert isinstance(loaded.runner, BlockRunner)
    model = loaded.runner.model
    runner, carried = SequentialRunner(model, 256), (read_heads(model), "")
    info, sources = drafting_heads(carried, model, runner, loaded.info)
    assert (sources, info.note("heads")) == (
        (),
        f"{CONTAINS}, which are used here only for models that take draft trees.",
    )


def _incomplete(weights: Weights) -> Weights:
    del weights["model.layers.2.enorm.weight"]
    return weights


def _not_numbers(weights: Weights) -> Weights:
    return weights | {"model.layers.2.eh_proj.weight": torch.full((32, 64), torch.nan)}


def _of_another_size(weights: Weights) -> Weights:
    return weights | {"model.layers.2.eh_proj.weight": torch.ones(32, 32)}


@pytest.mark.parametrize("change", [_incomplete, _not_numbers, _of_another_size])
def test_a_head_that_fails_its_trial_leaves_the_model_as_it_is(
    carrying: Path, tmp_path: Path, change: Callable[[Weights], Weights]
) -> None:
    loaded = load(changed(carrying, tmp_path / "changed", change), CPU)
    assert loaded.info.note("heads").startswith(f"{CONTAINS}, whose trial failed (")
    assert not loaded.info.heads
    assert not loaded.draft_models
    assert hooks_of(loaded) == 0
    assert loaded.can_draft


def test_heads_of_a_checkpoint_of_several_files_draft_too(carrying: Path, tmp_path: Path) -> None:
    whole = load_file(carrying / "model.safetensors")
    parts = {"model-1.safetensors": dict(list(whole.items())[:9])}
    parts["model-2.safetensors"] = {
        name: whole[name] for name in whole if name not in parts["model-1.safetensors"]
    }
    folder = Path(shutil.copytree(carrying, tmp_path / "parts"))
    (folder / "model.safetensors").unlink()
    for file, weights in parts.items():
        save_file(weights, folder / file, {"format": "pt"})
    places = {name: file for file, weights in parts.items() for name in weights}
    index = {"metadata": {"total_size": 0}, "weight_map": places}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    assert load(ModelFolder(folder, "parts"), CPU).info.heads


def test_without_weights_a_config_that_tells_of_heads_is_no_matter(carrying: Path, tmp_path: Path) -> None:
    folder = changed(
        carrying,
        tmp_path / "without",
        lambda weights: {name: weight for name, weight in weights.items() if ".layers.2." not in name},
    )
    loaded = load(folder, CPU)
    assert (loaded.info.note("heads"), loaded.draft_models) == ("", ())


def test_a_draft_model_that_was_chosen_drafts_alone(carrying: Path) -> None:
    loaded = load(ModelFolder(carrying, "carrying"), replace(CPU, draft_model="another"))
    assert (loaded.info.heads, loaded.info.note("heads"), loaded.draft_models) == (False, "", ())
