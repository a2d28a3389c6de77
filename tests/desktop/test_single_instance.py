"""A second start goes to the first one: two real processes, and the parts."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

from app.database.data_folder import DataFolder
from app.desktop.single_instance import RAISE_ROUTE, raise_window, switch
from app.errors import DataFolderInUse
from tests.support.app_process import free_port
from tests.support.children import another_instance

CHECKOUT = Path(__file__).parents[2]
SECONDS = 300.0


@contextmanager
def window_at(status: int, told: str = "") -> Iterator[tuple[str, list[str]]]:
    """A page that answers the request for its window so, and what it was asked, with which key."""
    asked: list[str] = []

    class Answer(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append(f"{self.path} {self.headers['Authorization']}")
            self.send_response(status)
            self.end_headers()
            self.wfile.write(told.encode())

        def log_message(self, *_: object) -> None:
            """Nothing."""

    with HTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = Thread(target=server.handle_request, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/?key=secret", asked
        thread.join(5)


def switched(folder: Path, shown: list[str] | None) -> str:
    try:
        DataFolder(folder).hold()
    except DataFolderInUse as in_use:
        return switch(DataFolder(folder), in_use, None if shown is None else shown.append)
    raise AssertionError("the folder was free")


def test_the_page_is_shown_in_the_browser(tmp_path: Path) -> None:
    shown: list[str] = []
    with another_instance(tmp_path, "http://127.0.0.1:1"):
        said = switched(tmp_path, shown)
    assert said == "Foresight is already open at http://127.0.0.1:1. Switching to it."
    assert shown == ["http://127.0.0.1:1"]


def test_a_window_is_brought_to_the_front_instead(tmp_path: Path) -> None:
    shown: list[str] = []
    with window_at(204) as (address, asked), another_instance(tmp_path, address):
        switched(tmp_path, shown)
    assert (asked, shown) == ([f"{RAISE_ROUTE} Bearer secret"], [])


def test_without_a_browser_it_is_only_said(tmp_path: Path) -> None:
    with another_instance(tmp_path, "http://127.0.0.1:1"):
        assert switched(tmp_path, None) == "Foresight is already open at http://127.0.0.1:1"


def test_a_page_without_a_window_tells_what_a_browser_is_to_open() -> None:
    with window_at(200, "http://127.0.0.1:1/?key=once") as (address, _):
        assert raise_window(address) == "http://127.0.0.1:1/?key=once"


def test_a_page_that_does_not_say_is_opened_as_it_is_known() -> None:
    with window_at(500) as (address, _):
        assert raise_window(address) == address


def test_an_instance_that_goes_before_it_tells_its_address_leaves_the_error(tmp_path: Path) -> None:
    in_use = DataFolderInUse("It is in use.")
    with pytest.raises(DataFolderInUse, match="It is in use"):
        switch(DataFolder(tmp_path), in_use, None)


@pytest.mark.thorough
@pytest.mark.skipif(
    sys.platform == "win32" or signal.getsignal(signal.SIGINT) is signal.SIG_IGN,
    reason="needs a browser that is a script, and children that can be interrupted",
)
def test_a_second_start_opens_the_browser_at_the_first_ones_page(tmp_path: Path) -> None:
    told, data_dir = tmp_path / "told", tmp_path / "data"
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > "{told}"\n', encoding="utf-8")
    browser.chmod(0o755)
    command = [sys.executable, "run.py", "--port", str(free_port()), "--data-dir", str(data_dir)]
    quiet = {**os.environ, "HF_HUB_OFFLINE": "1"}
    with subprocess.Popen(
        [*command, "--no-browser"], cwd=CHECKOUT, stdout=subprocess.PIPE, env=quiet
    ) as first:
        try:
            # No wait: the second one starts while the first one may still have no address.
            while not (data_dir / "in-use.lock").exists():
                assert first.poll() is None
            second = subprocess.run(
                command, cwd=CHECKOUT, capture_output=True, text=True, timeout=SECONDS, check=False,
                env={**quiet, "BROWSER": str(browser)},
            )  # fmt: skip
            address = (data_dir / "in-use.address").read_text(encoding="utf-8")
        finally:
            first.send_signal(signal.SIGINT)
            first.communicate(timeout=SECONDS)
    assert (second.returncode, second.stderr) == (0, "")
    assert second.stdout == f"Foresight is already open at {address}. Switching to it.\n"
    opened = told.read_text(encoding="utf-8").strip()
    assert opened.partition("=")[0] == address.partition("=")[0]
    assert opened != address, "a code that is good for once: every user sees a browser's arguments"
