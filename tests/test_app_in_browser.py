"""The app as a person starts it: `python run.py`, the demo model, a real Chromium."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from time import monotonic, sleep
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from tests.page_driver import PageDriver

CHECKOUT = Path(__file__).parents[1]
RUN = CHECKOUT / "run.py"
QUESTION = "How does lookahead decoding work?"
CODE_QUESTION = "Write a Python function that returns the sum of a list."

pytestmark = [
    pytest.mark.browser,
    pytest.mark.timeout(300),
    pytest.mark.skipif(not RUN.exists(), reason="run.py is not there"),
]


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the app, run as a child process on a data folder of its own."""
    port = free_port()
    data_dir = tmp_path_factory.mktemp("data")
    command = [sys.executable, str(RUN), "--no-browser", "--port", str(port), "--data-dir", str(data_dir)]
    log = data_dir / "log.txt"
    with log.open("w") as output:
        process = subprocess.Popen(
            command, cwd=CHECKOUT, stdout=output, stderr=subprocess.STDOUT,
            env={**os.environ, "HF_HUB_OFFLINE": "1"},
        )  # fmt: skip
    url = f"http://127.0.0.1:{port}"
    try:
        wait_for_answer(url, process, log)
        yield url
    finally:
        process.terminate()
        process.wait(20)


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def wait_for_answer(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    """Return once the page answers; fail with the app's own words when it does not."""
    deadline = monotonic() + 60
    while monotonic() < deadline and process.poll() is None:
        try:
            urlopen(url, timeout=5).close()
            return
        except (URLError, ConnectionError):
            sleep(0.05)
    pytest.fail(f"the app did not answer at {url}:\n{log.read_text()}")


@pytest.fixture
def person(browser: Any, app: str) -> Iterator[PageDriver]:
    """A person in front of an empty chat, once the model is there."""
    with PageDriver(browser, app) as driver:
        driver.page.wait_for_selector("#status .ready", timeout=120_000)
        driver.page.click("#new-chat")
        driver.page.wait_for_selector("#welcome")
        yield driver
        assert driver.complaints == []
        assert driver.foreign == []


def test_the_demo_model_replies_with_auto_and_the_numbers_move(person: PageDriver) -> None:
    person.send(QUESTION)
    texts = person.observe("#live", seconds=60)
    assert len(texts) >= 3
    assert len(person.wait_for_reply()) > 10
    # On a machine that is busy with a browser auto may find that no draft pays, and write plainly.
    assert float(person.text("#tokens-per-step")) >= 1
    assert "auto" in person.text("#reply-note")
    assert person.page.locator(".strip rect").count() > 3


def test_with_the_switch_off_the_next_reply_is_plain(person: PageDriver) -> None:
    person.page.click("#lookahead input")
    person.send("Hi there")
    person.wait_for_reply()
    assert person.text("#tokens-per-step") in ("1.00", "—")
    assert "plain" in person.text("#reply-note")
    person.page.click("#lookahead input")
    person.page.wait_for_timeout(400)


def test_a_long_reply_stops_even_after_a_reload(person: PageDriver) -> None:
    person.page.fill("#temperature input[type=number]", "2")
    person.page.press("#temperature input[type=number]", "Tab")
    person.send("Tell me everything that you know about the commands of a shell")
    person.wait_for_text()
    person.reload()
    person.page.wait_for_selector("#stop, #regenerate:not([disabled])")
    if person.page.locator("#stop").count():
        person.page.click("#stop")
    assert person.wait_for_reply(timeout=20)
    person.page.fill("#temperature input[type=number]", "0")
    person.page.press("#temperature input[type=number]", "Tab")
    person.page.wait_for_timeout(400)


def test_the_page_is_there_by_day_and_by_night(
    browser: Any, app: str, person: PageDriver, screenshots: Path | None
) -> None:
    for question in (QUESTION, CODE_QUESTION):
        person.send(question)
        person.page.wait_for_selector("#stop, #live .md")
        person.wait_for_reply()
    assert not person.is_dark()
    take_screenshot(person, screenshots, "chat-light.png")
    with PageDriver(browser, app, scheme="dark") as night:
        assert night.wait_for_reply() == person.last_answer()
        assert night.is_dark()
        take_screenshot(night, screenshots, "chat-dark.png")


def take_screenshot(person: PageDriver, folder: Path | None, name: str) -> None:
    """Keep a picture of the page, if pictures are wanted."""
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        person.page.mouse.move(0, 0)  # off everything that shows a hover
        person.page.wait_for_timeout(300)
        person.page.screenshot(path=folder / name)
