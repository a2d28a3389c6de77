"""Texts of one title: what is the same is stored once, a correction can be undone, all else is kept."""

import unicodedata
from pathlib import Path

import pytest

from app.database.database import Database
from app.documents.document_table import KEPT_VERSIONS
from app.documents.documents import PASTED_AT_ONCE, Documents
from app.documents.duplicates import MOST_REPLACED, NOT_REPLACED, REPLACED
from app.errors import DocumentNotFound
from app.values.display_text import title_of
from app.values.document import Document
from tests.documents.test_documents import EGGS, only, rows

MILK = "Milk boils over when nobody looks, and then the whole kitchen smells of it for days."
CORRECTED = EGGS.replace("six", "seven")


def texts(documents: Documents, collection: int) -> dict[str, str]:
    documents.wait()
    return {one.title: documents.text(one.id) for one in documents.documents(collection)}


def titled(documents: Documents, collection: int, title: str) -> Document:
    return next(one for one in documents.documents(collection) if one.title == title)


TITLES = {
    "the same": "Caf\u00e9 notes",
    "another case": "CAF\u00c9 NOTES",
    "another Unicode form": unicodedata.normalize("NFD", "Caf\u00e9 notes"),
    "blanks around": "  Caf\u00e9   notes\t",
    "unseen characters": "Caf\u00e9 notes\u200b",
}


@pytest.mark.parametrize("title", TITLES.values(), ids=TITLES)
def test_texts_that_have_little_in_common_are_both_kept_under_one_title(
    documents: Documents, notes: int, title: str
) -> None:
    first = documents.paste(notes, EGGS, "Caf\u00e9 notes")
    second = documents.paste(notes, MILK, title)
    assert second != first
    assert list(texts(documents, notes).values()) == [EGGS, MILK]
    assert documents.document(second).title == " ".join(title.split()) + " (2)"
    assert documents.document(second).note == NOT_REPLACED


@pytest.mark.parametrize("title", TITLES.values(), ids=TITLES)
def test_a_corrected_text_replaces_the_one_of_its_title_and_that_can_be_undone(
    documents: Documents, notes: int, title: str
) -> None:
    first = documents.paste(notes, EGGS, "Caf\u00e9 notes")
    documents.wait()
    assert documents.paste(notes, CORRECTED, title) == first
    assert texts(documents, notes) == {"Caf\u00e9 notes": CORRECTED}
    about = only(documents, notes)
    assert (about.note, about.replaced > 0) == (REPLACED, True)
    second = documents.undo_replacement(first)
    assert texts(documents, notes) == {"Caf\u00e9 notes": EGGS, "Caf\u00e9 notes (2)": CORRECTED}
    assert documents.text(second) == CORRECTED
    assert [one.state for one in documents.documents(notes)] == ["ready", "ready"]
    assert documents.document(first).replaced == 0
    assert documents.search([notes], "seven minutes")[0].passage.document == second
    with pytest.raises(DocumentNotFound, match="No older version"):
        documents.undo_replacement(first)


def test_a_part_of_a_text_does_not_replace_the_whole(documents: Documents, notes: int) -> None:
    documents.paste(notes, EGGS, "Cooking")
    documents.paste(notes, EGGS[:40], "Cooking")
    assert texts(documents, notes) == {"Cooking": EGGS, "Cooking (2)": EGGS[:40]}


def test_a_text_that_goes_on_replaces_its_beginning(documents: Documents, notes: int) -> None:
    documents.paste(notes, MILK, "Cooking")
    documents.paste(notes, f"{MILK}\n\n{EGGS * 50}", "Cooking")
    assert len(texts(documents, notes)) == 1


@pytest.mark.parametrize("text", ["***", "\U0001f95a \U0001f373", "---\n\n---"])
def test_texts_without_words_are_never_taken_for_each_other(
    documents: Documents, notes: int, text: str
) -> None:
    documents.paste(notes, text, "Signs")
    documents.paste(notes, f"{text}{text}", "Signs")
    assert texts(documents, notes) == {"Signs": text, "Signs (2)": text * 2}


def test_scripts_without_spaces_are_compared_character_by_character(documents: Documents, notes: int) -> None:
    rent, eggs = (
        "\u623f\u5ba2\u6bcf\u6708\u4ed8\u4e03\u767e\u5143\u623f\u79df\u7ed9\u623f\u4e1c",
        "\u9e21\u86cb\u8981\u7528\u51b7\u6c34\u716e\u516d\u5206\u949f\u624d\u80fd\u5403",
    )
    documents.paste(notes, rent, "\u7b14\u8bb0")
    documents.paste(notes, eggs, "\u7b14\u8bb0")
    documents.paste(notes, rent.replace("\u4e03", "\u516b"), "\u7b14\u8bb0")
    assert list(texts(documents, notes).values()) == [rent.replace("\u4e03", "\u516b"), eggs]


def test_another_collection_has_titles_of_its_own(documents: Documents, notes: int) -> None:
    other = documents.create("Other")
    documents.paste(notes, EGGS, "Cooking")
    documents.paste(other, CORRECTED, "Cooking")
    assert (texts(documents, notes), texts(documents, other)) == ({"Cooking": EGGS}, {"Cooking": CORRECTED})


