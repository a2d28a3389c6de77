"""The app as a person starts it: `python run.py`, the demo model, a real Chromium. Of this, what
tests/test_models_in_browser.py holds also runs by default."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.accessibility import grave_by_day_and_by_night
from tests.page_driver import LAST, PageDriver, watched
from tests.pictures import QUESTION, take_pictures
from tests.support.app_process import CHECKOUT, AppProcess

CODE_QUESTION = "Write a Python function that returns the sum of a list."
ENDLESS = "Count from 1 to 500: 1 2 3 4 5 6 7 8 9 10 11 12"
"""The demo model's likeliest answer to this has no end."""
SEARCH = "#chat-search :is(input, textarea)"

pytestmark = [
    pytest.mark.browser,
    pytest.mark.thorough,
    pytest.mark.skipif(not (CHECKOUT / "run.py").exists(), reason="run.py is not there"),
]


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AppProcess]:
    """The app, run as a child process on a data folder of its own."""
    with AppProcess(tmp_path_factory.mktemp("data")) as process:
        yield process


@pytest.fixture
def person(browser: Any, app: AppProcess) -> Iterator[PageDriver]:
    """A person in front of an empty chat, once the model is there."""
    with watched(browser, app.url) as driver:
        driver.wait_until_ready()
        driver.begin_chat()
        yield driver


def choose(person: PageDriver, selector: str, value: str) -> None:
    """Write a number into its box; the next reply is written with it."""
    person.open_tab("settings")
    person.page.fill(selector, value)
    person.page.press(selector, "Tab")
    person.page.wait_for_timeout(400)
    person.open_tab("live")


def test_with_the_switch_off_the_next_reply_is_plain(person: PageDriver) -> None:
    person.page.click("#lookahead input")
    person.page.wait_for_timeout(400)
    person.ask("Hi there")
    assert person.page.locator("#tokens-per-step").count() == 0
    assert "Written without lookahead" in person.text("#panel .sentence")
    person.press("Details")
    assert "plain" in person.text(f"{LAST} .details")
    person.page.click("#lookahead input")
    person.page.wait_for_timeout(400)


def test_a_reply_goes_on_without_its_page_is_stopped_by_another_and_continued(
    browser: Any, app: AppProcess, person: PageDriver
) -> None:
    person.page.click("#lookahead input")  # it would be over soon
    choose(person, "#max-tokens input", "900")
    with PageDriver(browser, app.url) as first:
        first.begin_chat()
        first.send(ENDLESS)
        first.wait_for_text()
    person.page.click(".chat-line:has(.writing) .open")
    person.wait_for_text()
    person.page.keyboard.press("Escape")
    written = person.wait_for_reply()
    assert "Stopped" in person.text(f"{LAST} .ending")
    choose(person, "#max-tokens input", "24")
    person.press("Continue")
    person.page.wait_for_function(
        "before => document.querySelector('#messages .assistant.last .said')?.innerText.length > before",
        arg=len(written),
    )
    assert person.wait_for_reply().startswith(written[:40])
    person.page.click("#lookahead input")
    choose(person, "#max-tokens input", "512")


def test_questions_and_replies_have_versions(person: PageDriver) -> None:
    first = person.ask("Hi there")
    person.edit_question("How do I list all files with ls?")
    person.page.wait_for_selector("article.user .versions >> text=2/2")
    assert person.wait_for_reply() != first
    person.page.click("article.user [aria-label='Previous version']")
    person.page.wait_for_selector("article.user .versions >> text=1/2")
    assert person.last_answer() == first
    person.regenerate()
    person.page.wait_for_selector(f"{LAST} .versions >> text=2/2")
    person.wait_for_reply()


def test_chats_are_named_sorted_found_and_brought_back(person: PageDriver) -> None:
    person.ask("A table for two, please")
    title = person.text(".chat-line[aria-current] .open")
    person.do_with_chat(title, "rename", "Dinner")
    person.page.wait_for_selector(".chat-line >> text=Dinner")
    person.do_with_chat("Dinner", "pin")
    person.page.wait_for_selector("#chats h3 >> text=Pinned")
    person.do_with_chat("Dinner", "unpin")
    person.page.wait_for_selector("#chats h3 >> text=Pinned", state="detached")
    person.do_with_chat("Dinner", "move", "Plans")
    person.page.wait_for_selector("#chats h3 >> text=Plans")
    person.page.keyboard.press("Control+k")
    person.page.keyboard.type("for two")
    person.page.wait_for_selector("#chats mark")
    assert person.page.locator(".chat-line", has_text="Dinner").count() == 1
    person.page.fill(SEARCH, "")
    person.page.wait_for_selector("#chats h3 >> text=Plans")
    assert "A table for two" in person.saved_by_menu("Dinner", "markdown")
    person.do_with_chat("Dinner", "delete")
    person.page.wait_for_selector(".chat-line >> text=Dinner", state="detached")
    person.page.click(".undo button")
    person.page.wait_for_selector(".chat-line >> text=Dinner")


