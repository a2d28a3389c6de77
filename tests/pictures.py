"""Pictures of the page. `python -m tests.pictures MODEL DIR` takes those that the docs show, with any model.

`pytest tests/test_app_in_browser.py --thorough --screenshots DIR` takes every view with the demo model."""

import os
import shutil
import sys
import tempfile
from io import BytesIO
from itertools import product
from pathlib import Path
from typing import Any

from PIL import Image

from app.settings import Settings, SettingsFile
from app.values.messages import ModelChoice
from tests.conftest import CHROMIUM_ARGUMENTS, CHROMIUM_NAMES
from tests.page_driver import DESKTOP, LAPTOP, LAST, PageDriver
from tests.support.app_process import FULL_MEASUREMENTS, AppProcess

QUESTION = "How does lookahead decoding work?"
STARTER = "#starters button >> text=Quote from a text"
KEY = "The spare key of the boathouse lies under the blue pot."
ROOMS = (
    "kitchen", "hall", "library", "cellar", "attic", "workshop", "laundry", "pantry", "bathroom", "porch", "stable",
    "greenhouse", "music room", "guest room", "bakery", "garage", "study", "winter garden", "sauna", "dovecote",
)  # fmt: skip
RULES = (
    "Whoever leaves the {} last closes its windows and turns off the light.",
    "The {} is swept on the first Saturday of the month; the list hangs beside the door.",
    "Guests may use the {} from eight in the morning until ten at night.",
    "Broken things in the {} are written into the blue book, so that somebody mends them.",
    "Keep the way through the {} free, for it leads outside in case of fire.",
)
HOUSE_RULES = "\n\n".join(
    [f"# The {room}\n\n{' '.join(rule.format(room) for rule in RULES)}" for room in ROOMS]
    + [f"# The lake\n\n{KEY} Boats come back before dark."]
)
"""Too long to be read whole by the demo model."""
AS_AT_HOME = """() => {
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
        const text = texts.currentNode;
        text.data = text.data.replace(/\\/\\S*\\/data\\d+/, "~/.local/share/foresight");
        text.data = text.data.replace(/\\/\\S*(?=\\/\\.cache)/, "~");
    }
}"""
"""A picture names no folder of the machine that it was taken on."""
COLOURS = 256
RACE_TOKENS = "128"
RACE_SECONDS = 300
VIEWS = (("models", "#installed .line"), ("race", "#race [data-replay]"), ("settings", "#settings-general"))


def take_pictures(browser: Any, url: str, folder: Path) -> None:
    """Keep every view by day and by night, on a laptop and on a large screen."""
    for scheme, size in product(("light", "dark"), (LAPTOP, DESKTOP)):
        with PageDriver(browser, url, scheme=scheme, size=size) as driver:
            driver.wait_until_ready()
            driver.begin_chat()
            name = f"{size['width']}-{scheme}.png"
            _picture_chat(driver, folder, name)
            _picture_documents(driver, folder, name)
            _picture_views(driver, folder, name)


def take_pictures_of_docs(browser: Any, url: str, folder: Path) -> None:
    """Keep what the README and docs/ show: a reply, its X-ray, a race."""
    with PageDriver(browser, url) as driver:
        driver.wait_until_ready()
        _picture_chat(driver, folder, "1366-light.png")
        driver.page.click("#to-race")
        driver.page.click("#race-kind >> text=Quoting")
        driver.page.fill("#race-tokens input", RACE_TOKENS)
        driver.page.click("#race-start")
        driver.page.wait_for_selector("#race [data-replay]", timeout=RACE_SECONDS * 1000)
        _keep(driver, folder / "race-1366-light.png")


def _picture_chat(driver: PageDriver, folder: Path, name: str) -> None:
    driver.page.click(STARTER)
    driver.wait_for_reply(timeout=300)
    _keep(driver, folder / f"chat-{name}")
    driver.page.click("#open-xray")
    driver.page.wait_for_selector("#xray-picture .xray")
    driver.page.click("#xray [data-move=live]")
    driver.page.wait_for_selector("#xray-picture .xray[data-live=no]")
    driver.page.fill("#xray input", "3")
    driver.page.wait_for_selector('#xray-picture .xray[data-shown="3"]')
    _keep(driver, folder / f"xray-{name}")
    driver.page.keyboard.press("Escape")


def _picture_documents(driver: PageDriver, folder: Path, name: str) -> None:
    driver.paste("House rules", HOUSE_RULES)
    _keep(driver, folder / f"documents-{name}")
    driver.page.click("#to-chat")
    driver.begin_chat()
    driver.consult()
    driver.ask("Where is the spare key of the boathouse?")
    driver.page.click(f"{LAST} [data-do=source]")
    driver.page.wait_for_selector("#reading mark")
    _keep(driver, folder / f"source-{name}")
    driver.page.keyboard.press("Escape")
    driver.remove_document()
    driver.page.click("#to-chat")


def _picture_views(driver: PageDriver, folder: Path, name: str) -> None:
    for view, shown in VIEWS:
        driver.page.click(f"#to-{view}")
        driver.page.wait_for_selector(shown)
        driver.page.evaluate(AS_AT_HOME)
        _keep(driver, folder / f"{view}-{name}")


def _keep(driver: PageDriver, file: Path) -> None:
    """Keep a picture of the page as it stands, with a palette: docs/ and whoever clones it have small files."""
    file.parent.mkdir(parents=True, exist_ok=True)
    driver.page.mouse.move(0, 0)  # off everything that shows a hover
    driver.page.wait_for_timeout(400)
    with Image.open(BytesIO(driver.page.screenshot())) as picture:
        every = picture.convert("RGB")  # with rare colours, too: those of the origins cover few pixels
        every.quantize(COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(
            file, optimize=True
        )


def main(model: str, folder: Path) -> None:
    """Take the pictures of the docs with this model in int8, as most would run it on a CPU."""
    from playwright.sync_api import sync_playwright  # imported here: tests run without it

    chromium = next(filter(None, map(shutil.which, CHROMIUM_NAMES)))
    with tempfile.TemporaryDirectory() as data, sync_playwright() as driver:
        SettingsFile(Path(data)).save(Settings(ModelChoice(model, quantisation="int8")))
        with AppProcess(Path(data), {**os.environ, "HF_HUB_OFFLINE": "1", FULL_MEASUREMENTS: "1"}) as app:
            browser = driver.chromium.launch(executable_path=chromium, args=CHROMIUM_ARGUMENTS)
            take_pictures_of_docs(browser, app.url, folder)
            browser.close()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
