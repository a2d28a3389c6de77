"""The actions of the Documents view. Deletions can be undone."""

from dataclasses import replace
from pathlib import Path

import gradio as gr
import pytest

from app.errors import NotUploaded
from app.settings import DEFAULT_EMBEDDER, ModelSettings
from app.ui.documents.render import DocumentsRenderer, semantic_search_html
from app.ui.documents.view import DEFAULT_COLLECTION, DocumentsActions, DocumentsState, embedding_model_status
from app.ui.frame.services import Services
from app.values.chat import ChatSettings
from app.values.model import Download, DownloadState, FileProgress, InstalledModel
from tests.fake_documents import ScriptedDocuments
from tests.fake_models import ScriptedModels

FILES = (FileProgress("model.safetensors", 90_000_000, 45_000_000),)


def line(services: Services) -> str:
    return semantic_search_html(embedding_model_status(services))


def press_download(services: Services) -> None:
    event = gr.EventData(None, {"do": "download-embedder", "name": "", "value": ""})
    DocumentsActions(services, print).click(DocumentsState(), event)


def on_the_way(models: ScriptedModels, state: DownloadState, note: str = "") -> None:
    models.on_the_way = (Download(DEFAULT_EMBEDDER, state, FILES, note=note),)


def test_without_the_model_its_download_is_offered(services: Services, models: ScriptedModels) -> None:
    assert "Download all-MiniLM-L6-v2 (90 MB) to add semantic search of English texts." in line(services)
    assert 'data-do="download-embedder"' in line(services)
    press_download(services)
    assert models.calls == [("start", DEFAULT_EMBEDDER)]


def test_a_running_download_shows_its_progress_and_no_button(
    services: Services, models: ScriptedModels
) -> None:
    on_the_way(models, "running")
    assert "Downloading all-MiniLM-L6-v2: 45 MB of 90 MB" in line(services)
    assert '<progress value="45000000" max="90000000"' in line(services) and "<button" not in line(services)
    press_download(services)
    assert models.calls == []


@pytest.mark.parametrize("state", ["paused", "failed"])
def test_a_stopped_download_says_why_and_can_be_resumed(
    services: Services, models: ScriptedModels, state: DownloadState
) -> None:
    on_the_way(models, state, "The hub <b>cannot</b> be reached.")
    assert "The hub &lt;b&gt;cannot&lt;/b&gt; be reached." in line(services) and "Resume" in line(services)
    press_download(services)
    assert models.calls == [("resume", DEFAULT_EMBEDDER)]


def test_once_it_is_installed_both_kinds_of_search_are_named(
    services: Services, models: ScriptedModels
) -> None:
    on_the_way(models, "done")
    models.here.append(InstalledModel(DEFAULT_EMBEDDER, Path("/hub"), "hub", 90_000_000))
    assert "Keyword and semantic search." in line(services) and "<button" not in line(services)


def test_a_model_that_was_deleted_is_offered_again(services: Services, models: ScriptedModels) -> None:
    on_the_way(models, "done")
    press_download(services)
    assert models.calls == [("start", DEFAULT_EMBEDDER)]


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (
            {"is_offline": True},
            "needs all-MiniLM-L6-v2, which cannot be downloaded while Foresight is offline.",
        ),
        ({"embedder": "/no/where/bge"}, "Semantic search needs bge, whose folder is missing."),
    ],
)
def test_what_prevents_the_download_is_named(
    services: Services, changed: dict[str, object], words: str
) -> None:
    services.choose_library(replace(ModelSettings(), **changed))  # type: ignore[arg-type]
    assert words in line(services) and "<button" not in line(services)


def test_the_download_is_offered_once_offline_is_turned_off_as_advised(services: Services) -> None:
    services.choose_library(ModelSettings(is_offline=True))
    assert "Turn off “Offline” under Models → Discover." in line(services)
    services.choose_library(ModelSettings(is_offline=False))
    assert "Download</button>" in line(services)


TEXT = "The tenant pays on the first.\n\nThe landlord keeps the roof."


@pytest.fixture
def state() -> DocumentsState:
    return DocumentsState()


@pytest.fixture
def notified() -> list[str]:
    return []


@pytest.fixture
def actions(services: Services, notified: list[str]) -> DocumentsActions:
    return DocumentsActions(services, notified.append)


def press(
    actions: DocumentsActions, state: DocumentsState, do: str, name: object = "", value: str = ""
) -> None:
    actions.click(state, gr.EventData(None, {"do": do, "name": str(name), "value": value}))


