"""Models have the same tokenizer where all their tokens have the same ids."""

import json
from pathlib import Path

import pytest
from transformers import AutoTokenizer

from app.settings import assets_dir
from app.values.tokenizer_vocabulary import digest_of, vocabulary_digest


def write(folder: Path, text: str) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "tokenizer.json").write_text(text)
    return folder


def tokenizer(vocabulary: object, *added: tuple[str, int]) -> str:
    listed = [{"content": token, "id": number} for token, number in added]
    return json.dumps({"model": {"vocab": vocabulary}, "added_tokens": listed})


def test_the_file_says_what_the_tokenizer_itself_says() -> None:
    demo = assets_dir() / "demo-model"
    assert vocabulary_digest(demo) == digest_of(AutoTokenizer.from_pretrained(demo).get_vocab())


def test_order_does_not_matter_and_every_token_does(tmp_path: Path) -> None:
    one = vocabulary_digest(write(tmp_path / "a", tokenizer({"x": 0, "y": 1}, ("<s>", 2))))
    assert one == vocabulary_digest(write(tmp_path / "b", tokenizer({"<s>": 2, "y": 1, "x": 0})))
    assert one == vocabulary_digest(write(tmp_path / "c", tokenizer([["x", -1.0], ["y", -2.0]], ("<s>", 2))))
    assert one != vocabulary_digest(write(tmp_path / "d", tokenizer({"x": 1, "y": 0}, ("<s>", 2))))
    assert one != vocabulary_digest(write(tmp_path / "e", tokenizer({"x": 0, "y": 1})))


def test_a_file_that_was_changed_is_read_again(tmp_path: Path) -> None:
    folder = write(tmp_path / "a", tokenizer({"x": 0}))
    before = vocabulary_digest(folder)
    assert before != vocabulary_digest(write(folder, tokenizer({"x": 0, "y": 1})))


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"model": 5}', '{"model": {"vocab": {"x": "y"}}}', "[" * 100_000]
)
def test_what_makes_no_sense_is_like_no_other(tmp_path: Path, text: str) -> None:
    assert vocabulary_digest(write(tmp_path / "a", text)) == ""
    assert vocabulary_digest(tmp_path / "nowhere") == ""
