"""The line that says how documents are searched, and downloads the model for semantic search."""

from dataclasses import replace
from pathlib import Path

import gradio as gr
import pytest

from app.settings import DEFAULT_EMBEDDER, ModelSettings
from app.ui.documents.render import semantic_search_html
from app.ui.documents.view import DocumentsActions, DocumentsState, SemanticSearch
from app.ui.frame.services import Services
from app.values.model import Download, DownloadState, FileProgress, InstalledModel
from tests.fake_documents import ScriptedDocuments
from tests.fake_models import ScriptedModels

FILES = (FileProgress("model.safetensors", 90_000_000, 45_000_000),)


def line(services: Services) -> str:
    return semantic_search_html(SemanticSearch(services).status())


def press(services: Services, documents: ScriptedDocuments) -> None:
    event = gr.EventData(None, {"do": "download-embedder", "name": "", "value": ""})
    DocumentsActions(documents, documents.collections, SemanticSearch(services), print).click(
        DocumentsState(), event
    )


def on_the_way(models: ScriptedModels, state: DownloadState, note: str = "") -> None:
    models.on_the_way = (Download(DEFAULT_EMBEDDER, state, FILES, note=note),)


def test_without_the_model_its_download_is_offered(
    services: Services, models: ScriptedModels, documents: ScriptedDocuments
) -> None:
    assert "Keyword search only. Download all-MiniLM-L6-v2 (90 MB) to add semantic search." in line(services)
    assert 'data-do="download-embedder"' in line(services)
    press(services, documents)
    assert models.calls == [("start", DEFAULT_EMBEDDER)]


def test_a_running_download_shows_its_progress_and_no_button(
    services: Services, models: ScriptedModels, documents: ScriptedDocuments
) -> None:
    on_the_way(models, "running")
    assert "Downloading all-MiniLM-L6-v2: 45 MB of 90 MB" in line(services)
    assert '<progress value="45000000" max="90000000"' in line(services) and "<button" not in line(services)
    press(services, documents)
    assert models.calls == []


@pytest.mark.parametrize("state", ["paused", "failed"])
def test_a_stopped_download_says_why_and_can_be_resumed(
    services: Services, models: ScriptedModels, documents: ScriptedDocuments, state: DownloadState
) -> None:
    on_the_way(models, state, "The hub <b>cannot</b> be reached.")
    assert "The hub &lt;b&gt;cannot&lt;/b&gt; be reached." in line(services) and "Resume" in line(services)
    press(services, documents)
    assert models.calls == [("resume", DEFAULT_EMBEDDER)]


def test_once_it_is_installed_both_kinds_of_search_are_named(
    services: Services, models: ScriptedModels
) -> None:
    on_the_way(models, "done")
    models.here.append(InstalledModel(DEFAULT_EMBEDDER, Path("/hub"), "hub", 90_000_000))
    assert "Keyword and semantic search." in line(services) and "<button" not in line(services)


def test_a_model_that_was_deleted_is_offered_again(
    services: Services, models: ScriptedModels, documents: ScriptedDocuments
) -> None:
    on_the_way(models, "done")
    press(services, documents)
    assert models.calls == [("start", DEFAULT_EMBEDDER)]


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"is_offline": True}, "Semantic search needs all-MiniLM-L6-v2: Foresight is offline."),
        ({"embedder": "/no/where/bge"}, "Semantic search needs bge: its folder is missing."),
    ],
)
def test_what_prevents_the_download_is_named(
    services: Services, changed: dict[str, object], words: str
) -> None:
    services.choose_library(replace(ModelSettings(), **changed))  # type: ignore[arg-type]
    assert words in line(services) and "<button" not in line(services)
