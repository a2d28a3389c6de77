"""A model's own temperature."""

import json
from pathlib import Path

import pytest

from app.models_registry.files.generation import USUAL, own_temperature
from app.settings import assets_dir


@pytest.mark.parametrize(
    ("config", "temperature"),
    [
        ({"temperature": 0.6, "do_sample": True}, 0.6),
        ({"temperature": 0.6}, 0.6),
        ({"do_sample": False, "temperature": 0.6}, 0.0),
        ({"temperature": 0}, 0.0),
        ({"eos_token_id": 2}, USUAL),
        ({"temperature": None}, USUAL),
        ({"temperature": "hot"}, USUAL),
        ({"temperature": True}, USUAL),
        ({"temperature": 1e9}, USUAL),
        ([], USUAL),
    ],
)
def test_the_model_names_its_temperature(config: object, temperature: float, tmp_path: Path) -> None:
    (tmp_path / "generation_config.json").write_text(json.dumps(config))
    assert own_temperature(tmp_path) == temperature


def test_a_file_that_cannot_be_read_names_none(tmp_path: Path) -> None:
    assert own_temperature(tmp_path) == USUAL
    file = tmp_path / "generation_config.json"
    for content in (b"[[[", b"\xff\xfe", b"[" * 100_000, b" " * 2_000_001):
        file.write_bytes(content)
        assert own_temperature(tmp_path) == USUAL
    file.unlink()
    file.mkdir()
    assert own_temperature(tmp_path) == USUAL


def test_the_demo_model_is_greedy() -> None:
    assert own_temperature(assets_dir() / "demo-model") == 0.0
