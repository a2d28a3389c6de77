"""Models as a person gets and uses them: the real app, a small hub on this machine, a real Chromium."""

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from app.database.data_folder import data_dir_or_default
from app.models_registry.downloads.download_queue import SavedDownloads
from app.models_registry.hub.hub_id import HubId
from app.settings import assets_dir
from app.system.gpus import CudaGpu
from tests.accessibility import grave_by_day_and_by_night
from tests.gguf_models import write_gguf
from tests.models_registry.hub_server import FakeHub, running
from tests.models_registry.model_files import model_files, write
from tests.models_registry.test_installed_models import CONFIG
from tests.page_driver import LAST, PageDriver, watched
from tests.pictures import HOUSE_RULES, KEY
from tests.remote.fake_server import FakeServer
from tests.remote.fake_server import running as model_server
from tests.support import fake_cuda
from tests.support.app_process import GPU_BUILD, AppProcess
from tests.support.waiting import until

COMMIT = "0" * 40
FAST, SLOW = 0.0, 3_000_000.0
"""Bytes per second of the hub."""

pytestmark = pytest.mark.browser


@dataclass
class RunningApp:
    """A running app, its hub, and its cache."""

    url: str
    hub: FakeHub
    cache: Path


def demo_files() -> dict[str, bytes]:
    folder = assets_dir() / "demo-model"
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix != ".md"}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningApp]:
    """The app on a machine with an old model in its cache, and with a download that an earlier run left."""
    base = tmp_path_factory.mktemp("models")
    data, cache = base / "data", base / "hf" / "hub"
    write(cache / "models--org--old" / "snapshots" / COMMIT, {**model_files(50_000), "config.json": CONFIG})
    SavedDownloads(data_dir_or_default(data) / "downloads").save(HubId("tiny/left"), None)
    models = {name: demo_files() for name in ("tiny/stories", "tiny/left", "tiny/locked")}
    gguf = write_gguf(base / "tiny.gguf").read_bytes()
    models["tiny/packed-GGUF"] = {"packed-F16.gguf": gguf + bytes(999), "packed-Q8_0.gguf": gguf}
    models["tiny/broken"] = {**model_files(), "config.json": CONFIG}
    with running(FakeHub(models, {"tiny/locked"}, {"hf_good"})) as hub:
        own = {key: value for key, value in os.environ.items() if not key.startswith("HF_")}
        environment = {**own, "HF_ENDPOINT": hub.endpoint, "HF_HOME": str(base / "hf")}
        with AppProcess(data, environment) as app:
            yield RunningApp(app.url, hub, cache)


@pytest.fixture
def person(browser: Any, place: RunningApp) -> Iterator[PageDriver]:
    """A person who has just gone to the models."""
    with watched(browser, place.url) as driver:
        driver.page.wait_for_selector("#status .ready", timeout=300_000)
        assert driver.page.is_visible("#message") and not driver.page.is_visible("#models")
        driver.page.click("#to-models")
        driver.page.wait_for_selector("#installed .line")
        yield driver


def button(label: str, among: str = "#downloads") -> str:
    """The button that a screen reader calls so."""
    return f'{among} button[aria-label="{label}"]'


def search(person: PageDriver, words: str) -> None:
    person.page.click("#models-tab-discover")
    person.page.fill("#search-text :is(input, textarea)", words)
    person.page.press("#search-text :is(input, textarea)", "Enter")
    person.page.wait_for_selector("#results .line")


def wait_for(person: PageDriver, selector: str, words: str, timeout: float = 60) -> None:
    script = "([selector, words]) => document.querySelector(selector)?.innerText.includes(words)"
    person.page.wait_for_function(script, arg=[selector, words], timeout=timeout * 1000)


