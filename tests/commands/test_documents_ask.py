"""`documents ask`: an answer with its sources, or a sentence that says why there is none."""

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from app.commands.documents_ask import answer_question
from app.conversation import ReplySettings
from app.database import Database
from app.documents import Documents
from app.errors import BadOption, ModelError
from app.values.messages import EngineStatus, ModelChoice, Options
from tests.fakes import ScriptedEngine

SETTINGS = ReplySettings(ModelChoice("demo"), Options())


class LoadingEngine(ScriptedEngine):
    """Loads at once, or says why it cannot."""

    problem = ""

    def load(self, choice: ModelChoice, ended: Callable[[bool], None] = lambda _: None) -> None:
        self.loads.append(choice)
        self.now = EngineStatus("failed", self.problem) if self.problem else self.now
        ended(not self.problem)


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
    answer_question(lease, engine, "What is the rent?", (), SETTINGS, as_json=False)
    seen = capsys.readouterr()
    assert "740 euros [1]." in seen.out
    assert "[1] Lease (0 to 30)" in seen.out
    assert "tokens per step" in seen.err
    assert engine.requests[-1].documents == ("The rent is 740 euros a month.",)


def test_the_answer_can_be_read_by_programs(lease: Documents, capsys: pytest.CaptureFixture[str]) -> None:
    answer_question(lease, LoadingEngine("740 [1]."), "rent?", ["Home"], SETTINGS, as_json=True)
    seen = json.loads(capsys.readouterr().out)
    assert seen["text"] == "740 [1]."
    assert seen["sources"]["cited"][0]["title"] == "Lease"


def test_a_citation_that_its_source_does_not_support_is_named(
    lease: Documents, capsys: pytest.CaptureFixture[str]
) -> None:
    answer_question(
        lease, LoadingEngine("Penguins swim well [1]."), "rent?", ["Home"], SETTINGS, as_json=False
    )
    assert "Check [1]: the sentence that cites it has nothing in common" in capsys.readouterr().out
    answer_question(
        lease, LoadingEngine("Penguins swim well [1]."), "rent?", ["Home"], SETTINGS, as_json=True
    )
    assert json.loads(capsys.readouterr().out)["sources"]["unsupported"] == [0]


def test_a_model_that_cannot_be_loaded_says_so(lease: Documents) -> None:
    engine = LoadingEngine()
    engine.problem = "It is broken: download it again."
    with pytest.raises(ModelError, match="download it again"):
        answer_question(lease, engine, "rent?", (), SETTINGS, as_json=False)


def test_without_documents_nothing_is_loaded(store: Documents) -> None:
    engine = LoadingEngine()
    with pytest.raises(BadOption, match="documents add"):
        answer_question(store, engine, "rent?", (), SETTINGS, as_json=False)
    assert engine.loads == []
