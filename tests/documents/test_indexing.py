"""What the indexing thread makes of what comes: newer forms, duplicates, failures, cancelling, going on later."""

import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from app.chats.chat_table import mend_chats
from app.database.database import Database, database_in
from app.database.files import FILE_NAME
from app.database.rescuing import rescue
from app.database.restoring import apply_staged, stage
from app.documents import document_table, embedding, indexing, passage_table, text_table
from app.documents.chunking import chunks
from app.documents.documents import Documents
from app.documents.text_table import digest_of, parts_of, stamp_of
from app.errors import DocumentNotFound, DocumentUnreadable, StoreFull
from app.settings import assets_dir
from app.values.document import Citation, Document
from tests.documents import files
from tests.documents.test_documents import EGGS, only, rows


def sections(count: int, changed: int = -1) -> str:
    """A text of so many passages, one of them written anew."""
    said = "It is said at length and in many words. " * 25
    parts = (f"## Section {at}\n\n{'New. ' if at == changed else ''}{said}" for at in range(count))
    return "\n".join(parts)


def passage_rows(database: Database) -> list[tuple[int, ...]]:
    with database.reading() as connection:
        return [tuple(row) for row in connection.execute("SELECT id, start, end FROM passage ORDER BY start")]


@contextmanager
def held(tmp_path: Path) -> Iterator[None]:
    """As long as this lasts, the documents of the data folder are some other process's turn."""
    from filelock import FileLock

    with FileLock(tmp_path / "data" / "documents-inbox" / "lock"):
        yield


def test_a_newer_form_of_a_text_keeps_the_passages_that_have_not_changed(
    documents: Documents, database: Database, notes: int
) -> None:
    document = documents.paste(notes, sections(6), "Manual")
    documents.wait()
    before = passage_rows(database)
    with database.writing() as connection:
        embedding.put_vectors(connection, "model", [row[0] for row in before], np.ones((6, 2), np.float32))
    assert documents.paste(notes, sections(6, changed=2), "Manual") == document
    documents.wait()
    after = passage_rows(database)
    assert [row[0] for row in after if row[0] in {one[0] for one in before}] == [
        before[at][0] for at in (0, 1, 3, 4, 5)
    ]
    assert after[3][1] == before[3][1] + len("New. ")  # it moved with its text
    assert (only(documents, notes).embedded, rows(database, "passage_words")) == (5, 6)
    assert [one.text for one in documents.passages(document)] == [
        documents.text(document)[one.start : one.end] for one in documents.passages(document)
    ]


def test_documents_of_an_older_schema_are_indexed_again_and_lose_nothing(tmp_path: Path) -> None:
    older = tmp_path / "migrations"
    older.mkdir()
    for path in sorted((assets_dir() / "migrations").glob("*.sql"))[:11]:
        shutil.copy(path, older)
    text = "Die H\u00e4user der Stadt haben viele Fenster."
    chunk = next(chunks([text], "a.txt"))
    digest = passage_table.new_passage("", "", chunk).digest
    (tmp_path / "data").mkdir()
    with closing(Database(tmp_path / "data" / FILE_NAME, older)) as old, old.writing() as connection:
        for statement, values in (
            ("INSERT INTO collection (id, name, created) VALUES (1, 'Notes', 1)", ()),
            (
                "INSERT INTO document (id, collection, title, source, state, digest, characters, added)"
                " VALUES (1, 1, 'Town', 'pasted', 'ready', x'01', ?, 1)",
                (len(text),),
            ),
            ("INSERT INTO document_text (document, part, text) VALUES (1, 0, ?)", (text,)),
            (
                "INSERT INTO passage (id, document, start, end, digest) VALUES (9, 1, 0, ?, ?)",
                (len(text), digest),
            ),
            ("INSERT INTO passage_words (rowid, text) VALUES (9, ?)", (text,)),
        ):
            connection.execute(statement, values)
        embedding.put_vectors(connection, "model", [9], np.ones((1, 2), np.float32))
    with (
        closing(database_in(tmp_path / "data")) as new,
        closing(Documents(new, tmp_path / "data")) as documents,
    ):
        documents.wait()
        (about,) = documents.documents(1)
        assert (about.state, about.embedded, documents.text(1)) == ("ready", 1, text)
        assert [one.passage.id for one in documents.search([1], "Wie viele Fenster hat ein Haus?", 3)] == [9]


