"""What buttons and boxes of the documents' view do; before something is lost they ask."""

from pathlib import Path

import gradio as gr
import pytest

from app.errors import NotUploaded
from app.ui.documents.actions import FIRST_NAME, DocumentActions
from app.ui.documents.meaning import Meaning, MeaningModel
from app.ui.documents.seat import DocumentsSeat
from app.ui.documents.watching import DocumentsScreen, DocumentsWatcher, documents_parts
from app.ui.services import Services
from tests.fake_documents import ScriptedDocuments

TEXT = "The tenant pays on the first.\n\nThe landlord keeps the roof."


@pytest.fixture
def seat() -> DocumentsSeat:
    return DocumentsSeat()


@pytest.fixture
def heard() -> list[str]:
    return []


@pytest.fixture
def actions(services: Services, documents: ScriptedDocuments, heard: list[str]) -> DocumentActions:
    return DocumentActions(documents, MeaningModel(services), heard.append)


def press(actions: DocumentActions, seat: DocumentsSeat, do: str, name: object = "", value: str = "") -> None:
    actions.act(seat, gr.EventData(None, {"do": do, "name": str(name), "value": value}))


def look(documents: ScriptedDocuments, seat: DocumentsSeat) -> DocumentsScreen:
    return DocumentsWatcher(documents, lambda: Meaning("org/meaning"), seat).look()


def test_the_first_text_makes_the_first_collection(
    actions: DocumentActions, documents: ScriptedDocuments, seat: DocumentsSeat
) -> None:
    assert actions.paste(seat, TEXT, "") == ("", "")
    assert [one.name for one in documents.collections()] == [FIRST_NAME]
    assert [one.title for one in documents.documents(seat.collection)] == ["The tenant pays on the first."]


def test_a_text_goes_into_the_open_collection_under_its_title(
    actions: DocumentActions, documents: ScriptedDocuments, seat: DocumentsSeat
) -> None:
    documents.create("Contracts")
    press(actions, seat, "create", value="Manuals")
    actions.paste(seat, TEXT, " Lease ")
    assert [one.documents for one in documents.collections()] == [0, 1]
    assert documents.documents(seat.collection)[0].title == "Lease"


def test_what_cannot_be_added_stays_in_its_box_and_is_said(
    actions: DocumentActions, documents: ScriptedDocuments, seat: DocumentsSeat, heard: list[str]
) -> None:
    assert actions.paste(seat, "  \n", "") != ("", "")
    documents.refuses = "The disk is full: make room, then try again."
    assert actions.paste(seat, TEXT, "") != ("", "")
    assert heard == [
        "There is nothing to add yet: paste a text into the box, or choose files.",
        documents.refuses,
    ]


def test_uploads_are_handed_over_and_removed(
    actions: DocumentActions, documents: ScriptedDocuments, seat: DocumentsSeat, uploads: Path
) -> None:
    files = [uploads / "a1" / "one.md", uploads / "b2" / "two.txt"]
    for upload in files:
        upload.parent.mkdir()
        upload.write_text(TEXT)
    actions.add_files(seat, [str(upload) for upload in files])
    assert documents.uploads == [("one.md", TEXT.encode()), ("two.txt", TEXT.encode())]
    assert not any(upload.parent.exists() for upload in files)


def test_refused_uploads_are_removed_as_well(
    actions: DocumentActions, documents: ScriptedDocuments, seat: DocumentsSeat, uploads: Path,
    heard: list[str],
) -> None:  # fmt: skip
    upload = uploads / "a1" / "one.md"
    upload.parent.mkdir()
    upload.write_text(TEXT)
    documents.refuses = "one.md is too large: split it."
    actions.add_files(seat, [str(upload)])
    assert (heard, upload.parent.exists()) == ([documents.refuses], False)


def test_files_that_were_not_uploaded_are_neither_taken_in_nor_removed(
    actions: DocumentActions, documents: ScriptedDocuments, seat: DocumentsSeat, uploads: Path, tmp_path: Path,
    heard: list[str],
) -> None:  # fmt: skip
    own = tmp_path / "secret.md"
    own.write_text(TEXT)
    actions.add_files(seat, [str(uploads / "another"), str(own)])
    assert (heard, documents.uploads) == ([str(NotUploaded())], [])
    assert own.exists() and (uploads / "another").exists()


