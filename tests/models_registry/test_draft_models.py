"""Which models are offered as draft models: smaller ones with the same vocabulary."""

import json
from pathlib import Path

from app.models_registry.model_library import draft_models_for, known_draft_model
from app.values.model import DraftModels, InstalledModel, InstalledState
from tests.models_registry.model_files import safetensors, write


def model(
    base: Path, name: str, size: int, vocabulary: dict[str, int], state: InstalledState = "ready"
) -> InstalledModel:
    """Its weights are so many numbers; the more they are, the fewer its bytes."""
    folder = write(base / name, {"model.safetensors": safetensors(size)})
    (folder / "tokenizer.json").write_text(json.dumps({"model": {"vocab": vocabulary}}))
    return InstalledModel(name, folder, "folder", 1000 - size, state=state)


def test_smaller_models_with_the_same_vocabulary_are_offered_the_smallest_first(tmp_path: Path) -> None:
    same, other = {"a": 0, "b": 1}, {"a": 0, "c": 1}
    target = model(tmp_path, "target", 100, same)
    found = [
        model(tmp_path, "middle", 50, same),
        model(tmp_path, "foreign", 10, other),
        model(tmp_path, "small", 20, same),
        model(tmp_path, "half", 5, same, state="incomplete"),
        model(tmp_path, "large", 200, same),
    ]
    offered = draft_models_for(target, [target, *found])
    assert [one.name for one in offered.installed] == ["small", "middle"]


def test_models_without_a_vocabulary_to_compare_are_not_offered(tmp_path: Path) -> None:
    both = [
        InstalledModel(name, tmp_path / f"{name}.gguf", "folder", size)
        for name, size in (("large", 9), ("small", 1))
    ]
    assert draft_models_for(both[0], both) == DraftModels()


def test_known_pairs_go_by_the_models_name() -> None:
    assert known_draft_model("HuggingFaceTB/SmolLM2-1.7B-Instruct").endswith("SmolLM2-135M-Instruct")
    assert known_draft_model("Qwen/Qwen3-8B") == known_draft_model("qwen3-8b") == "Qwen/Qwen3-0.6B"
    assert known_draft_model("Qwen/Qwen3-0.6B") == known_draft_model("org/other") == ""