def test_a_chat_that_outgrows_the_model_asks_first_and_shows_its_cut(person: PageDriver) -> None:
    choose(person, "#max-tokens input", "24")
    long = "word " * 330
    person.ask(long)
    person.page.wait_for_function("document.querySelector('#meter').innerText.includes('of 1,024 tokens')")
    person.ask(long)
    person.send(long + "at last")
    person.page.wait_for_selector(".question >> text=What should Foresight do?")
    person.page.keyboard.press("Escape")
    person.page.wait_for_selector(".question", state="detached")
    assert "at last" in person.page.input_value("#message textarea")
    person.page.press("#message textarea", "Enter")
    person.page.click(".question [data-do=oldest]")
    person.page.wait_for_selector(".cut-line")
    person.wait_for_reply()
    choose(person, "#max-tokens input", "512")


def test_instructions_hold_for_their_chat_alone(person: PageDriver) -> None:
    person.open_tab("settings")
    person.page.fill("#system textarea", "Answer in one word.")  # as pasting does: no key is pressed
    person.page.wait_for_timeout(1500)
    person.ask("Hi there")
    assert person.page.input_value("#system textarea") == "Answer in one word."
    person.page.click("#new-chat")
    person.page.wait_for_function("document.querySelector('#system textarea').value === ''")


def race(person: PageDriver) -> None:
    person.page.click("#to-race")
    person.page.fill("#race-tokens input", "48")
    person.page.click("#race-start")
    person.page.wait_for_selector("#race [data-replay]", timeout=300_000)


def test_the_self_check_is_good(person: PageDriver) -> None:
    person.page.click("#to-settings")
    person.page.click("#settings-nav [data-section=data]")
    person.page.click("#self-check")
    person.page.wait_for_selector("#checks li")
    assert person.page.locator("#checks i:not(.passed)").count() == 0


def test_the_page_is_there_by_day_and_by_night(
    browser: Any, app: AppProcess, person: PageDriver, screenshots: Path | None
) -> None:
    for question in (QUESTION, CODE_QUESTION):
        person.ask(question)
    assert not person.is_dark()
    with PageDriver(browser, app.url, scheme="dark") as night:
        assert night.wait_for_reply() == person.last_answer()
        assert night.is_dark()
    if screenshots is not None:
        take_pictures(browser, app.url, screenshots)


def test_a_race_and_an_xray_are_accessible(browser: Any, app: AppProcess) -> None:
    with PageDriver(browser, app.url) as driver:
        driver.wait_until_ready()
        driver.ask(QUESTION)
        driver.page.click("#open-xray")
        driver.page.wait_for_selector("#xray-picture .xray")
        driver.page.click("#xray [data-move=live]")
        assert grave_by_day_and_by_night(driver.page) == []
        driver.page.keyboard.press("Escape")
        race(driver)
        driver.page.click("#race .outputs summary >> nth=0")
        assert grave_by_day_and_by_night(driver.page) == []


def test_chats_outlive_the_app_and_private_ones_do_not(browser: Any, app: AppProcess) -> None:
    with PageDriver(browser, app.url) as driver:
        driver.wait_until_ready()
        driver.begin_chat()
        answer = driver.ask("Hello again")
        driver.page.click("#new-private-chat")
        driver.page.wait_for_selector("#private-note")
        driver.ask("My secret")
        assert driver.page.locator("#chats h3 >> text=Private").count() == 1
    app.end()
    app.start()
    with PageDriver(browser, app.url) as driver:
        driver.open_chat("Hello again")
        assert driver.wait_for_reply() == answer
        assert driver.page.locator(".chat-line", has_text="secret").count() == 0
    assert all(b"My secret" not in file.read_bytes() for file in app.data_dir.rglob("*") if file.is_file())