def test_a_long_text_that_is_pasted_again_with_changes_is_known_without_a_title(
    documents: Documents, notes: int
) -> None:
    manual, other = (
        "Manual for all\n\n" + sections(6),
        "Manual for all\n\n" + sections(4).replace("It", "We").replace("many", "few"),
    )
    document = documents.paste(notes, manual)
    second = documents.paste(notes, other)
    documents.wait()
    assert documents.paste(notes, manual + "\n\nAn afterword.") == document
    assert documents.paste(notes, other + "\n\nAn afterword.") == second
    assert documents.document(second).note == "It replaced an older version of this text, which is kept."


@pytest.mark.parametrize("is_elsewhere", [False, True])
def test_a_newer_form_that_comes_while_the_older_one_is_indexed_is_the_one_that_is_found(
    documents: Documents, tmp_path: Path, notes: int, is_elsewhere: bool
) -> None:
    """`is_elsewhere`: another process pastes it."""
    older, newer = sections(1500), "Before it all.\n\n" + sections(1500, changed=1400)
    document = documents.paste(notes, older, "Manual")
    while documents.document(document).done == 0:
        pass
    if is_elsewhere:
        data = tmp_path / "data"
        with closing(database_in(data)) as database, closing(Documents(database, data)) as others:
            others.paste(notes, newer, "Manual")
    else:
        documents.paste(notes, newer, "Manual")
    documents.wait()
    places = [(one.start, one.end, one.heading) for one in documents.passages(document)]
    assert documents.text(document) == newer
    assert places == [(one.start, one.end, one.heading) for one in chunks(parts_of(newer), "pasted")]
    assert only(documents, notes).passages == len(places)


def test_what_an_answer_cites_is_found_where_it_went(documents: Documents, notes: int) -> None:
    document = documents.paste(notes, sections(3), "Manual")
    documents.wait()
    first, second, third = (
        Citation(1, document, "", one.start, one.end, passage=one.id) for one in documents.passages(document)
    )
    said = documents.words(third)
    documents.paste(notes, sections(3, changed=1), "Manual")
    documents.wait()
    assert documents.words(first).startswith("## Section 0")
    assert documents.words(third) == said
    with pytest.raises(DocumentNotFound, match="its document has changed since"):
        documents.words(second)


def whole(text: str, document: int) -> Citation:
    return Citation(1, document, "", 0, len(text), stamp=stamp_of(digest_of([text])))


def test_a_document_that_was_cited_whole_is_gone_once_it_says_something_else(
    documents: Documents, notes: int
) -> None:
    document = documents.paste(notes, EGGS, "Manual")
    cited = whole(EGGS, document)
    assert documents.words(cited) == EGGS
    documents.paste(notes, EGGS.replace("six", "nine"), "Manual")
    with pytest.raises(DocumentNotFound, match="its document has changed since"):
        documents.words(cited)
    of_an_older_app = replace(cited, stamp="")
    assert "nine minutes" in documents.words(of_an_older_app)
    documents.paste(notes, EGGS, "Manual")
    assert documents.words(cited) == EGGS


def test_what_is_cited_is_not_looked_for_in_a_text_that_is_not_indexed_yet(
    documents: Documents, notes: int, tmp_path: Path
) -> None:
    document = documents.paste(notes, sections(3), "Manual")
    documents.wait()
    third = documents.passages(document)[2]
    cited = Citation(1, document, "", third.start, third.end, passage=third.id)
    with held(tmp_path):
        documents.paste(notes, "A foreword.\n\n" + sections(3), "Manual")
        with pytest.raises(DocumentNotFound, match="Manual is being indexed: look again when it is ready"):
            documents.words(cited)
        documents.cancel(document)
    with pytest.raises(DocumentNotFound, match="Manual was not indexed: try it again in the list"):
        documents.words(cited)
    documents.again(document)
    documents.wait()
    assert documents.words(cited) == third.text


