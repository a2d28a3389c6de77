"""`python run.py documents …` as a person types it."""

import json
from contextlib import closing
from pathlib import Path

import pytest

from app.database import database_in
from app.documents import Documents
from tests.commands.typed import Done, typed
from tests.documents import files


def run(folder: Path, *arguments: str | Path, said: str = "") -> Done:
    return typed("documents", *arguments, "--data-dir", folder, said=said)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def eggs(tmp_path: Path) -> Path:
    path = tmp_path / "eggs.md"
    path.write_text("# Boiling eggs\n\nEggs boil for six minutes.", encoding="utf-8")
    return path


def test_files_are_added_listed_found_and_removed(folder: Path, eggs: Path) -> None:
    assert run(folder, "list").stdout == "0 collections.\n"
    added = run(folder, "add", eggs, "--collection", "Kitchen").stdout
    assert "ready" in added and "1 passage" in added and "eggs.md" in added
    assert "Kitchen  1 document  1 passage  42 characters" in run(folder, "list").stdout
    found = run(folder, "search", "how", "long", "do", "eggs", "boil?").stdout
    assert "[1] eggs.md" in found and "characters 0 to 42" in found
    (one,) = json.loads(run(folder, "search", "eggs", "--json", "--collection", "kitchen").stdout)["found"]
    assert one["passage"]["text"].endswith("six minutes.")
    assert run(folder, "remove", "1", "1").stdout == "1 document removed.\n"
    assert "Nothing about 'eggs' in 1 collection." in run(folder, "search", "eggs").stdout
    assert run(folder, "remove", "--collection", "Kitchen").stdout == "Collection Kitchen removed.\n"


def test_a_text_comes_from_the_input(folder: Path) -> None:
    told = json.loads(run(folder, "add", "-", "--title", "Milk", "--json", said="Milk boils over.").stdout)
    (document,) = told["documents"]
    assert (document["title"], document["state"], document["passages"]) == ("Milk", "ready", 1)


def test_what_is_added_comes_into_an_app_that_has_the_documents_open(folder: Path, eggs: Path) -> None:
    with closing(database_in(folder)) as database, closing(Documents(database, folder)) as documents:
        assert run(folder, "add", eggs, "--collection", "Kitchen").returncode == 0
        (kitchen,) = documents.collections()
        assert documents.search([kitchen.id], "eggs")[0].passage.title == "eggs.md"


def test_what_cannot_be_read_ends_with_its_sentence(folder: Path, eggs: Path, tmp_path: Path) -> None:
    locked = files.pdf(tmp_path / "locked.pdf", "Eggs", password="x")
    done = run(folder, "add", locked, eggs)
    assert "failed" in done.stdout and "locked.pdf is encrypted" in done.stdout and "ready" in done.stdout
    assert (done.returncode, done.stderr) == (1, "Error: 1 of 2 files could not be read: see above.\n")


@pytest.mark.parametrize(
    ("arguments", "sentence", "code"),
    [
        (["add", "nowhere.txt"], "There is no file nowhere.txt: check its name.", 1),
        (["add", "docs"], "docs is no file: choose files, not folders.", 1),
        (["add", "-"], "There is nothing to read in this text: paste some words.", 1),
        (["list", "--collection", "No"], "There is no collection 'No' (there are: none yet)", 2),
        (["remove", "7"], "This document is no longer there", 1),
        (["remove"], "Say either which documents to remove, or which collection", 2),
        (["search", " "], "There is no question: type some words.", 2),
        (["search", "x", "--collection", "No"], "There is no collection 'No'", 2),
    ],
)
def test_wrong_input_is_answered_with_a_sentence(
    folder: Path, arguments: list[str], sentence: str, code: int
) -> None:
    done = run(folder, *arguments)
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr.startswith("Error: ") and sentence in done.stderr and done.stderr.count("\n") == 1