@pytest.mark.parametrize("title", ["", " \n", "\u200b", "\u2066\u2069"])
def test_a_title_that_nobody_can_see_is_none(documents: Documents, notes: int, title: str) -> None:
    documents.paste(notes, EGGS, title)
    documents.paste(notes, MILK, title)
    assert list(texts(documents, notes)) == ["Boiling eggs", title_of(MILK)]


def test_a_title_with_a_number_is_a_title_like_others(documents: Documents, notes: int) -> None:
    made = {
        f"Recipe{end}": f"{number} {word} " * 40
        for number, (end, word) in enumerate({"": "eggs", " (2)": "milk", " (2) (2)": "salt"}.items())
    }
    documents.paste(notes, made["Recipe"], "Recipe")
    documents.paste(notes, made["Recipe (2)"], "Recipe (2)")
    documents.paste(notes, made["Recipe (2) (2)"], "Recipe (2)")
    assert texts(documents, notes) == made
    documents.paste(notes, made["Recipe (2)"] + "more", "Recipe")
    assert texts(documents, notes) == {**made, "Recipe (2)": made["Recipe (2)"] + "more"}


def test_many_texts_of_one_title_are_all_kept(documents: Documents, notes: int) -> None:
    made = [" ".join(f"{word}{number}" for word in ("eggs", "milk", "salt")) for number in range(120)]
    for text in made:
        documents.paste(notes, text, "Recipe")
    assert [one.title for one in documents.documents(notes)] == [
        "Recipe",
        *(f"Recipe ({number})" for number in range(2, 121)),
    ]
    documents.paste(notes, made[0] + " eggs0", "Recipe")
    kept = [documents.text(one.id) for one in documents.documents(notes)]
    assert kept[1:120] == made[1:]


def test_versions_are_undone_one_by_one_and_the_oldest_are_let_go(
    documents: Documents, database: Database, notes: int
) -> None:
    made = [f"{EGGS} Version {number}." for number in range(KEPT_VERSIONS + 3)]
    for text in made:
        document = documents.paste(notes, text, "Cooking")
    documents.wait()
    assert rows(database, "document") == 1 + KEPT_VERSIONS
    for older in made[-2 : -2 - KEPT_VERSIONS : -1]:
        documents.undo_replacement(document)
        assert documents.text(document) == older
    with pytest.raises(DocumentNotFound):
        documents.undo_replacement(document)
    assert set(texts(documents, notes).values()) == set(made[-1 - KEPT_VERSIONS :])


def test_older_versions_go_with_their_document_and_their_collection(
    documents: Documents, database: Database, notes: int
) -> None:
    other = documents.create("Other")
    for collection in (notes, other):
        documents.paste(collection, EGGS, "Cooking")
        documents.paste(collection, CORRECTED, "Cooking")
    assert {one.documents for one in documents.collections()} == {1}
    documents.remove(only(documents, notes).id)
    documents.delete(other)
    documents.erase()
    documents.wait()
    assert [rows(database, name) for name in ("document", "document_text", "passage", "collection")] == [
        0,
        0,
        0,
        1,
    ]


@pytest.mark.parametrize("is_upload", [False, True])
def test_a_file_that_says_something_else_is_kept_beside_the_one_of_its_name(
    documents: Documents, notes: int, tmp_path: Path, is_upload: bool
) -> None:
    file = tmp_path / "notes.txt"
    add = documents.add_uploads if is_upload else documents.add_files
    for text in (EGGS, MILK, EGGS, CORRECTED):
        file.write_text(text, encoding="utf-8")
        add(notes, [file])
        documents.wait()
    assert texts(documents, notes) == {"notes.txt": CORRECTED, "notes.txt (2)": MILK}
    replaced = titled(documents, notes, "notes.txt")
    assert (
        replaced.note == f"notes.txt was added again with the same text. It is stored once. {REPLACED}"
        or (replaced.note == REPLACED)
    )
    documents.undo_replacement(replaced.id)
    assert texts(documents, notes) == {"notes.txt": EGGS, "notes.txt (2)": MILK, "notes.txt (3)": CORRECTED}
    add(notes, [file])
    documents.wait()
    assert len(documents.documents(notes)) == 3, "what was undone is known when it comes again"


def test_a_long_text_is_pasted_in_pieces_and_known_when_it_comes_again(
    documents: Documents, notes: int
) -> None:
    long = "".join(f"Line {number} of a long text.\r\n" for number in range(PASTED_AT_ONCE // 20))
    first = documents.paste(notes, long, "Long")
    documents.wait()
    assert only(documents, notes).title == "Long"
    again, newer = documents.paste(notes, long, "Long"), documents.paste(notes, long + "The end.", "Long")
    documents.wait()
    assert documents.imported_into(again) == documents.imported_into(newer) == first
    assert texts(documents, notes) == {"Long": long.replace("\r\n", "\n") + "The end."}


def test_a_text_that_would_be_moved_for_long_is_kept_beside_the_newer_one(
    documents: Documents, notes: int, tmp_path: Path
) -> None:
    file = tmp_path / "log.txt"
    for end in ("", "the end"):
        file.write_text("one line of a log\n" * (MOST_REPLACED // 18 + 1) + end, encoding="utf-8")
        (document,) = documents.add_files(notes, [file])
        while not documents.document(document).characters:
            pass
        documents.cancel(document)
    assert [one.title for one in documents.documents(notes)] == ["log.txt", "log.txt (2)"]