def test_a_file_with_a_text_that_is_there_becomes_that_document(
    documents: Documents, notes: int, tmp_path: Path
) -> None:
    document = documents.paste(notes, EGGS)
    (tmp_path / "copy.md").write_text(EGGS, encoding="utf-8")
    documents.add_files(notes, [tmp_path / "copy.md"])
    documents.wait()
    about = only(documents, notes)
    assert (about.id, about.note) == (
        document,
        "copy.md was added again with the same text. It is stored once.",
    )


def test_a_file_that_has_changed_is_the_same_document(
    documents: Documents, database: Database, notes: int, tmp_path: Path
) -> None:
    path = tmp_path / "manual.md"
    path.write_text(sections(4), encoding="utf-8")
    (document,) = documents.add_files(notes, [path])
    documents.wait()
    before = passage_rows(database)
    path.write_text(sections(4, changed=3), encoding="utf-8")
    documents.add_files(notes, [path])
    documents.wait()
    assert only(documents, notes).id == document
    assert documents.text(document) == sections(4, changed=3)
    assert passage_rows(database)[:3] == before[:3]


def uploaded(folder: Path, text: str) -> Path:
    """A file as a browser leaves it: each upload lies in a folder of its own."""
    folder.mkdir()
    (folder / "notes.txt").write_text(text, encoding="utf-8")
    return folder / "notes.txt"


def test_an_upload_that_has_changed_is_the_same_document(
    documents: Documents, notes: int, tmp_path: Path
) -> None:
    (document,) = documents.add_uploads(notes, [uploaded(tmp_path / "a1", sections(4))])
    documents.wait()
    documents.add_uploads(notes, [uploaded(tmp_path / "b2", sections(4, changed=3))])
    documents.wait()
    about = only(documents, notes)
    assert (about.id, about.note) == (document, "It replaced an older version of this text, which is kept.")
    assert documents.text(document) == sections(4, changed=3)


def test_uploads_of_one_name_that_share_nothing_are_two_documents(
    documents: Documents, notes: int, tmp_path: Path
) -> None:
    documents.add_uploads(notes, [uploaded(tmp_path / "a1", sections(4))])
    documents.wait()
    documents.add_uploads(notes, [uploaded(tmp_path / "b2", EGGS)])
    documents.wait()
    assert [documents.text(one.id) for one in documents.documents(notes)] == [sections(4), EGGS]


def test_files_of_one_name_from_two_folders_are_two_documents(
    documents: Documents, notes: int, tmp_path: Path
) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "README.txt").write_text(f"# {folder}", encoding="utf-8")
    documents.add_files(notes, [tmp_path / "a" / "README.txt", tmp_path / "b" / "README.txt"])
    documents.wait()
    assert [one.title for one in documents.documents(notes)] == ["README.txt", "README.txt (2)"]


def test_a_file_that_cannot_be_read_says_why_and_takes_nothing_along(
    documents: Documents, database: Database, notes: int, tmp_path: Path
) -> None:
    locked = files.pdf(tmp_path / "locked.pdf", "Eggs", password="x")
    fine = files.pdf(tmp_path / "fine.pdf", "Eggs boil for six minutes.")
    documents.add_files(notes, [locked, fine])
    documents.wait()
    first, second = documents.documents(notes)
    assert (first.state, first.note.split(":")[0]) == ("failed", "locked.pdf is encrypted")
    assert (second.state, second.title) == ("ready", "fine.pdf")
    assert documents.search([notes], "eggs")[0].passage.heading == "page 1"
    assert database.damage() == ""
    documents.remove(first.id)
    documents.erase()
    documents.wait()
    assert [one.id for one in documents.documents(notes)] == [second.id]
    assert not list((tmp_path / "data" / "documents-inbox").glob("[0-9]*"))


def test_what_was_cancelled_can_be_tried_again(documents: Documents, notes: int, tmp_path: Path) -> None:
    path = tmp_path / "manual.md"
    path.write_text(sections(6), encoding="utf-8")
    with held(tmp_path):
        (document,) = documents.add_files(notes, [path])
        documents.cancel(document)
    documents.wait()
    about = only(documents, notes)
    assert (about.state, about.note) == ("cancelled", "You cancelled this.")
    assert documents.search([notes], "section") == ()
    documents.again(document)
    documents.wait()
    about = only(documents, notes)
    assert (about.state, about.note, about.passages) == ("ready", "", 6)
    documents.cancel(document)  # too late: nothing happens
    assert only(documents, notes).state == "ready"


