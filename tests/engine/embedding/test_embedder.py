"""Sentence-embedding models, read from their folders."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoTokenizer

from app.engine.embedding.embedder import SentenceModels, embed_anywhere, load_sentence_model, on_device
from app.errors import ModelBroken
from app.values.messages import ModelFolder
from tests.engine.sentences import CONTEXT, real_folder, write_sentence_model

TEXTS = ["the cat sleeps", "a dog runs in the garden", "the car"]


def hidden(folder: Path, text: str) -> torch.Tensor:
    """The last rows of the encoder, by transformers alone."""
    encoded = AutoTokenizer.from_pretrained(folder)(text, return_tensors="pt")
    with torch.inference_mode():
        rows: torch.Tensor = AutoModel.from_pretrained(folder)(**encoded).last_hidden_state[0]
    return rows


@pytest.mark.parametrize(
    ("pooling", "by_hand"),
    [
        ("mean_tokens", lambda rows: rows.mean(0)),
        ("cls_token", lambda rows: rows[0]),
        ("max_tokens", lambda rows: rows.amax(0)),
    ],
)
def test_rows_become_a_vector_as_the_folder_says(tmp_path: Path, pooling: str, by_hand: object) -> None:
    folder = write_sentence_model(tmp_path / "model", pooling)
    made = load_sentence_model(folder, "cpu").embed(TEXTS)
    for text, vector in zip(TEXTS, made, strict=True):
        expected = by_hand(hidden(folder.path, text))  # type: ignore[operator]
        np.testing.assert_allclose(vector, (expected / expected.norm()).numpy(), atol=1e-5)


def test_a_text_has_the_same_vector_alone_and_among_others(tmp_path: Path) -> None:
    model = load_sentence_model(write_sentence_model(tmp_path / "model"), "cpu")
    together = model.embed([*TEXTS, "cat " * 12])
    for number, text in enumerate(TEXTS):
        np.testing.assert_allclose(together[number], model.embed([text])[0], atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(together, axis=1), 1, atol=1e-5)


def test_the_end_of_a_long_text_counts(tmp_path: Path) -> None:
    model = load_sentence_model(write_sentence_model(tmp_path / "model"), "cpu")
    beginning = "the cat sleeps " * 10
    one, other = model.embed([beginning + "in the house", beginning + "lease ends may"])
    assert float(one @ other) < 0.9999


@pytest.mark.parametrize(("family", "tokens"), [("Bert", CONTEXT), ("Roberta", CONTEXT - 1)])
def test_a_window_has_the_positions_that_are_not_the_paddings(
    tmp_path: Path, family: str, tokens: int
) -> None:
    model = load_sentence_model(write_sentence_model(tmp_path / "model", family=family), "cpu")
    assert model.most_tokens == tokens
    assert model.embed(["the cat sleeps " * 10]).shape == (1, 32)


def test_no_texts_and_an_empty_text_have_vectors_too(tmp_path: Path) -> None:
    model = load_sentence_model(write_sentence_model(tmp_path / "model"), "cpu")
    assert model.embed([""]).shape == (1, 32)
    assert model.embed([]).shape == (0, 32)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"modules": ("Dense",)}, "layers that Foresight does not know"),
        ({"pooling": "lasttoken"}, "uses a pooling"),
    ],
)
def test_what_is_not_understood_is_refused(tmp_path: Path, change: dict[str, object], words: str) -> None:
    folder = write_sentence_model(tmp_path / "model", **change)  # type: ignore[arg-type]
    with pytest.raises(ModelBroken, match=words):
        load_sentence_model(folder, "cpu")


def test_a_token_without_weights_never_reaches_the_model(tmp_path: Path) -> None:
    folder = write_sentence_model(tmp_path / "model")
    tokenizer = AutoTokenizer.from_pretrained(folder.path)
    tokenizer.add_tokens(["zebra"])
    tokenizer.save_pretrained(folder.path)
    model = load_sentence_model(folder, "cpu")
    assert model.embed(TEXTS).shape == (3, 32)
    with pytest.raises(ModelBroken, match=r"\(token 19 of 19\)"):
        model.embed(["the zebra sleeps"])


def test_a_folder_without_notes_on_pooling_is_averaged_and_one_without_weights_refused(
    tmp_path: Path,
) -> None:
    folder = write_sentence_model(tmp_path / "model")
    before = load_sentence_model(folder, "cpu").embed(TEXTS)
    (folder.path / "1_Pooling" / "config.json").unlink()
    (folder.path / "modules.json").unlink()
    np.testing.assert_array_equal(load_sentence_model(folder, "cpu").embed(TEXTS), before)
    (folder.path / "model.safetensors").unlink()
    with pytest.raises(ModelBroken, match="could not be loaded"):
        load_sentence_model(folder, "cpu")


@pytest.mark.parametrize("content", ["{", "[]", "7"])
def test_a_broken_note_on_the_length_is_a_sentence(tmp_path: Path, content: str) -> None:
    folder = write_sentence_model(tmp_path / "model")
    (folder.path / "sentence_bert_config.json").write_text(content)
    with pytest.raises(ModelBroken, match="could not be loaded"):
        load_sentence_model(folder, "cpu")


def test_the_newer_word_for_pooling_is_understood(tmp_path: Path) -> None:
    folder = write_sentence_model(tmp_path / "model", "cls_token")
    before = load_sentence_model(folder, "cpu").embed(TEXTS)
    (folder.path / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode": "cls"}))
    np.testing.assert_array_equal(load_sentence_model(folder, "cpu").embed(TEXTS), before)


def test_one_model_is_kept_until_another_is_asked_for(tmp_path: Path) -> None:
    models = SentenceModels()
    one = write_sentence_model(tmp_path / "one", "mean_tokens")
    other = write_sentence_model(tmp_path / "other", "cls_token")
    first = models.embed(one, TEXTS)
    assert not np.allclose(models.embed(other, TEXTS), first)
    np.testing.assert_array_equal(models.embed(one, TEXTS), first)


def test_the_real_model_gives_the_vectors_of_sentence_transformers_and_knows_what_words_mean() -> None:
    folder = real_folder()
    if folder is None:
        pytest.skip("all-MiniLM-L6-v2 is not installed")
    model = load_sentence_model(ModelFolder(folder, name="minilm"), "cpu")
    made = model.embed(["That is a happy person", "That is a very happy person", "Today is a sunny day"])
    assert made.shape == (3, 384)
    # What the model's own page gives for these sentences.
    assert float(made[0] @ made[1]) == pytest.approx(0.943, abs=0.002)
    assert float(made[0] @ made[2]) == pytest.approx(0.257, abs=0.002)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a card")
def test_where_the_card_refuses_texts_are_embedded_on_the_cpu(tmp_path: Path) -> None:
    model = load_sentence_model(write_sentence_model(tmp_path / "model"), "cpu")
    expected = model.embed(TEXTS)
    np.testing.assert_array_equal(on_device(model, torch.device("cuda")).embed(TEXTS), expected)
    assert model.model.device.type == "cpu"


class FullCard:
    """An encoder on a card whose memory a chat has filled."""

    def __init__(self) -> None:
        self.model = self
        self.device = torch.device("cuda")

    def train(self, _mode: bool) -> "FullCard":
        return self

    def to(self, device: str) -> None:
        self.device = torch.device(device)

    def embed(self, texts: list[str], _on_tokens: Any) -> np.ndarray:
        if self.device.type == "cuda":
            raise torch.OutOfMemoryError("CUDA out of memory")
        return np.ones((len(texts), 2), np.float32)


def test_where_the_cards_memory_runs_out_texts_are_embedded_on_the_cpu() -> None:
    model: Any = FullCard()
    assert embed_anywhere(model, TEXTS).shape == (3, 2)
    assert model.device.type == "cpu"


def test_tokens_that_are_read_again_on_the_cpu_are_counted_once(tmp_path: Path) -> None:
    model, counts = load_sentence_model(write_sentence_model(tmp_path / "model"), "cpu"), list[int]()
    model.embed(TEXTS, counts.append)
    expected, full = sum(counts), [torch.OutOfMemoryError("CUDA out of memory")]

    def fill(*_: Any) -> None:
        if full:
            raise full.pop()

    counts.clear()
    model.model.register_forward_pre_hook(fill)
    with pytest.raises(torch.OutOfMemoryError):
        model.embed(TEXTS, counts.append)
    model.embed(TEXTS, counts.append)
    assert sum(counts) == expected
