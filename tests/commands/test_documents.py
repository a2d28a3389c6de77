"""`python run.py documents …` as a person types it, and `ask` with a scripted engine."""

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from app.commands.documents import answer_question
from app.conversation import ReplySettings
from app.database.data_folder import data_dir_or_default
from app.database.database import Database, database_in
from app.documents.documents import Documents
from app.errors import BadOption, ModelError
from app.settings import ModelSettings, Settings, SettingsFile
from app.values.messages import EngineStatus, ModelChoice, Options
from tests.commands.typed import Done, typed
from tests.documents import files
from tests.engine.sentences import write_sentence_model
from tests.fakes import ScriptedEngine

CHINESE = "\u9e21\u86cb\u714e\u516d\u5206\u949f"


def run(folder: Path, *arguments: str | Path, said: str = "", encoding: str = "utf-8") -> Done:
    places = {"HF_HOME": str(folder.parent / "hf"), "PYTHONIOENCODING": f"{encoding}:strict"}
    return typed(
        "documents", *arguments, "--data-dir", folder, said=said, environment=places, encoding=encoding
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def eggs(tmp_path: Path) -> Path:
    path = tmp_path / "eggs.txt"
    path.write_text("# Boiling eggs\n\nEggs boil for six minutes.", encoding="utf-8")
    return path


def test_files_are_added_listed_found_and_removed(folder: Path, eggs: Path) -> None:
    assert run(folder, "list").stdout == "0 collections.\n"
    added = run(folder, "add", eggs, "--collection", "Kitchen").stdout
    assert "ready" in added and "1 passage" in added and "eggs.txt" in added
    assert "Kitchen  1 document  1 passage  42 characters" in run(folder, "list").stdout
    found = run(folder, "search", "how", "long", "do", "eggs", "boil?").stdout
    assert "[1] eggs.txt" in found and "characters 0 to 42" in found
    assert "    Boiling eggs Eggs boil for six minutes." in found, "as plain text"
    (one,) = json.loads(run(folder, "search", "eggs", "--json", "--collection", "kitchen").stdout)["found"]
    assert one["passage"]["text"].endswith("six minutes.")
    assert run(folder, "remove", "1", "1").stdout == "1 document removed.\n"
    assert "Nothing about 'eggs' in 1 collection." in run(folder, "search", "eggs").stdout
    assert run(folder, "remove", "--collection", "Kitchen").stdout == "Collection Kitchen removed.\n"


def test_a_file_that_has_changed_and_one_that_has_not_are_told(folder: Path, eggs: Path) -> None:
    run(folder, "add", eggs)
    eggs.write_text("# Boiling eggs\n\nEggs boil for six minutes, and milk boils over.", encoding="utf-8")
    changed = run(folder, "add", eggs).stdout
    assert "1  ready  1 passage" in changed and changed.endswith(
        "\n1 document.\nDocument 1 replaced an older version. "
        "To keep both: python run.py documents restore 1\n"
    )
    for _ in range(2):
        seen = json.loads(run(folder, "add", eggs, "--json").stdout)
        assert [(one["id"], one["title"]) for one in seen["documents"]] == [(1, "eggs.txt")]
        assert seen["known"] == [1] and "eggs.txt was added again" in seen["documents"][0]["note"]
    (one,) = json.loads(run(folder, "search", "milk", "--json").stdout)["found"]
    assert one["passage"]["text"] == eggs.read_text(encoding="utf-8")
    restored = run(folder, "restore", "1").stdout
    assert restored.endswith("\nDocument 1 has its older text again. Document 6 has the newer one.\n")
    again = run(folder, "restore", "1")
    assert (again.returncode, "No older version of this document is kept" in again.stderr) == (1, True)
    assert "eggs.txt (2) (eggs.txt)" in run(folder, "list", "--collection", "Documents").stdout


def test_a_file_that_says_something_else_is_kept_beside_the_one_of_its_name(folder: Path, eggs: Path) -> None:
    run(folder, "add", eggs)
    eggs.write_text("Milk boils over when nobody looks.", encoding="utf-8")
    added = run(folder, "add", eggs).stdout
    assert "eggs.txt (2) (eggs.txt)" in added and "both are kept." in added
    assert run(folder, "list").stdout.count("2 documents") == 1


def test_the_same_text_under_another_name_becomes_the_document_that_is_there(
    folder: Path, eggs: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy.md"
    copy.write_bytes(eggs.read_bytes())
    seen = json.loads(run(folder, "add", eggs, copy, "--json").stdout)
    assert ([one["title"] for one in seen["documents"]], seen["known"]) == (["eggs.txt"], [])


def test_a_text_comes_from_the_input(folder: Path) -> None:
    seen = json.loads(run(folder, "add", "-", "--title", "Milk", "--json", said="Milk boils over.").stdout)
    (document,) = seen["documents"]
    assert (document["title"], document["state"], document["passages"]) == ("Milk", "ready", 1)


def test_a_text_from_the_input_is_read_in_its_own_encoding(folder: Path) -> None:
    milk = "Caf\xe9 au lait: the milk boils over in a moment."
    for title, said in (("Latin", milk), ("Wide", milk.encode("utf-16").decode("latin-1"))):
        assert run(folder, "add", "-", "--title", title, said=said, encoding="latin-1").returncode == 0
    found = json.loads(run(folder, "search", "milk", "--json").stdout)["found"]
    assert [one["passage"]["text"] for one in found] == [milk]


def test_what_is_no_text_is_not_taken_from_the_input(folder: Path) -> None:
    done = run(folder, "add", "-", said="\x01\x02\x03" * 99)
    assert done.returncode == 1
    assert done.stderr == "Error: Standard input is not text. Save it as a file, and add the file.\n"
    assert run(folder, "list").stdout == "0 collections.\n"


def test_a_terminal_of_another_encoding_shows_what_it_can_and_json_loses_nothing(folder: Path) -> None:
    run(folder, "add", "-", said=CHINESE)
    shown = run(folder, "search", CHINESE, encoding="cp1252")
    assert shown.returncode == 0
    assert "??????" in shown.stdout
    seen = run(folder, "search", CHINESE, "--json", encoding="cp1252").stdout
    assert json.loads(seen)["found"][0]["passage"]["text"] == CHINESE


@pytest.mark.skipif(sys.platform == "win32", reason="arguments are no bytes there")
def test_a_question_in_bytes_of_another_encoding_is_a_question(folder: Path, eggs: Path) -> None:
    run(folder, "add", eggs)
    asked = run(folder, "search", "eggs", os.fsdecode(b"caf\xe9"))
    assert asked.returncode == 0
    assert "[1] eggs.txt" in asked.stdout


def test_what_is_added_comes_into_an_app_that_has_the_documents_open(folder: Path, eggs: Path) -> None:
    with closing(database_in(folder)) as database, closing(Documents(database, folder)) as documents:
        assert run(folder, "add", eggs, "--collection", "Kitchen").returncode == 0
        (kitchen,) = documents.collections()
        assert documents.search([kitchen.id], "eggs")[0].passage.title == "eggs.txt"


def test_with_the_model_for_it_passages_are_found_by_meaning_too(folder: Path, tmp_path: Path) -> None:
    model = write_sentence_model(tmp_path / "model").path
    SettingsFile(data_dir_or_default(folder)).save(Settings(library=ModelSettings(embedder=str(model))))
    run(folder, "add", "-", "--title", "Dog", said="the dog sleeps in the house")
    found = run(folder, "search", "the", "cat", "sleeps", "--json")
    (one,) = json.loads(found.stdout)["found"]
    assert (one["bm25_rank"], one["similarity_rank"], found.stderr) == (1, 1, "")


def test_without_the_model_for_it_a_search_says_how_to_get_it(folder: Path, eggs: Path) -> None:
    run(folder, "add", eggs)
    assert run(folder, "search", "eggs").stderr == (
        "[searched by words only: to search by meaning, too, download the embedding model: "
        "python run.py models download sentence-transformers/all-MiniLM-L6-v2]\n"
    )


def test_a_damaged_model_for_meaning_is_told_and_words_search_alone(
    folder: Path, eggs: Path, tmp_path: Path
) -> None:
    model = write_sentence_model(tmp_path / "model").path
    (model / "model.safetensors").write_bytes(b"damaged")
    SettingsFile(data_dir_or_default(folder)).save(Settings(library=ModelSettings(embedder=str(model))))
    run(folder, "add", eggs)
    found = run(folder, "search", "eggs")
    assert "[1] eggs.txt" in found.stdout
    assert found.stderr.splitlines()[-1].startswith("[searched by words only: The embedding model ")


def test_what_cannot_be_read_ends_with_its_sentence(folder: Path, eggs: Path, tmp_path: Path) -> None:
    locked = files.pdf(tmp_path / "locked.pdf", "Eggs", password="x")
    done = run(folder, "add", locked, eggs)
    assert "failed" in done.stdout and "locked.pdf is encrypted" in done.stdout and "ready" in done.stdout
    assert (done.returncode, done.stderr) == (1, "Error: 1 of 2 files could not be read. See above.\n")


@pytest.mark.parametrize(
    ("arguments", "sentence", "code"),
    [
        (["add", "nowhere.txt"], "There is no file nowhere.txt: check its name.", 1),
        (["add", "docs"], "docs is not a file: choose files, not folders.", 1),
        (["add", "-"], "There is nothing to read in this text: paste some words.", 1),
        (["list", "--collection", "No"], "There is no collection 'No'. Existing collections: none yet", 2),
        (["remove", "7"], "This document is no longer there: choose another one from the list.", 1),
        (["remove"], "Give either document numbers or --collection NAME", 2),
        (["search", " "], "There is no question. Type some words.", 2),
        (["ask", " "], "There is no question. Type some words.", 2),
        (["search", "x", "--collection", "No"], "There is no collection 'No'", 2),
    ],
)
def test_wrong_input_is_answered_with_a_sentence(
    folder: Path, arguments: list[str], sentence: str, code: int
) -> None:
    done = run(folder, *arguments)
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr.startswith("Error: ") and sentence in done.stderr and done.stderr.count("\n") == 1


SETTINGS = ReplySettings(ModelChoice("demo"), Options())


class LoadingEngine(ScriptedEngine):
    """Loads at once, or says why it cannot."""

    problem = ""

    def load(self, choice: ModelChoice, ended: Callable[[bool], None] = lambda _: None) -> None:
        self.loads.append(choice)
        self.now = EngineStatus("failed", self.problem) if self.problem else self.now
        ended(not self.problem)


def answer(
    documents: Documents, engine: Any, collections: tuple[str, ...] = (), as_json: bool = False
) -> None:
    answer_question(documents, engine, "What is the rent?", collections, SETTINGS, as_json)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Documents]:
    with closing(Database(tmp_path / "a.sqlite")) as database, closing(Documents(database, tmp_path)) as kept:
        yield kept


@pytest.fixture
def lease(store: Documents) -> Documents:
    store.paste(store.create("Home"), "The rent is 740 euros a month.", "Lease")
    store.wait()
    return store


def test_an_answer_is_printed_with_its_sources(lease: Documents, capsys: pytest.CaptureFixture[str]) -> None:
    engine = LoadingEngine("740 euros [1].")
    answer(lease, engine)
    seen = capsys.readouterr()
    assert "740 euros [1]." in seen.out
    assert "[1] Lease (0 to 30)" in seen.out
    assert "tokens per step" in seen.err
    assert engine.requests[-1].documents == ("The rent is 740 euros a month.",)


def test_the_answer_can_be_read_by_programs(lease: Documents, capsys: pytest.CaptureFixture[str]) -> None:
    answer(lease, LoadingEngine("740 [1]."), ("Home",), as_json=True)
    seen = json.loads(capsys.readouterr().out)
    assert seen["text"] == "740 [1]."
    assert seen["sources"]["cited"][0]["title"] == "Lease"


def test_a_citation_that_its_source_does_not_support_is_named(
    lease: Documents, capsys: pytest.CaptureFixture[str]
) -> None:
    answer(lease, LoadingEngine("Penguins swim well [1]."))
    assert "Check [1]: The sentence has little in common" in capsys.readouterr().out
    answer(lease, LoadingEngine("Penguins swim well [1]."), as_json=True)
    assert json.loads(capsys.readouterr().out)["sources"]["unsupported"] == [0]


def test_a_model_that_cannot_be_loaded_says_so(lease: Documents) -> None:
    engine = LoadingEngine()
    engine.problem = "It is broken: download it again."
    with pytest.raises(ModelError, match="download it again"):
        answer(lease, engine)


def test_without_documents_nothing_is_loaded(store: Documents) -> None:
    engine = LoadingEngine()
    with pytest.raises(BadOption, match="documents add"):
        answer(store, engine)
    assert engine.loads == []