def test_all_imports_of_a_collection_are_cancelled_at_once(
    documents: Documents, notes: int, tmp_path: Path
) -> None:
    ready = documents.paste(notes, EGGS)
    documents.wait()
    paths = [tmp_path / f"manual{number}.md" for number in range(3)]
    for number, path in enumerate(paths):
        path.write_text(f"{sections(6)} {number}", encoding="utf-8")
    with held(tmp_path):
        added = documents.add_files(notes, paths)
        documents.cancel(ready, *added, 99)  # one is ready, and one is gone meanwhile
    documents.wait()
    states = {one.id: one.state for one in documents.documents(notes)}
    assert states == {ready: "ready", **dict.fromkeys(added, "cancelled")}


@pytest.mark.parametrize("is_file", [False, True])
def test_a_text_that_was_cancelled_is_indexed_when_it_comes_again(
    documents: Documents, notes: int, tmp_path: Path, is_file: bool
) -> None:
    with held(tmp_path):
        document = documents.paste(notes, EGGS)
        documents.cancel(document)
    if is_file:
        (tmp_path / "eggs.md").write_text(EGGS, encoding="utf-8")
        documents.add_files(notes, [tmp_path / "eggs.md"])
    else:
        documents.paste(notes, EGGS)
    documents.wait()
    about = only(documents, notes)
    assert (about.id, about.state) == (document, "ready")
    assert "You cancelled this." not in about.note
    assert documents.search([notes], "how long do eggs boil?")


def test_that_a_text_came_again_is_told_beside_what_was_left_out_of_it(
    documents: Documents, notes: int
) -> None:
    documents.paste(notes, EGGS + "\0")
    for _ in range(2):
        documents.paste(notes, EGGS)
    assert only(documents, notes).note == (
        "1 NUL characters were removed. The same text was pasted again. It is stored once."
    )


def test_what_is_gone_from_the_inbox_cannot_be_tried_again(
    documents: Documents, notes: int, tmp_path: Path
) -> None:
    (document,) = documents.add_files(notes, [files.pdf(tmp_path / "locked.pdf", "Eggs", password="x")])
    documents.wait()
    (tmp_path / "data" / "documents-inbox" / f"{document}.pdf").unlink()
    with pytest.raises(DocumentUnreadable, match=r"locked\.pdf is no longer here: add it again"):
        documents.again(document)


def test_what_was_left_undone_goes_on_at_the_next_start(tmp_path: Path) -> None:
    path = tmp_path / "manual.md"
    path.write_text(sections(6), encoding="utf-8")
    with closing(database_in(tmp_path / "data")) as database:
        with closing(Documents(database, tmp_path / "data")) as documents, held(tmp_path):
            notes = documents.create("Notes")
            documents.add_files(notes, [path])
            path.unlink()
            documents.close()
            assert only(documents, notes).state == "waiting"
        with closing(Documents(database, tmp_path / "data")) as documents:
            documents.wait()
            assert only(documents, notes).passages == 6


@pytest.mark.parametrize("state", ["waiting", "reading"])
def test_a_file_that_waited_is_read_after_the_database_was_rescued(tmp_path: Path, state: str) -> None:
    path, data, saved = tmp_path / "manual.md", tmp_path / "data", tmp_path / "saved.sqlite"
    path.write_text(sections(6), encoding="utf-8")
    with (
        closing(database_in(data)) as database,
        held(tmp_path),
        closing(Documents(database, data)) as documents,
    ):
        notes = documents.create("Notes")
        (waiting,) = documents.add_files(notes, [path])
        documents.close()
        with database.writing() as connection:
            document_table.set_state(connection, waiting, state)
            text_table.append(connection, waiting, 0, ["The beginning of a text that was being read"])
    rescue(data / FILE_NAME, saved, (mend_chats, indexing.mend_documents))
    stage(saved, data)
    apply_staged(data)
    with closing(database_in(data)) as database, closing(Documents(database, data)) as documents:
        documents.wait()
        assert (only(documents, notes).state, only(documents, notes).passages) == ("ready", 6)