def test_a_model_is_found_fetched_paused_resumed_loaded_and_talked_to(
    person: PageDriver, place: RunningApp
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
    until(lambda: not place.hub.connections)
    place.hub.pace = FAST
    person.page.click(button("Resume tiny/stories"))
    person.page.click(button("Load… tiny/stories"), timeout=300_000)
    load(person)
    person.page.click("#models-tab-installed")
    wait_for(person, "#loaded", "stories")
    wait_for(person, "#loaded", "Measured peak: ")
    person.page.click("#to-chat")
    assert "stories" in person.text("#status")
    assert_that_auto_replies_with_its_numbers(person)


def assert_that_auto_replies_with_its_numbers(person: PageDriver) -> None:
    """Ask the demo model what its likeliest answer to has no end; look at all that the page says of the reply."""
    person.send("Count from 1 to 500: 1 2 3 4 5 6 7 8 9 10 11 12")
    # A quick reply may be over before the page is looked at; tests/ui/test_browser.py holds that the numbers move.
    person.page.wait_for_function("document.querySelector('#live')?.innerText.trim()")
    assert len(person.wait_for_reply()) > 10
    # On a machine that is busy with a browser auto may find that no draft pays, and write plainly.
    assert person.text("#tokens-per-step") and person.text(":is(#speed-up, #panel .sentence)")
    assert person.page.locator(".chart:visible polyline").count() == 1
    assert person.page.locator(".step-bars path").count() > 1
    person.press("Details")
    assert "auto" in person.text(f"{LAST} .details")
    bottoms = [person.page.locator(part).bounding_box() for part in (f"{LAST} .details", "#message")]
    assert bottoms[0]["y"] + bottoms[0]["height"] <= bottoms[1]["y"], "details are brought into view"
    person.press("Colour by origin")
    token = f"{LAST} .coloured .step [title]"
    person.page.wait_for_selector(token)
    assert "model" in str(person.page.get_attribute(token, "title"))


def load(person: PageDriver, **options: str) -> None:
    """Choose options in the Load dialog, load, and wait until it has closed."""
    person.page.wait_for_selector("#load-dialog .question")
    for name, value in options.items():
        person.page.select_option(f"#load-dialog select[name={name}]", value)
    person.page.click("#load-dialog [data-do=load-form]")
    person.page.wait_for_selector("#load-dialog .question", state="detached", timeout=300_000)


@pytest.mark.thorough
def test_a_file_of_a_repository_with_only_gguf_is_downloaded_by_one_click_and_loads(
    person: PageDriver, place: RunningApp
) -> None:
    person.page.emulate_media(reduced_motion="reduce")  # what moves would be measured half way
    search(person, "packed")
    person.page.click('#results [data-do="inspect"]')
    person.page.wait_for_selector("#results .ggufs")
    assert person.page.is_checked('#results input[value="packed-Q8_0.gguf"]'), "the largest of at most 8 bits"
    assert person.text("#results .ggufs label").startswith("Q8_0"), "the smallest comes first"
    assert grave_by_day_and_by_night(person.page) == []
    person.page.click('#results [data-do="download-file"]')
    person.page.click(button("Load… tiny/packed-GGUF:packed-Q8_0.gguf"), timeout=300_000)
    load(person)
    wait_for(person, "#status", "packed-Q8_0")
    assert not any("packed-F16" in line for line in place.hub.asked if "resolve" in line)


@pytest.mark.thorough
def test_the_load_dialog_is_used_by_keyboard_and_remembers(person: PageDriver) -> None:
    person.page.focus("#installed button[aria-label$='… demo']")
    person.page.keyboard.press("Enter")
    person.page.wait_for_selector("#load-dialog .question")
    assert person.page.evaluate("document.activeElement.dataset.do") in ("load-form", "close-load")
    person.page.select_option("#load-dialog select[name=context]", "512")
    person.page.wait_for_selector('#load-dialog option[value="512"][selected]', state="attached")
    person.page.focus("#load-dialog [name=quantisation]:checked")
    for quantisation in ("none", "int8"):
        person.page.keyboard.press("ArrowDown")
        person.page.wait_for_selector(f'#load-dialog [value="{quantisation}"][checked]')
    assert person.page.evaluate("document.activeElement.value") == "int8", "the focus stays where it was"
    person.page.keyboard.press("Enter")
    person.page.wait_for_selector("#load-dialog .question", state="detached", timeout=300_000)
    wait_for(person, "#loaded", "int8 weights")
    person.page.click("#installed button[aria-label='Options… demo']")
    person.page.wait_for_selector('#load-dialog [value="int8"][checked]')
    assert person.page.input_value("#load-dialog select[name=context]") == "512"
    person.page.keyboard.press("Escape")
    person.page.wait_for_selector("#load-dialog .question", state="detached")


@pytest.mark.thorough
@pytest.mark.skipif(shutil.which("nvidia-smi") is not None, reason="there is a card")
def test_where_a_card_is_too_small_a_box_says_what_main_memory_costs(
    browser: Any, tmp_path: Path, screenshots: Path | None
) -> None:
    tool = tmp_path / "bin" / "nvidia-smi"
    card = CudaGpu("A card that is almost full", str(UUID(int=7)), "0000:01:00.0", 24000 << 20, (8, 9))
    line = f"GPU-{card.uuid}, {card.bus_id}, 668, 24000, {card.name}"
    write(tool.parent, {tool.name: f"#!/bin/sh\necho '{line}'\n".encode()})
    tool.chmod(0o755)
    path = f"{tool.parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, **fake_cuda.build(tmp_path / "cuda", [card]), GPU_BUILD: "1", "PATH": path}
    with AppProcess(tmp_path / "data", environment) as app, PageDriver(browser, app.url) as person:
        page = person.page
        page.click("#to-models")
        page.click("#installed button[aria-label$='… demo']")
        page.select_option("#load-dialog select[name=dtype]", "bfloat16")
        box = "#load-dialog input[name=offload]"
        page.wait_for_selector(box)
        assert "Slow: about 12 MB of its weights stay in main memory" in person.text("#load-dialog")
        page.focus("#load-dialog select[name=attention]")
        page.keyboard.press("Tab")
        page.wait_for_function("document.activeElement.name === 'offload'")
        page.keyboard.press("Space")
        page.wait_for_selector(f"{box}[checked]")
        assert page.evaluate("document.activeElement.name") == "offload", "the focus stays where it was"
        assert grave_by_day_and_by_night(page) == []
        if screenshots:
            page.screenshot(path=screenshots / "offload.png")
        page.keyboard.press("Enter")
        wait_for(person, "#load-dialog .problem", "No CUDA device is used here")


@pytest.mark.thorough
def test_a_path_opens_the_dialog_and_a_wrong_one_is_a_sentence(person: PageDriver, place: RunningApp) -> None:
    file = write_gguf(place.cache.parent.parent / "mine.gguf")
    person.page.fill("#path :is(input, textarea)", "/no/such/file.gguf")
    person.page.click("#open-path-button")
    wait_for(person, "#path-fault", "The file /no/such/file.gguf does not exist: check the path.")
    person.page.fill("#path :is(input, textarea)", str(file))
    person.page.click("#open-path-button")
    load(person)
    wait_for(person, "#status", "mine")


@pytest.mark.thorough
def test_models_are_picked_filtered_and_looked_into(person: PageDriver) -> None:
    person.page.click("#models-tab-discover")
    person.page.wait_for_selector("#picks .card")
    assert 1 <= person.page.locator("#picks .card").count() <= 3
    all_models = person.page.locator("#catalogue .line").count()
    person.page.click("#filter-size input")
    person.page.click("[role=option] >> text=Up to 1 GB")
    person.page.wait_for_function(
        "all => document.querySelectorAll('#catalogue .line').length < all", arg=all_models
    )
    person.page.click("#catalogue [data-more] >> nth=0")
    assert person.page.is_visible("#catalogue .model-detail .fit >> nth=0")


@pytest.mark.thorough
def test_what_an_earlier_start_left_is_offered_again_and_cancelled(
    person: PageDriver, place: RunningApp
) -> None:
    person.page.click(button("Cancel the download of tiny/left"))
    wait_for(person, "#to-models", "Models")
    person.page.wait_for_selector(button("Cancel the download of tiny/left"), state="detached")
    assert not (place.cache / "models--tiny--left").exists()


@pytest.mark.thorough
def test_a_model_is_deleted_once_that_was_agreed_to(person: PageDriver, place: RunningApp) -> None:
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
def test_a_gated_model_says_where_to_go_and_comes_with_a_token(person: PageDriver, place: RunningApp) -> None:
    person.page.click("#models-tab-discover")
    person.page.fill("#search-text :is(input, textarea)", f"{place.hub.endpoint}/tiny/locked")
    person.page.click("#search-button")
    wait_for(person, "#results", "accept the terms")
    person.page.click('#results [data-do="download"]')
    person.page.wait_for_selector("#downloads .gate a")
    person.page.click("#access button.label-wrap")
    person.page.fill("#token input", "hf_good")
    person.page.click("#save-token")
    wait_for(person, "#access", "A token was found")
    assert person.page.input_value("#token input") == ""
    person.page.click(button("Try again tiny/locked"))
    person.page.wait_for_selector(button("Load… tiny/locked"), timeout=300_000)


@pytest.mark.thorough
def test_a_broken_model_says_so_and_the_one_before_answers_on(person: PageDriver) -> None:
    search(person, "broken")
    person.page.click('#results [data-do="inspect"]')
    person.page.click('#results [data-do="download"]')
    before = person.text("#loaded h4")
    person.page.click(button("Load… tiny/broken"), timeout=300_000)
    person.page.click("#load-dialog [data-do=load-form]")
    wait_for(person, "#load-dialog .problem", "stays loaded")
    wait_for(person, "#load-dialog .problem", "tiny/broken")
    person.page.keyboard.press("Escape")
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
    person.page.click("#installed button[aria-label$='… demo']")
    load(person, dtype="float32")
    wait_for(person, "#loaded h4", "demo")


@pytest.mark.thorough
def test_offline_makes_no_request(person: PageDriver, place: RunningApp) -> None:
    person.page.click("#models-tab-discover")
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
def test_the_models_are_there_by_night(browser: Any, place: RunningApp) -> None:
    size = {"width": 2560, "height": 1440}
    with PageDriver(browser, place.url, scheme="dark", size=size) as night:
        night.page.click("#to-models")
        night.page.click("#models-tab-discover")
        night.page.wait_for_selector("#catalogue .line")
        assert night.is_dark()


def test_a_document_is_asked_cited_opened_and_removed(person: PageDriver) -> None:
    person.paste("House rules", HOUSE_RULES)
    person.page.click("#to-chat")
    person.begin_chat()
    person.consult()
    person.ask("Where is the spare key of the boathouse?")
    assert "House rules" in person.text(f"{LAST} .cited")
    person.page.click(f"{LAST} [data-do=source]")
    person.page.wait_for_selector("#reading mark")
    assert KEY in person.text("#reading mark")
    person.page.click("#reading [data-do=prompt]")
    person.page.wait_for_selector("#reading .original >> text=Question: Where is the spare key")
    person.page.keyboard.press("Escape")
    person.remove_document()
    person.page.click("#to-chat")
    person.press("Regenerate")
    person.page.wait_for_selector(f"{LAST}:not(:has(.cited)) footer")


def test_a_server_is_added_its_model_talked_to_and_the_server_removed(
    person: PageDriver, screenshots: Path | None
) -> None:
    page = person.page
    page.emulate_media(reduced_motion="reduce")  # what moves would be measured half way
    with model_server(FakeServer(models=("org/far-away",), key="sk-far")) as server:
        page.click("#add-a-server button")
        page.fill("#server-address :is(input, textarea)", server.address)
        page.fill("#server-key :is(input, textarea)", "sk-far")
        page.click("#add-server")
        page.click(button("Use org/far-away", "#servers"))
        wait_for(person, "#status", "far-away · remote")
        assert grave_by_day_and_by_night(page) == []
        if screenshots:
            page.screenshot(path=screenshots / "remote-models.png")
        page.click("#to-chat")
        person.begin_chat()
        person.send("Hi there")
        page.wait_for_selector(f"{LAST} .said >> text=Hello there.")
        person.open_tab("live")
        assert "Lookahead, the X-ray and the same-text setting do not apply" in person.text("#panel")
        if screenshots:
            page.screenshot(path=screenshots / "remote-chat.png")
        assert server.asked[-1]["messages"][-1] == {"role": "user", "content": "Hi there"}
        page.click("#to-models")
        page.click(button(f"Remove server {server.address}", "#servers"))
        page.wait_for_function("!document.querySelector('#status').innerText.includes('remote')")
        page.wait_for_selector("#servers .server", state="detached")
    person.wait_until_ready()
