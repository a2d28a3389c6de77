"""What everybody asks of documents: collections, pasting, texts, passages, removing."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.database.database import Database
from app.documents.document_table import LONGEST
from app.documents.documents import Documents
from app.errors import BadOption, DocumentNotFound, DocumentUnreadable
from app.values.document import Citation, Document

EGGS = "# Boiling eggs\n\nEggs boil for six minutes.\n\nThen they are put into cold water."


def only(documents: Documents, collection: int) -> Document:
    (document,) = documents.documents(collection)
    return document


def rows(database: Database, table: str) -> int:
    with database.reading() as connection:
        return int(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0])


def test_a_pasted_text_is_found_cited_and_read_again(documents: Documents, notes: int) -> None:
    document = documents.paste(notes, EGGS)
    documents.wait()
    about = only(documents, notes)
    assert (about.title, about.source, about.state, about.characters) == (
        "Boiling eggs",
        "pasted",
        "ready",
        len(EGGS),
    )
    (found,) = documents.search([notes], "how long do eggs boil?")
    assert documents.text(document) == EGGS
    passage = found.passage
    assert passage.text == EGGS[passage.start : passage.end]
    assert documents.passages(document) == (passage,)
    assert documents.words(Citation(1, document, "", passage.start, passage.end)) == passage.text


def test_cancelling_all_stops_files_that_are_being_added(
    documents: Documents, notes: int, tmp_path: Path
) -> None:
    class Files(list[Path]):
        """Files, of which the second is taken when everything has just been cancelled."""

        passes = 0

        def __iter__(self) -> Iterator[Path]:
            self.passes += 1
            for place, path in enumerate(list(super().__iter__())):
                if (self.passes, place) == (2, 1):
                    documents.cancel_all(notes)
                yield path

    files = Files(tmp_path / f"{number}.txt" for number in range(4))
    for path in list(files):
        path.write_text(f"Eggs boil for {path.stem} minutes.")
    files.passes = 0
    added = documents.add_uploads(notes, files)
    assert len(added) == 2
    assert documents.document(added[1]).state == "cancelled"


def test_the_same_text_again_is_kept_once_and_told(documents: Documents, notes: int) -> None:
    first = documents.paste(notes, EGGS)
    assert documents.paste(notes, EGGS, "Eggs again") == first
    assert only(documents, notes).note == "The same text was pasted again. It is stored once."
    assert documents.paste(documents.create("Other"), EGGS) != first


def test_two_letters_that_begin_alike_are_two_documents(documents: Documents, notes: int) -> None:
    letters = [f"Dear Sir or Madam,\n\n{wish}" for wish in ("I move out.", "Send me eggs.", "I am well.")]
    pasted = [documents.paste(notes, letter) for letter in letters]
    documents.wait()
    assert [documents.text(one) for one in pasted] == letters
    assert [one.title for one in documents.documents(notes)] == [
        "Dear Sir or Madam,",
        "Dear Sir or Madam, (2)",
        "Dear Sir or Madam, (3)",
    ]


def test_of_a_long_text_one_passage_and_what_stands_around_it_can_be_had(
    documents: Documents, notes: int
) -> None:
    text = f"# Eggs\n\n{'They boil. ' * 20_000}\n\n# Milk\n\nIt boils over."
    document = documents.paste(notes, text)
    documents.wait()
    last = documents.passages(document)[-1]
    assert documents.passage(last.id) == last
    around = last.start - 70_000, last.end + 10
    assert documents.between(document, *around) == text[around[0] : around[1]]
    assert documents.between(document, 5, 0) == documents.between(document, len(text), len(text) + 9) == ""
    documents.remove(document)
    documents.erase()
    documents.wait()
    with pytest.raises(DocumentNotFound, match="no longer exists"):
        documents.passage(last.id)
    with pytest.raises(DocumentNotFound, match="document is no longer there"):
        documents.between(document, 0, 5)


def test_a_removed_document_is_gone_with_all_that_was_made_of_it(
    documents: Documents, database: Database, notes: int
) -> None:
    document = documents.paste(notes, EGGS)
    documents.wait()
    documents.remove(document)
    documents.erase()
    with pytest.raises(DocumentNotFound, match="document is no longer there"):
        documents.text(document)
    with pytest.raises(DocumentNotFound, match="document is no longer there"):
        documents.words(Citation(1, document, "", 0, 5))
    documents.wait()
    assert documents.search([notes], "eggs") == ()
    tables = ("document", "document_text", "passage", "passage_words", "passage_vector")
    assert [rows(database, table) for table in tables] == [0] * 5


def test_a_removed_document_comes_back_as_it_was(documents: Documents, notes: int) -> None:
    document = documents.paste(notes, EGGS)
    documents.wait()
    before, (hit, *_) = documents.document(document), documents.search([notes], "eggs")
    cited = Citation(1, document, "", hit.passage.start, hit.passage.end, hit.passage.id)
    words = documents.words(cited)
    documents.remove(document)
    documents.wait()
    assert (documents.documents(notes), documents.search([notes], "eggs")) == ((), ())
    with pytest.raises(DocumentNotFound):
        documents.words(cited)
    documents.restore([document])
    assert (documents.document(document), documents.words(cited)) == (before, words)
    assert documents.passage(hit.passage.id) == hit.passage
    documents.remove(document)
    documents.erase()
    with pytest.raises(DocumentNotFound):
        documents.restore([document])


def test_a_file_that_was_removed_before_it_was_read_is_read_when_it_comes_back(
    documents: Documents, notes: int, tmp_path: Path
) -> None:
    file = tmp_path / "eggs.txt"
    file.write_text(EGGS)
    (document,) = documents.add_files(notes, [file])
    documents.remove(document)
    documents.wait()
    documents.restore([document])
    documents.wait()
    assert documents.text(document) == EGGS


def test_a_deleted_collection_comes_back_with_what_was_in_it(documents: Documents, notes: int) -> None:
    kept, gone = documents.paste(notes, EGGS), documents.paste(notes, "Milk boils over.", "Milk")
    documents.wait()
    documents.remove(gone)
    before, inside = documents.documents(notes), documents.delete(notes)
    assert (inside, documents.collections()) == ((kept,), ())
    other = documents.create("Notes")
    documents.restore(inside, notes)
    assert {one.id: one.name for one in documents.collections()} == {notes: "Notes (2)", other: "Notes"}
    assert documents.documents(notes) == before
    documents.delete(other)
    documents.restore((), other)
    assert [one.name for one in documents.collections()] == ["Notes", "Notes (2)"]


def test_a_deleted_collection_takes_its_documents_along(
    documents: Documents, database: Database, notes: int
) -> None:
    documents.paste(notes, EGGS)
    documents.delete(notes)
    documents.erase()
    assert documents.collections() == ()
    with pytest.raises(DocumentNotFound, match="collection is no longer there"):
        documents.documents(notes)
    documents.wait()
    assert (rows(database, "document"), rows(database, "collection")) == (0, 0)
    assert documents.create("Notes") != notes


def test_a_collection_has_a_name_of_its_own(documents: Documents, notes: int) -> None:
    with pytest.raises(BadOption, match="There is a collection 'notes' already"):
        documents.create("  notes ")
    documents.create("Caf\u00e9")
    with pytest.raises(BadOption, match="There is a collection"):
        documents.create("CAFE\u0301")
    documents.delete(documents.collections()[0].id)
    documents.erase()
    with pytest.raises(BadOption, match="needs a name"):
        documents.rename(notes, " \n")
    documents.rename(notes, "NOTES")
    documents.paste(notes, EGGS)
    documents.wait()
    (collection,) = documents.collections()
    assert (collection.name, collection.documents, collection.characters, collection.passages) == (
        "NOTES",
        1,
        len(EGGS),
        1,
    )


def test_a_file_is_read_from_a_copy_of_our_own(documents: Documents, notes: int, tmp_path: Path) -> None:
    file = tmp_path / "eggs.txt"
    file.write_text(EGGS, encoding="utf-8")
    (document,) = documents.add_files(notes, [file])
    file.unlink()
    documents.wait()
    about = only(documents, notes)
    assert (about.id, about.title, about.source, about.state) == (document, "eggs.txt", "eggs.txt", "ready")
    assert documents.text(document) == EGGS
    assert not list((tmp_path / "data" / "documents-inbox").glob("[0-9]*"))


def test_nothing_is_taken_when_one_of_the_files_is_none(
    documents: Documents, notes: int, tmp_path: Path
) -> None:
    file = tmp_path / "eggs.txt"
    file.write_text(EGGS, encoding="utf-8")
    with pytest.raises(DocumentUnreadable, match=r"There is no file .*milk\.md"):
        documents.add_files(notes, [file, tmp_path / "milk.md"])
    assert documents.documents(notes) == ()


@pytest.mark.parametrize("text", ["", "  \n\t", "\0\0"])
def test_a_text_with_nothing_in_it_is_refused(documents: Documents, notes: int, text: str) -> None:
    with pytest.raises(DocumentUnreadable, match="nothing to read"):
        documents.paste(notes, text)


def test_collections_that_are_short_together_are_given_whole(documents: Documents, notes: int) -> None:
    other = documents.create("Other")
    documents.paste(other, "Milk boils over.")
    documents.paste(notes, EGGS)
    documents.wait()
    assert [one.text for one in documents.whole([notes, other], 200)] == [EGGS, "Milk boils over."]
    assert documents.whole([notes, other], 50) == ()


def test_a_chats_own_collections_are_deleted_but_for_those_that_are_kept(documents: Documents) -> None:
    mine = documents.create("Mine")
    first, second, third = (
        documents.create_attached(title) for title in ("rules.txt", "rules.txt", "x" * 200)
    )
    names = {one.id: one.name for one in documents.collections() if one.is_attached}
    assert (names[first], names[second]) == ("Attached: rules.txt", "Attached: rules.txt (2)")
    assert len(names[third]) == LONGEST
    documents.rename(first, "Rules")
    documents.delete_attached([third])
    documents.wait()
    assert {one.id for one in documents.collections()} == {mine, first, third}, "a renamed one is its own"


@pytest.mark.parametrize("name", ["Attached: rules.txt", " Attached:  rules.txt"])
def test_a_name_of_a_chats_own_collection_is_refused(documents: Documents, notes: int, name: str) -> None:
    with pytest.raises(BadOption, match="belong to chats"):
        documents.create(name)
    with pytest.raises(BadOption, match="belong to chats"):
        documents.rename(notes, name)
