"""A model's temperature and chat template are found wherever it keeps them; a broken folder raises nothing."""

import json
from pathlib import Path

import pytest
from gguf import GGUFWriter

from app.models_registry.files.config import (
    LARGEST_TEMPLATE_CONFIG,
    USUAL_TEMPERATURE,
    chat_template,
    own_temperature,
)
from app.models_registry.hub.hub import Hub
from app.models_registry.locate import template_here

NOWHERE = Hub(endpoint="http://127.0.0.1:9", cache=Path("no-such-cache"))


def config(template: object) -> str:
    return json.dumps({"chat_template": template})


SEVERAL = [{"name": "default", "template": "A"}, {"name": "tool_use", "template": "B"}]
FOLDERS: dict[str, tuple[dict[str, str], str]] = {
    "a file": ({"chat_template.jinja": "A", "tokenizer_config.json": config("B")}, "A"),
    "one for tools": ({"chat_template.jinja": "A", "additional_chat_templates/tool_use.jinja": "B"}, "B"),
    "in the config": ({"tokenizer_config.json": config("A")}, "A"),
    "several in the config": ({"tokenizer_config.json": config(SEVERAL)}, "B"),
    "no default in the config": ({"tokenizer_config.json": config([{"name": "rag", "template": "A"}])}, "A"),
    "nothing for tools": ({"tokenizer_config.json": config(SEVERAL[:1])}, "A"),
    "of no sense": ({"tokenizer_config.json": config([1, {"name": "tool_use", "template": 5}])}, ""),
    "no JSON": ({"tokenizer_config.json": "{"}, ""),
    "a list": ({"tokenizer_config.json": "[]"}, ""),
    "too large": ({"tokenizer_config.json": config("A") + " " * LARGEST_TEMPLATE_CONFIG}, ""),
    "nothing": ({}, ""),
}


@pytest.mark.parametrize("kind", FOLDERS)
def test_the_template_of_a_folder(kind: str, tmp_path: Path) -> None:
    files, expected = FOLDERS[kind]
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    assert chat_template(tmp_path) == expected
    assert template_here(str(tmp_path), NOWHERE) == expected


@pytest.mark.parametrize("name", ["", ".rag", ".chat"])
def test_the_template_of_a_gguf_file_may_have_a_name(name: str, tmp_path: Path) -> None:
    writer = GGUFWriter(tmp_path / "a.gguf", "llama")
    writer.add_string(f"tokenizer.chat_template{name}", "A")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    assert chat_template(tmp_path / "a.gguf") == "A"


def test_the_demo_models_and_that_of_none() -> None:
    assert "messages" in template_here("demo", NOWHERE)
    assert template_here("org/not-here", NOWHERE) == ""


@pytest.mark.parametrize(
    ("config", "temperature"),
    [
        ({"temperature": 0.6, "do_sample": True}, 0.6),
        ({"temperature": 0.6}, 0.6),
        ({"do_sample": False, "temperature": 0.6}, 0.0),
        ({"temperature": 0}, 0.0),
        ({"eos_token_id": 2}, USUAL_TEMPERATURE),
        ({"temperature": None}, USUAL_TEMPERATURE),
        ({"temperature": "hot"}, USUAL_TEMPERATURE),
        ({"temperature": True}, USUAL_TEMPERATURE),
        ({"temperature": 1e9}, USUAL_TEMPERATURE),
        ([], USUAL_TEMPERATURE),
    ],
)
def test_the_model_names_its_temperature(config: object, temperature: float, tmp_path: Path) -> None:
    (tmp_path / "generation_config.json").write_text(json.dumps(config))
    assert own_temperature(tmp_path) == temperature


def test_a_file_that_cannot_be_read_names_none(tmp_path: Path) -> None:
    assert own_temperature(tmp_path) == USUAL_TEMPERATURE
    file = tmp_path / "generation_config.json"
    for content in (b"[[[", b"\xff\xfe", b"[" * 100_000, b" " * 2_000_001):
        file.write_bytes(content)
        assert own_temperature(tmp_path) == USUAL_TEMPERATURE
    file.unlink()
    file.mkdir()
    assert own_temperature(tmp_path) == USUAL_TEMPERATURE
