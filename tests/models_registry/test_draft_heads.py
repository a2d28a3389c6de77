"""A draft head on this machine: listed as what drafts, offered to models of its sizes, and no model itself."""

import json
from pathlib import Path

import pytest

from app.errors import ModelBroken, OnlyDrafts
from app.models_registry.files.fit_estimate import judge_folder
from app.models_registry.hub.hub import Hub
from app.models_registry.installed_models import installed, verify
from app.models_registry.locate import locate, locate_path
from app.models_registry.model_library import draft_models_for
from app.values.model import InstalledModel, Memory
from tests.models_registry.model_files import model_files, safetensors, silent, write

SIZES = {
    "hidden_size": 8,
    "intermediate_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "vocab_size": 16,
    "max_position_embeddings": 4096,
}
NOWHERE = Hub(endpoint="http://127.0.0.1:9", cache=Path("no-such-cache"), is_offline=True)
MEMORY = Memory("cpu", 8 * 10**9, 16 * 10**9)


def head_files(values: int = 64, **changes: object) -> dict[str, bytes]:
    """A head as published ones are: code beside it, which is never looked at, and no tokenizer."""
    config = {
        "speculators_model_type": "eagle3",
        "auto_map": {"": "eagle3.Eagle3SpeculatorConfig"},
        "draft_vocab_size": 4,
        "transformer_layer_config": {"model_type": "llama", **SIZES},
        **changes,
    }
    return {
        "config.json": json.dumps(config).encode(),
        "model.safetensors": safetensors(values),
        "eagle3.py": b"raise SystemExit",
    }


def assistant_files(**changes: object) -> dict[str, bytes]:
    """An assistant of Gemma 4, which may have a tokenizer."""
    text = {"model_type": "gemma4_text", **SIZES, "hidden_size": 4}
    config = {"model_type": "gemma4_assistant", "backbone_hidden_size": 8, "text_config": text, **changes}
    return {**model_files(), "config.json": json.dumps(config).encode(), "model.safetensors": safetensors(64)}


def whole(**sizes: int) -> dict[str, bytes]:
    return {**model_files(), "config.json": json.dumps({"model_type": "llama", **SIZES, **sizes}).encode()}


def listed(*folders: Path) -> dict[str, InstalledModel]:
    return {model.name: model for model in installed(NOWHERE, folders)}


def test_it_is_listed_as_what_drafts(tmp_path: Path) -> None:
    write(tmp_path / "head", head_files())
    write(tmp_path / "cut", {**head_files(), "model.safetensors": safetensors()[:-1]})
    write(
        tmp_path / "half", {name: file for name, file in head_files().items() if name != "model.safetensors"}
    )
    write(tmp_path / "other", head_files(speculators_model_type="dflash"))
    found = listed(tmp_path)
    assert found["head"].state == "draft head"
    assert found["head"].problem.startswith("head is an EAGLE-3 head, which writes no text of its own: load ")
    assert found["cut"].state == "unusable" and "is damaged" in found["cut"].problem
    assert found["half"].state == "incomplete"
    assert found["other"].state == "unusable" and "of the kind 'dflash'" in found["other"].problem
    assert verify(found["head"]) == []


@pytest.mark.parametrize("has_tokenizer", [True, False])
def test_an_assistant_is_a_draft_head_too(tmp_path: Path, has_tokenizer: bool) -> None:
    files = assistant_files() if has_tokenizer else {**assistant_files(), "tokenizer.json": None}
    folder = write(tmp_path / "helper", {name: file for name, file in files.items() if file is not None})
    target = write(tmp_path / "target", {**whole(), "model.safetensors": safetensors(128)})
    found = listed(tmp_path)
    assert found["helper"].state == "draft head"
    assert found["helper"].problem == (
        "helper is an assistant, which writes no text of its own: load the Gemma 4 model that it was trained for, "
        "and choose this as its draft model."
    )
    assert [one.name for one in draft_models_for(found["target"], found.values()).installed] == ["helper"]
    alone, both = (judge_folder(target, "target", MEMORY, "int8", 512, one) for one in (None, folder))
    assert both.need.weights == alone.need.weights + 64 * 4
    assert both.need.cache == alone.need.cache + 1024 * 4 * 8, "its target's state of each token"


@pytest.mark.parametrize(
    "changes", [{"backbone_hidden_size": 10**12}, {"backbone_hidden_size": None}, {"text_config": None}]
)
def test_an_assistant_with_impossible_sizes_is_refused(tmp_path: Path, changes: dict[str, object]) -> None:
    folder = write(tmp_path / "helper", assistant_files(**changes))
    with pytest.raises(
        ModelBroken, match=r"helper cannot be that of an assistant \((backbone_hidden|vocab)_size must"
    ):
        locate(str(folder), silent, NOWHERE)


def test_it_is_found_as_a_draft_model_and_is_no_model(tmp_path: Path) -> None:
    folder = write(tmp_path / "head", head_files())
    assert locate(str(folder), silent, NOWHERE).path == folder
    with pytest.raises(OnlyDrafts, match="choose this as its draft model"):
        locate_path(str(folder))
    broken = write(tmp_path / "broken", head_files(draft_vocab_size=10**12))
    with pytest.raises(ModelBroken, match="draft_vocab_size must be from 1 to 16"):
        locate(str(broken), silent, NOWHERE)


def test_one_in_the_hubs_cache_is_all_there(tmp_path: Path) -> None:
    hub, commit = Hub(cache=tmp_path, is_offline=True), 40 * "a"
    folder = write(tmp_path / "models--org--head" / "snapshots" / commit, head_files())
    write(tmp_path / "models--org--head" / "refs", {"main": commit.encode()})
    assert locate("org/head", silent, hub).path == folder


def test_it_is_offered_to_models_of_its_sizes_before_smaller_models(tmp_path: Path) -> None:
    models = {
        "target": whole(),
        "small": whole(),
        "wider": whole(hidden_size=9),
        "other": whole(vocab_size=17),
    }
    for name, files in models.items():
        vocabulary = {"model": {"vocab": {name if name in ("wider", "other") else "a": 0}}}
        values = 64 if name == "small" else 128
        write(
            tmp_path / name,
            {
                **files,
                "tokenizer.json": json.dumps(vocabulary).encode(),
                "model.safetensors": safetensors(values),
            },
        )
    write(tmp_path / "head", head_files(128))
    found = listed(tmp_path)
    offered = {
        name: [one.name for one in draft_models_for(found[name], found.values()).installed] for name in models
    }
    assert offered == {"target": ["head", "small"], "small": ["head"], "wider": [], "other": []}


def test_its_weights_and_its_states_count(tmp_path: Path) -> None:
    target, head = write(tmp_path / "target", whole()), write(tmp_path / "head", head_files(1_000_000))
    alone = judge_folder(target, "target", MEMORY, "int8", 512)
    both = judge_folder(target, "target", MEMORY, "int8", 512, head)
    assert both.need.weights == alone.need.weights + 4_000_000, "it is not quantised with the model"
    kept = 2 * 8 + 4 * 8  # keys and values, three states and its own
    assert both.need.cache == alone.need.cache + 1024 * 4 * kept
    with pytest.raises(OnlyDrafts):
        judge_folder(head, "head", MEMORY, "float32", 512)
