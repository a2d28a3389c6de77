"""The line that says how documents are found, and gets the model for meaning."""

from dataclasses import replace
from pathlib import Path

import gradio as gr
import pytest

from app.model_messages import Download, DownloadState, FileProgress, InstalledModel
from app.settings import DEFAULT_EMBEDDER, ModelSettings
from app.ui.documents.actions import DocumentActions
from app.ui.documents.meaning import MeaningModel, meaning_html
from app.ui.documents.seat import DocumentsSeat
from app.ui.services import Services
from tests.fake_documents import ScriptedDocuments
from tests.fake_models import ScriptedModels

FILES = (FileProgress("model.safetensors", 90_000_000, 45_000_000),)


def line(services: Services) -> str:
    return meaning_html(MeaningModel(services).look())


def press(services: Services, documents: ScriptedDocuments) -> None:
    event = gr.EventData(None, {"do": "get-meaning", "name": "", "value": ""})
    DocumentActions(documents, MeaningModel(services), print).act(DocumentsSeat(), event)


def on_the_way(models: ScriptedModels, state: DownloadState, note: str = "") -> None:
    models.on_the_way = (Download(DEFAULT_EMBEDDER, state, FILES, note=note),)


def test_without_the_model_words_alone_are_told_and_the_model_is_offered(
    services: Services, models: ScriptedModels, documents: ScriptedDocuments
) -> None:
    assert "Found by words. Get all-MiniLM-L6-v2 (90 MB) to find by meaning, too." in line(services)
    assert 'data-do="get-meaning"' in line(services)
    press(services, documents)
    assert models.deeds == [("start", DEFAULT_EMBEDDER)]


def test_while_it_comes_its_progress_is_told_and_nothing_can_be_pressed(
    services: Services, models: ScriptedModels, documents: ScriptedDocuments
) -> None:
    on_the_way(models, "running")
    assert "all-MiniLM-L6-v2 is coming: 45 MB of 90 MB" in line(services)
    assert '<progress value="45000000" max="90000000"' in line(services) and "<button" not in line(services)
    press(services, documents)
    assert models.deeds == []


@pytest.mark.parametrize("state", ["paused", "failed"])
def test_a_download_that_stopped_says_why_and_goes_on(
    services: Services, models: ScriptedModels, documents: ScriptedDocuments, state: DownloadState
) -> None:
    on_the_way(models, state, "The hub <b>cannot</b> be reached.")
    assert "The hub &lt;b&gt;cannot&lt;/b&gt; be reached." in line(services) and "Resume" in line(services)
    press(services, documents)
    assert models.deeds == [("resume", DEFAULT_EMBEDDER)]


def test_once_it_is_here_both_ways_are_told(services: Services, models: ScriptedModels) -> None:
    on_the_way(models, "done")
    models.here.append(InstalledModel(DEFAULT_EMBEDDER, Path("/hub"), "hub", 90_000_000))
    assert "Found by words and by meaning." in line(services) and "<button" not in line(services)


def test_one_that_came_and_was_deleted_is_offered_again(
    services: Services, models: ScriptedModels, documents: ScriptedDocuments
) -> None:
    on_the_way(models, "done")
    press(services, documents)
    assert models.deeds == [("start", DEFAULT_EMBEDDER)]


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"is_offline": True}, "all-MiniLM-L6-v2 would find by meaning, too: the hub is switched off."),
        ({"embedder": "/no/where/bge"}, "bge would find by meaning, too: its folder is not there."),
    ],
)
def test_what_keeps_it_from_coming_is_told(
    services: Services, changed: dict[str, object], words: str
) -> None:
    services.choose_library(replace(ModelSettings(), **changed))  # type: ignore[arg-type]
    assert words in line(services) and "<button" not in line(services)
