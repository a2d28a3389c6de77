"""Models as a person gets them: the real app, a small hub on this machine, a real Chromium."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from app.models_registry import HubId, SavedDownloads
from app.settings import assets_dir
from tests.models_registry.hub_server import FakeHub, running
from tests.models_registry.model_files import model_files, write
from tests.models_registry.test_installed_models import CONFIG
from tests.page_driver import PageDriver
from tools.app_process import AppProcess

COMMIT = "0" * 40
FAST, SLOW = 0.0, 3_000_000.0
"""Bytes per second of the hub."""

pytestmark = [pytest.mark.browser, pytest.mark.timeout(180)]


@dataclass
class Place:
    """A running app, its hub, and its cache."""

    url: str
    hub: FakeHub
    cache: Path


def demo_files() -> dict[str, bytes]:
    folder = assets_dir() / "demo-model"
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix != ".md"}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """The app on a machine with an old model in its cache, and with a download that an earlier run left."""
    base = tmp_path_factory.mktemp("models")
    data, cache = base / "data", base / "hf" / "hub"
    write(cache / "models--org--old" / "snapshots" / COMMIT, {**model_files(50_000), "config.json": CONFIG})
    SavedDownloads(data / "downloads").save(HubId("tiny/left"), None)
    models = {name: demo_files() for name in ("tiny/stories", "tiny/left", "tiny/locked")}
    broken = {**model_files(), "config.json": CONFIG}
    with running(FakeHub({**models, "tiny/broken": broken}, {"tiny/locked"}, {"hf_good"})) as hub:
        own = {key: value for key, value in os.environ.items() if not key.startswith("HF_")}
        environment = {**own, "HF_ENDPOINT": hub.endpoint, "HF_HOME": str(base / "hf")}
        with AppProcess(data, environment) as app:
            yield Place(app.url, hub, cache)


@pytest.fixture
def person(browser: Any, place: Place) -> Iterator[PageDriver]:
    """A person who has just gone to the models."""
    with PageDriver(browser, place.url) as driver:
        driver.page.wait_for_selector("#status .ready", timeout=120_000)
        assert driver.page.is_visible("#message") and not driver.page.is_visible("#models")
        driver.page.click("#to-models")
        driver.page.wait_for_selector("#catalogue .card")
        yield driver
        assert driver.complaints == []
        assert driver.foreign == []


def button(label: str, among: str = "#downloads") -> str:
    """The button that a screen reader calls so."""
    return f'{among} button[aria-label="{label}"]'


def search(person: PageDriver, words: str) -> None:
    person.page.fill("#search-text :is(input, textarea)", words)
    person.page.press("#search-text :is(input, textarea)", "Enter")
    person.page.wait_for_selector("#results .card")


def wait_for(person: PageDriver, selector: str, words: str, timeout: float = 60) -> None:
    script = "([selector, words]) => document.querySelector(selector)?.innerText.includes(words)"
    person.page.wait_for_function(script, arg=[selector, words], timeout=timeout * 1000)


def test_a_model_is_found_fetched_paused_resumed_loaded_and_talked_to(
    person: PageDriver, place: Place
) -> None:
    place.hub.pace = SLOW
    search(person, "stories")
    person.page.click('#results [data-do="inspect"]')
    person.page.wait_for_selector("#results .fit")
    person.page.click('#results [data-do="download"]')
    wait_for(person, "#downloads", "/s")
    wait_for(person, "#to-models", "1 downloading, 1 paused")
    person.page.click(button("Pause tiny/stories"))
    person.page.wait_for_selector(button("Resume tiny/stories"))
    sent = len(place.hub.sent)
    person.page.wait_for_timeout(400)
    assert len(place.hub.sent) == sent
    place.hub.pace = FAST
    person.page.click(button("Resume tiny/stories"))
    person.page.click(button("Load tiny/stories"), timeout=30_000)
    wait_for(person, "#loaded", "stories")
    wait_for(person, "#loaded", "Measured peak: ")
    person.page.click("#to-chat")
    person.send("Hi there")
    assert person.wait_for_reply()
    assert "tiny/stories" in person.text("#status")


@pytest.mark.thorough
def test_what_an_earlier_start_left_is_offered_again_and_cancelled(person: PageDriver, place: Place) -> None:
    person.page.click(button("Cancel the download of tiny/left"))
    wait_for(person, "#to-models", "Models")
    person.page.wait_for_selector(button("Cancel the download of tiny/left"), state="detached")
    assert not (place.cache / "models--tiny--left").exists()


@pytest.mark.thorough
def test_a_model_is_deleted_once_that_was_agreed_to(person: PageDriver, place: Place) -> None:
    for answer in ("no", "delete-now"):
        person.page.click(button("Delete org/old", "#installed"))
        wait_for(person, "#question", "This frees")
        # The answer that changes nothing has the focus.
        assert person.page.evaluate("document.activeElement.dataset.do") == "no"
        person.page.click(f'#question [data-do="{answer}"]')
        person.page.wait_for_selector("#question .question", state="detached")
        assert (place.cache / "models--org--old").exists() == (answer == "no")
    person.page.wait_for_selector(button("Delete org/old", "#installed"), state="detached")


@pytest.mark.thorough
def test_a_gated_model_says_where_to_go_and_comes_with_a_token(person: PageDriver, place: Place) -> None:
    person.page.fill("#search-text :is(input, textarea)", f"{place.hub.endpoint}/tiny/locked")
    person.page.click("#search-button")
    wait_for(person, "#results", "Accept the terms")
    person.page.click('#results [data-do="download"]')
    person.page.wait_for_selector("#downloads .gate a")
    person.page.click("#access button.label-wrap")
    person.page.fill("#token input", "hf_good")
    person.page.click("#save-token")
    wait_for(person, "#access", "A token is saved")
    assert person.page.input_value("#token input") == ""
    person.page.click(button("Resume tiny/locked"))
    person.page.wait_for_selector(button("Load tiny/locked"), timeout=30_000)


@pytest.mark.thorough
def test_a_broken_model_says_so_and_the_one_before_answers_on(person: PageDriver) -> None:
    search(person, "broken")
    person.page.click('#results [data-do="inspect"]')
    person.page.click('#results [data-do="download"]')
    before = person.text("#loaded h4")
    person.page.click(button("Load tiny/broken"), timeout=30_000)
    wait_for(person, "#status", "tiny/broken")
    wait_for(person, "#loaded", "stays loaded")
    assert person.text("#loaded h4") == before
    person.page.click("#to-chat")
    person.page.click("#new-chat")
    person.send("Hi")
    assert person.wait_for_reply()


@pytest.mark.thorough
def test_switching_under_a_reply_asks_first(person: PageDriver) -> None:
    person.page.click("#to-chat")
    person.page.click("#new-chat")
    person.open_tab("settings")
    person.page.fill("#temperature input[type=number]", "2")
    person.page.press("#temperature input[type=number]", "Tab")
    person.send("Tell me everything that you know about the commands of a shell")
    person.wait_for_text()
    person.page.click("#to-models")
    person.page.click(button("Load demo", "#installed"))
    person.page.wait_for_selector("#question .question, #status .loading")
    if person.page.locator("#question .question").count():
        person.page.click('#question [data-do="load-now"]')
    wait_for(person, "#loaded h4", "demo")


@pytest.mark.thorough
def test_offline_makes_no_request(person: PageDriver, place: Place) -> None:
    person.page.click("#offline input")
    asked = len(place.hub.asked)
    person.page.wait_for_timeout(300)
    search(person, "Qwen3")
    wait_for(person, "#results", "Foresight is set to offline")
    assert len(place.hub.asked) == asked
    person.page.click("#offline input")
    person.page.wait_for_timeout(300)
    search(person, "stories")


@pytest.mark.thorough
def test_the_models_are_there_by_night(browser: Any, place: Place) -> None:
    size = {"width": 2560, "height": 1440}
    with PageDriver(browser, place.url, scheme="dark", size=size) as night:
        night.page.click("#to-models")
        night.page.wait_for_selector("#catalogue .card")
        assert night.is_dark()