@pytest.fixture
def renderer(services: Services, state: DocumentsState) -> DocumentsRenderer:
    return DocumentsRenderer(services, state)


def test_the_first_text_makes_the_first_collection(
    actions: DocumentsActions, documents: ScriptedDocuments, state: DocumentsState
) -> None:
    assert actions.paste(state, TEXT, "")[:2] == ("", "")
    assert [one.name for one in documents.collections()] == [DEFAULT_COLLECTION]
    assert [one.title for one in documents.documents(state.collection)] == ["The tenant pays on the first."]


def test_a_text_goes_into_the_open_collection_under_its_title(
    actions: DocumentsActions, documents: ScriptedDocuments, state: DocumentsState
) -> None:
    documents.create("Contracts")
    press(actions, state, "create", value="Manuals")
    actions.paste(state, TEXT, " Lease ")
    assert [one.documents for one in documents.collections()] == [0, 1]
    assert documents.documents(state.collection)[0].title == "Lease"


def test_no_text_goes_into_the_attachments_of_a_chat_unasked(
    actions: DocumentsActions, documents: ScriptedDocuments, services: Services, state: DocumentsState
) -> None:
    attached = documents.create_attached("rules.txt")
    services.conversations.stores.stored.create(ChatSettings(collections=(attached,)))
    actions.paste(state, TEXT, "")
    assert [one.name for one in documents.collections() if one.documents] == [DEFAULT_COLLECTION]
    press(actions, state, "choose", attached)
    actions.paste(state, TEXT, "Asked for")
    assert [one.title for one in documents.documents(attached)] == ["Asked for"]


def test_what_cannot_be_added_stays_in_its_box_and_is_told_there(
    actions: DocumentsActions, documents: ScriptedDocuments, state: DocumentsState
) -> None:
    *boxes, faults = actions.paste(state, "  \n", "")
    assert boxes != ["", ""] and "There is nothing to add." in faults
    documents.refuses = "The disk is full: make room, then try again."
    *boxes, faults = actions.paste(state, TEXT, "")
    assert boxes != ["", ""] and documents.refuses in faults


def test_uploads_are_handed_over_and_removed(
    actions: DocumentsActions, documents: ScriptedDocuments, state: DocumentsState, uploads: Path
) -> None:
    files = [uploads / "a1" / "one.md", uploads / "b2" / "two.txt"]
    for upload in files:
        upload.parent.mkdir()
        upload.write_text(TEXT)
    actions.add_files(state, [str(upload) for upload in files])
    assert documents.uploads == [("one.md", TEXT.encode()), ("two.txt", TEXT.encode())]
    assert not any(upload.parent.exists() for upload in files)


def test_refused_uploads_are_removed_as_well(
    actions: DocumentsActions, documents: ScriptedDocuments, state: DocumentsState, uploads: Path,
    notified: list[str],
) -> None:  # fmt: skip
    upload = uploads / "a1" / "one.md"
    upload.parent.mkdir()
    upload.write_text(TEXT)
    documents.refuses = "one.md is too large: split it."
    actions.add_files(state, [str(upload)])
    assert (notified, upload.parent.exists()) == ([documents.refuses], False)


def test_files_that_were_not_uploaded_are_neither_taken_in_nor_removed(
    actions: DocumentsActions, documents: ScriptedDocuments, state: DocumentsState, uploads: Path, tmp_path: Path,
    notified: list[str],
) -> None:  # fmt: skip
    own = tmp_path / "secret.md"
    own.write_text(TEXT)
    actions.add_files(state, [str(uploads / "another"), str(own)])
    assert (notified, documents.uploads) == ([str(NotUploaded())], [])
    assert own.exists() and (uploads / "another").exists()


def test_a_collection_is_deleted_and_comes_back_with_its_documents(
    actions: DocumentsActions, documents: ScriptedDocuments, services: Services, state: DocumentsState
) -> None:
    actions.paste(state, TEXT, "Lease")
    press(actions, state, "delete", state.collection)
    assert documents.collections() == ()
    newest = services.deletions.newest()
    assert newest and newest.message == "“My documents” was deleted with 1 document."
    services.deletions.undo()
    assert [one.documents for one in documents.collections()] == [1]


