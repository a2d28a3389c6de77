"""A chat template is found wherever a model keeps it, and nothing in a broken folder is raised."""

import json
from pathlib import Path

import pytest

from app.models_registry import Hub, template_here
from app.models_registry.files.chat_template import LARGEST, chat_template

NOWHERE = Hub(endpoint="http://127.0.0.1:9", cache=Path("no-such-cache"))


def config(template: object) -> str:
    return json.dumps({"chat_template": template})


SEVERAL = [{"name": "default", "template": "A"}, {"name": "tool_use", "template": "B"}]
FOLDERS: dict[str, tuple[dict[str, str], str]] = {
    "a file": ({"chat_template.jinja": "A", "tokenizer_config.json": config("B")}, "A"),
    "one for tools": ({"chat_template.jinja": "A", "additional_chat_templates/tool_use.jinja": "B"}, "B"),
    "in the config": ({"tokenizer_config.json": config("A")}, "A"),
    "several in the config": ({"tokenizer_config.json": config(SEVERAL)}, "B"),
    "nothing for tools": ({"tokenizer_config.json": config(SEVERAL[:1])}, "A"),
    "of no sense": ({"tokenizer_config.json": config([1, {"name": "tool_use", "template": 5}])}, ""),
    "no JSON": ({"tokenizer_config.json": "{"}, ""),
    "a list": ({"tokenizer_config.json": "[]"}, ""),
    "too large": ({"tokenizer_config.json": config("A") + " " * LARGEST}, ""),
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


def test_the_demo_models_and_that_of_none() -> None:
    assert "messages" in template_here("demo", NOWHERE)
    assert template_here("org/not-here", NOWHERE) == ""