def test_while_the_disk_takes_no_more_documents_wait_and_say_why(
    documents: Documents, database: Database, notes: int, tmp_path: Path
) -> None:
    documents.paste(notes, EGGS)
    documents.wait()
    assert documents.problem == ""
    with held(tmp_path):
        document = documents.paste(notes, sections(120))
        with database.reading() as connection:
            pages = connection.execute("PRAGMA page_count").fetchone()[0]
            connection.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(StoreFull, match="Free some disk space"):
        documents.wait()
    assert "Free some disk space" in documents.problem
    with database.reading() as connection:
        connection.execute("PRAGMA max_page_count = 1000000")
    documents.again(document)
    documents.wait()
    assert (documents.problem, documents.document(document).state) == ("", "ready")


def test_a_removed_document_is_left_off_and_goes(
    documents: Documents, database: Database, notes: int, tmp_path: Path
) -> None:
    with held(tmp_path):
        document = documents.paste(notes, sections(300))
        documents.remove(document)
        documents.erase()
    documents.wait()
    assert documents.documents(notes) == ()
    assert (rows(database, "passage"), rows(database, "document_text")) == (0, 0)


def test_of_a_removed_document_nothing_is_left_in_the_file(tmp_path: Path) -> None:
    with closing(database_in(tmp_path / "data")) as database:
        with closing(Documents(database, tmp_path / "data")) as documents:
            notes = documents.create("Notes")
            documents.paste(notes, EGGS)
            secret = documents.paste(notes, sections(400).replace("length", "xylophonist"), "Secret")
            documents.wait()
            documents.remove(secret)
            documents.erase()
            documents.wait()
            assert documents.search([notes], "how long do eggs boil")
        assert database.damage() == ""
    left = (tmp_path / "data" / "foresight.sqlite").read_bytes()
    assert b"xylophon" not in left and b"cold water" in left


def test_the_words_of_a_removed_document_go_even_if_the_app_was_killed_before_they_were_merged_away(
    tmp_path: Path,
) -> None:
    with closing(database_in(tmp_path / "data")) as database:
        with closing(Documents(database, tmp_path / "data")) as documents:
            notes = documents.create("Notes")
            for number in range(6):
                documents.paste(
                    notes, sections(40).replace("length", f"xylophonist{number}"), f"Text {number}"
                )
                documents.wait()
        with database.writing() as connection:  # what a run that was killed may leave
            for document in (2, 4):
                document_table.hide(connection, document)
            document_table.claim(connection)
            while indexing.delete_some(connection):
                pass
        with closing(Documents(database, tmp_path / "data")) as documents:
            documents.wait()
            files = [path.read_bytes() for path in (tmp_path / "data").iterdir() if path.is_file()]
            assert not any(b"ylophonist1" in content or b"ylophonist3" in content for content in files)
            assert len(documents.documents(notes)) == 4
    left = (tmp_path / "data" / "foresight.sqlite").read_bytes()
    assert b"ylophonist2" in left


def test_while_a_large_text_is_indexed_others_ask_and_paste(documents: Documents, notes: int) -> None:
    documents.paste(notes, EGGS)
    documents.wait()
    seen = set()
    large = documents.paste(notes, sections(2000), "Manual")
    while (state := documents.document(large).state) != "ready":
        seen.add(state)
        assert documents.search([notes], "how long do eggs boil")
    assert "indexing" in seen
    documents.wait()
    about: Document = documents.document(large)
    assert about.passages == about.done == about.total == 2000


@pytest.mark.parametrize("text", ["x" * 3_000_000, "Eggs boil. " * 20_000, "蛋" * 100_000])
def test_a_line_without_end_is_taken(documents: Documents, database: Database, notes: int, text: str) -> None:
    document = documents.paste(notes, text, "Long")
    documents.wait()
    assert documents.text(document) == text
    assert only(documents, notes).state == "ready"
    assert database.damage() == ""