def test_a_document_is_removed_and_comes_back(
    actions: DocumentsActions, documents: ScriptedDocuments, services: Services, state: DocumentsState
) -> None:
    actions.paste(state, TEXT, "Lease")
    (document,) = documents.documents(state.collection)
    press(actions, state, "remove", document.id)
    assert documents.documents(state.collection) == ()
    newest = services.deletions.newest()
    assert newest and newest.message == "“Lease” was removed."
    services.deletions.undo()
    assert documents.documents(state.collection) == (document,)


def test_documents_are_cancelled_and_tried_again(
    actions: DocumentsActions,
    documents: ScriptedDocuments,
    state: DocumentsState,
    renderer: DocumentsRenderer,
) -> None:
    documents.state = "indexing"
    document = documents.paste(documents.create("Contracts"), TEXT, "Lease")
    press(actions, state, "cancel", document)
    assert "Try again" in str(renderer.render()["document-list"])
    press(actions, state, "retry", document)
    assert documents.calls[-2:] == [("cancel", document), ("again", document)]


def test_all_unfinished_documents_of_a_collection_are_cancelled(
    actions: DocumentsActions, documents: ScriptedDocuments, state: DocumentsState
) -> None:
    collection = documents.create("Contracts")
    documents.paste(collection, TEXT, "Ready")
    documents.state = "waiting"
    waiting = [documents.paste(collection, TEXT, f"Lease {number}") for number in range(3)]
    press(actions, state, "cancel-all", collection)
    assert [call for call in documents.calls if call[0] == "cancel"] == [("cancel", one) for one in waiting]


def test_a_collection_is_chosen_and_renamed(
    actions: DocumentsActions,
    documents: ScriptedDocuments,
    state: DocumentsState,
    renderer: DocumentsRenderer,
    notified: list[str],
) -> None:
    documents.create("Contracts")
    second = documents.create("Manuals")
    press(actions, state, "choose", second)
    press(actions, state, "rename", second, "Handbooks")
    assert '<h2 dir="auto">Handbooks</h2>' in str(renderer.render()["collection-title"])
    press(actions, state, "rename", second, " ")
    assert notified == ["A collection must have a name; it is “ ”."]


def test_a_collection_that_is_gone_gives_way_to_the_first(
    documents: ScriptedDocuments, state: DocumentsState, renderer: DocumentsRenderer
) -> None:
    documents.create("Contracts")
    state.collection = 77
    assert '<h2 dir="auto">Contracts</h2>' in str(renderer.render()["collection-title"])


def test_a_search_shows_what_a_chat_would_find_until_it_is_cleared(
    actions: DocumentsActions,
    documents: ScriptedDocuments,
    state: DocumentsState,
    renderer: DocumentsRenderer,
) -> None:
    collection = documents.create("Contracts")
    document = documents.paste(collection, TEXT, "Lease")
    actions.search(state, " tenant pays? ")
    assert documents.searched == [((collection,), "tenant pays?")]
    assert "Found by its words (rank 1) and its meaning (rank 2)" in str(renderer.render()["search-results"])
    documents.remove(document)
    assert "Lease" not in str(renderer.render()["search-results"])
    press(actions, state, "clear")
    assert str(renderer.render()["search-results"]) == ""


def test_a_search_that_fails_or_finds_nothing_says_so(
    actions: DocumentsActions,
    documents: ScriptedDocuments,
    state: DocumentsState,
    renderer: DocumentsRenderer,
) -> None:
    documents.paste(documents.create("Contracts"), TEXT)
    actions.search(state, "elephants")
    assert "not in your documents" in str(renderer.render()["search-results"])
    documents.refuses = "The file is damaged."
    actions.search(state, "tenant")
    assert "The file is damaged." in str(renderer.render()["search-results"])


def test_parts_are_rendered_again_only_after_a_change(
    documents: ScriptedDocuments, renderer: DocumentsRenderer
) -> None:
    before = renderer.render()
    documents.create("Contracts")
    after = renderer.render()
    assert "Contracts" in str(after["collections"]) and "Contracts" not in str(before["collections"])
    assert renderer.render() is after


def test_what_stops_all_documents_is_shown_above_them_until_it_is_over(
    documents: ScriptedDocuments, renderer: DocumentsRenderer
) -> None:
    before = renderer.render()["document-list"]
    documents.problem = "The disk is full: free some <space>."
    shown = str(renderer.render()["document-list"])
    assert shown.startswith('<p class="document-note" role="status">The disk is full: free some &lt;space')
    documents.problem = ""
    assert renderer.render()["document-list"] == before
