"""A sentence-embedding model goes where the chat's is wanted, and makes room for it on a card."""

import gc
from dataclasses import replace
from pathlib import Path
from typing import Any
from weakref import WeakSet

import numpy as np
import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

from app.engine import Engine
from app.engine.embedding.embedder import SentenceModels
from app.engine.embedding.job import EmbeddingJob
from app.engine.machine.device_options import RankPlan
from app.engine.session.jobs import UnloadJob
from app.engine.session.session import Session
from app.values.messages import Device, ModelFolder, Piece, Request
from tests.engine.places import Places, write_as
from tests.engine.session.test_session import CPU, PROMPT, SHORT, ask, ids_of, silent

FOLDER = ModelFolder(Path("sentences"), "sentences")
CROWDED = replace(CPU, name="crowded")


class OnCard:
    """A sentence-embedding model that takes the memory of a card."""

    device = torch.device("cuda")

    def __init__(self) -> None:
        self.model = self
        CARD.add(self)

    def embed(self, texts: list[str], _on_tokens: Any) -> np.ndarray:
        return np.ones((len(texts), 2), np.float32)


CARD: WeakSet[OnCard] = WeakSet()


class CrowdedConfig(LlamaConfig):  # type: ignore[no-untyped-call]
    """A Llama for which a card has room as long as nothing else is there."""

    model_type = "crowded_llama"


class CrowdedLlama(LlamaForCausalLM):  # type: ignore[no-untyped-call]
    """Says so as torch's CUDA allocator does."""

    config_class = CrowdedConfig

    def forward(self, *args: Any, **rest: Any) -> Any:
        if CARD:
            gc.collect()
        if CARD:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        return super().forward(*args, **rest)


class Sentences(SentenceModels):
    def __init__(self) -> None:
        super().__init__(load=self._loaded)
        self.devices: list[Device] = []

    def _loaded(self, _folder: ModelFolder, device: Device) -> Any:
        self.devices.append(device)
        return OnCard()


@pytest.fixture
def sentences() -> Sentences:
    return Sentences()


@pytest.fixture(scope="module")
def places(model_folders: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Places:
    AutoConfig.register("crowded_llama", CrowdedConfig, exist_ok=True)
    AutoModelForCausalLM.register(CrowdedConfig, CrowdedLlama, exist_ok=True)
    folder = tmp_path_factory.mktemp("crowded") / "model"
    write_as("crowded_llama", folder, model_folders["tiny"])
    return Places({**model_folders, "crowded": folder})


@pytest.fixture
def session(places: Places, measurements: Path, sentences: Sentences) -> Session:
    return Session(places, measurements, sentences=sentences)


def embed(session: Session) -> None:
    job = EmbeddingJob(FOLDER, ["a text"])
    session.embed(job)
    assert job.answer.result(0).shape == (1, 2)


def test_a_model_that_finds_no_room_is_loaded_once_the_sentence_embeddings_have_left(
    session: Session, sentences: Sentences, caplog: pytest.LogCaptureFixture
) -> None:
    embed(session)
    assert session.open(CROWDED, silent).info.name == "crowded"
    assert "the sentence-embedding model leaves the GPU: CUDA out of memory" in caplog.text
    embed(session)
    assert len(sentences.devices) == 2, "it is loaded again when it is needed"


def test_a_reply_that_finds_no_room_begins_again(session: Session, caplog: pytest.LogCaptureFixture) -> None:
    expected = ids_of(ask(session, model=CROWDED))
    session.forget()
    embed(session)
    assert ids_of(ask(session, model=CROWDED)) == expected
    assert caplog.text.count("leaves the GPU") == 1


def test_a_reply_of_which_something_was_shown_fails_and_the_next_one_has_room(session: Session) -> None:
    expected = ids_of(ask(session, model=CROWDED))
    reply = session.events(Request(CROWDED, PROMPT, SHORT), silent)
    next(event for event in reply if isinstance(event, Piece))
    embed(session)
    with pytest.raises(torch.OutOfMemoryError):
        list(reply)
    assert ids_of(ask(session, model=CROWDED)) == expected


def test_without_sentence_embeddings_on_a_card_a_failure_is_final(
    session: Session, places: Places, sentences: Sentences
) -> None:
    other = OnCard()
    asked = len(places.asked)
    with pytest.raises(torch.OutOfMemoryError):
        session.open(CROWDED, silent)
    assert (len(places.asked) - asked, sentences.devices) == (1, [])
    del other


@pytest.mark.parametrize("settings", [{"device": "cpu"}, {"plan": RankPlan(("cpu",))}], ids=str)
def test_where_the_cpu_was_chosen_no_text_goes_to_a_card(
    places: Places, sentences: Sentences, settings: dict[str, Any]
) -> None:
    embed(Session(places, sentences=sentences, **settings))
    assert sentences.devices == ["cpu"]


def test_an_engine_tells_its_session_what_was_chosen(places: Places) -> None:
    engine = Engine(places, device="cpu")
    assert engine._start(UnloadJob())._device == "cpu"
    engine.close()


def test_texts_follow_the_model_to_the_cpu_and_back(session: Session, sentences: Sentences) -> None:
    embed(session)
    session.open(CPU, silent)
    embed(session), embed(session)
    session.open(replace(CPU, device="auto"), silent)
    embed(session)
    assert sentences.devices == ["auto", "cpu", "auto"]
