"""The embedding model is downloaded from the Documents view: the real app, a small hub, a real Chromium."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.settings import DEFAULT_EMBEDDER
from tests.engine.sentences import write_sentence_model
from tests.models_registry.hub_server import FakeHub, running
from tests.page_driver import PageDriver
from tests.support.app_process import AppProcess

pytestmark = pytest.mark.browser

SLOW = 60_000.0
"""Bytes per second: the model takes two or three seconds."""
LINE = "#semantic-search .semantic-search"


def files_of(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    """An app whose hub has the model, under its own name; the model itself is a tiny one."""
    model = files_of(write_sentence_model(tmp_path / "model", pooling="cls_token").path)
    with running(FakeHub({DEFAULT_EMBEDDER: model}, pace=SLOW)) as hub:
        own = {key: value for key, value in os.environ.items() if not key.startswith("HF_")}
        environment = {**own, "HF_ENDPOINT": hub.endpoint, "HF_HOME": str(tmp_path / "hf")}
        with AppProcess(tmp_path / "data", environment) as app:
            yield app.url


def wait_for(person: PageDriver, words: str) -> None:
    script = "([at, words]) => document.querySelector(at)?.innerText.includes(words)"
    person.page.wait_for_function(script, arg=[LINE, words], timeout=300_000)


@pytest.mark.thorough
def test_the_model_is_downloaded_and_documents_get_semantic_search(browser: Any, url: str) -> None:
    with PageDriver(browser, url) as person:
        person.paste("Pets", "the dog sleeps in the house")
        wait_for(person, "Download all-MiniLM-L6-v2 (90 MB) to add semantic search of English texts.")
        person.page.click(f"{LINE} button")
        wait_for(person, "Downloading all-MiniLM-L6-v2: ")
        person.page.wait_for_selector(f"{LINE} progress[value]")
        wait_for(person, "Keyword and semantic search.")
        assert person.page.locator(f"{LINE} :is(button, progress)").count() == 0
        person.page.wait_for_selector("#document-list >> text=keyword and semantic search", timeout=300_000)
        assert person.complaints == []
        assert person.foreign == []
