"""Embedding on the worker's thread: behind replies, a few texts at a time."""

from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import numpy as np
import pytest

from app.engine import Engine
from app.engine.embedding.embedder import load_sentence_model
from app.engine.embedding.job import PIECE, EmbeddingJob
from app.engine.text.sandbox import Sandbox
from app.errors import EngineClosed, ModelError
from app.values.messages import ModelFolder
from tests.engine.asking import CPU, SECONDS, ask
from tests.engine.places import Places
from tests.engine.sentences import write_sentence_model

TEXTS = [("the cat sleeps " * (1 + number % 3)).strip() + " in" * (number % 2) for number in range(11)]


@pytest.fixture
def engine(model_folders: dict[str, Path], measurements: Path, sandbox: Sandbox) -> Iterator[Engine]:
    engine = Engine(Places(model_folders), measurements, sandbox)
    yield engine
    engine.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> ModelFolder:
    return write_sentence_model(tmp_path_factory.mktemp("sentences") / "model")


def test_vectors_come_in_the_order_of_the_texts(engine: Engine, folder: ModelFolder) -> None:
    made = engine.embed(folder, TEXTS).result(SECONDS)
    np.testing.assert_allclose(made, load_sentence_model(folder, "cpu").embed(TEXTS), atol=1e-5)
    assert engine.status().phase == "ready"


def test_replies_are_written_as_ever(engine: Engine, folder: ModelFolder) -> None:
    answer = engine.embed(folder, TEXTS * 5)
    ask(engine)
    assert answer.result(SECONDS).shape == (55, 32)
    loaded = engine.status().model
    assert loaded and loaded.name == CPU.name


def test_what_is_wrong_with_a_model_is_said_and_the_next_texts_are_embedded(
    engine: Engine, folder: ModelFolder, tmp_path: Path
) -> None:
    lost = engine.embed(ModelFolder(tmp_path, name="lost"), TEXTS)
    assert isinstance(lost.exception(SECONDS), ModelError)
    assert engine.embed(folder, TEXTS).result(SECONDS).shape == (11, 32)


def test_a_piece_is_of_few_texts_or_of_few_characters() -> None:
    texts = ["x" * size for size in (50_000, 9_000, 10, 12_000, 20, 30, 30_000, 40)]
    job, sizes = EmbeddingJob(ModelFolder(Path(), name="m"), texts), list[list[int]]()
    while not job.is_done:
        sizes.append([len(text) for text in job.piece()])
        job.add(np.zeros((len(sizes[-1]), 2), np.float32))
    assert sizes == [[10, 20, 30, 40], [9_000], [12_000], [30_000], [50_000]]
    assert job.answer.result(0).shape == (8, 2)


def test_closing_ends_what_waits(engine: Engine, folder: ModelFolder) -> None:
    answers = [engine.embed(folder, TEXTS * 20) for _ in range(20)]
    engine.close()
    assert isinstance(answers[-1].exception(SECONDS), EngineClosed)
    assert isinstance(engine.embed(folder, TEXTS).exception(SECONDS), EngineClosed)


def test_no_texts_have_no_vectors(engine: Engine, folder: ModelFolder) -> None:
    assert len(engine.embed(folder, []).result(SECONDS)) == 0


def test_a_job_is_done_piece_by_piece_and_can_be_taken_back_before_the_first(folder: ModelFolder) -> None:
    job = EmbeddingJob(folder, TEXTS)
    assert job.is_wanted
    pieces = []
    while not job.is_done:
        pieces.append(job.piece())
        job.add(np.array([[len(text)] for text in pieces[-1]], np.float32))
    assert max(map(len, pieces)) == PIECE and job.is_wanted
    assert job.answer.result(0)[:, 0].tolist() == [len(text) for text in TEXTS]
    back = EmbeddingJob(folder, TEXTS)
    assert back.answer.cancel() and not back.is_wanted
    assert isinstance(back.answer, Future)
