"""What every test shares: no network, and a browser where there is one."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

if not any(Path(device).exists() for device in ("/dev/nvidiactl", "/dev/dxg")):
    # Without a card triton's kernels run in its interpreter. Triton reads this when it is imported, and the other
    # conftests import transformers, which imports it: no fixture and no hook would be early enough.
    os.environ.setdefault("TRITON_INTERPRET", "1")

CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
CHROMIUM_ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--screenshots", metavar="DIR", help="save screenshots of the real app there")


def pytest_configure() -> None:
    # Before any test module is imported: huggingface_hub reads it once, on import.
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    # How long one example takes says more about the machine than about the code.
    settings.register_profile("foresight", settings.default, deadline=None)
    settings.load_profile("foresight")


@pytest.fixture(scope="session")
def screenshots(request: pytest.FixtureRequest) -> Path | None:
    """Where screenshots are wanted, if they are."""
    wanted = request.config.getoption("--screenshots")
    return Path(wanted) if wanted else None


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A headless Chromium; skips where there is none.

    One for each module: while it lives, playwright runs an event loop on the tests' own thread."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = next(filter(None, map(shutil.which, CHROMIUM_NAMES)), None)
    if path is None:
        pytest.skip(f"no browser: none of {', '.join(CHROMIUM_NAMES)} is installed")
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=path, args=CHROMIUM_ARGUMENTS)
        yield chromium
        chromium.close()