def test_a_collection_is_deleted_after_a_question(
    actions: DocumentActions, documents: ScriptedDocuments, seat: DocumentsSeat
) -> None:
    collection = documents.create("Contracts")
    documents.paste(collection, TEXT)
    press(actions, seat, "ask-delete", collection)
    assert "Delete “Contracts” with its 1 document?" in look(documents, seat).collections
    press(actions, seat, "keep")
    assert "sure" not in look(documents, seat).collections
    press(actions, seat, "ask-delete", collection)
    press(actions, seat, "delete", collection)
    assert (documents.names, documents.kept) == ({}, {})
    assert "sure" not in look(documents, seat).collections


def test_a_document_is_removed_after_a_question(
    actions: DocumentActions, documents: ScriptedDocuments, seat: DocumentsSeat
) -> None:
    document = documents.paste(documents.create("Contracts"), TEXT, "Lease")
    press(actions, seat, "ask-remove", document)
    assert "Remove “Lease”?" in look(documents, seat).papers
    press(actions, seat, "remove", document)
    assert "Lease" not in look(documents, seat).papers


def test_documents_are_cancelled_and_tried_again(
    actions: DocumentActions, documents: ScriptedDocuments, seat: DocumentsSeat
) -> None:
    documents.state = "indexing"
    document = documents.paste(documents.create("Contracts"), TEXT, "Lease")
    press(actions, seat, "cancel", document)
    assert "Try again" in look(documents, seat).papers
    press(actions, seat, "again", document)
    assert documents.deeds[-2:] == [("cancel", document), ("again", document)]


def test_a_collection_is_chosen_and_renamed(
    actions: DocumentActions, documents: ScriptedDocuments, seat: DocumentsSeat, heard: list[str]
) -> None:
    documents.create("Contracts")
    second = documents.create("Manuals")
    press(actions, seat, "choose", second)
    press(actions, seat, "rename", second, "Handbooks")
    assert "<h2>Handbooks</h2>" in look(documents, seat).title
    press(actions, seat, "rename", second, " ")
    assert heard == ["A collection must have a name, got ' '."]


def test_a_collection_that_is_gone_gives_way_to_the_first(
    documents: ScriptedDocuments, seat: DocumentsSeat
) -> None:
    documents.create("Contracts")
    seat.collection = 77
    assert "<h2>Contracts</h2>" in look(documents, seat).title


def test_a_search_shows_what_a_chat_would_find_until_it_is_cleared(
    actions: DocumentActions, documents: ScriptedDocuments, seat: DocumentsSeat
) -> None:
    collection = documents.create("Contracts")
    document = documents.paste(collection, TEXT, "Lease")
    actions.search(seat, " tenant pays? ")
    assert documents.searched == [((collection,), "tenant pays?")]
    assert "BM25 7.25 (rank 1) · similarity 0.61 (rank 2)" in look(documents, seat).found
    documents.remove(document)
    assert "Lease" not in look(documents, seat).found
    press(actions, seat, "clear")
    assert look(documents, seat).found == ""


def test_a_search_that_fails_or_finds_nothing_says_so(
    actions: DocumentActions, documents: ScriptedDocuments, seat: DocumentsSeat
) -> None:
    documents.paste(documents.create("Contracts"), TEXT)
    actions.search(seat, "elephants")
    assert "not in your documents" in look(documents, seat).found
    documents.refuses = "The file is damaged."
    actions.search(seat, "tenant")
    assert "The file is damaged." in look(documents, seat).found


def test_a_page_is_drawn_as_documents_change(documents: ScriptedDocuments, seat: DocumentsSeat) -> None:
    watcher = DocumentsWatcher(documents, lambda: Meaning("org/meaning"), seat)
    first = watcher.look()
    documents.create("Contracts")
    before, after = documents_parts(first), documents_parts(watcher.look())
    assert "Contracts" in str(after["collections"]) and "Contracts" not in str(before["collections"])
    assert watcher.look() is watcher.look()


def test_what_all_documents_wait_for_is_told_above_them_until_it_is_over(
    documents: ScriptedDocuments, seat: DocumentsSeat
) -> None:
    watcher = DocumentsWatcher(documents, lambda: Meaning("org/meaning"), seat)
    before = watcher.look().papers
    documents.problem = "The disk is full: free some <space>."
    assert watcher.look().papers.startswith(
        '<p class="note-of" role="status">The disk is full: free some &lt;space'
    )
    documents.problem = ""
    assert watcher.look().papers == before
