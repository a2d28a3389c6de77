"""The window's process, with a pywebview that is a script: it shows, it is raised, it closes, it may be missing."""

import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from app.desktop.window import follow_commands, require_window, show_window
from app.errors import WindowUnavailable
from tests.support.waiting import until

SCRIPT = '''
"""A pywebview without a screen: writes down what it is asked, shows its window until it is destroyed."""
import threading
from pathlib import Path

HERE = Path(__file__).parent
settings = {}
over = threading.Event()

class WebViewException(Exception):
    """No screen."""

def tell(words):
    with (HERE / "told").open("a") as file:
        file.write(words + "\\n")

class Window:
    def restore(self): tell("restore")
    def show(self): tell("show")
    def destroy(self): tell("destroy"); over.set()

def create_window(title, url, **sizes):
    tell(f"{title} {url}")
    return Window()

def start(begin, **options):
    if (HERE / "no-screen").exists():
        raise WebViewException("no screen was found")
    begin()
    while not over.wait(0.05) and not (HERE / "closed").exists():
        pass
'''


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with the script; a window's process started from here imports it."""
    (tmp_path / "webview.py").write_text(SCRIPT, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def seen(place: Path, words: str) -> None:
    """Wait until the window was asked for this."""
    told = place / "told"
    until(lambda: told.exists() and words in told.read_text(encoding="utf-8").split("\n"))


class Shown:
    """A window shown on a thread of its own."""

    def __init__(self, place: Path) -> None:
        self.leaving, self.wanted = threading.Event(), threading.Event()
        arguments = ("http://127.0.0.1:1/?key=of-the-window", place, self.leaving, self.wanted)
        self.thread = threading.Thread(target=show_window, args=arguments)
        self.thread.start()
        seen(place, "Foresight http://127.0.0.1:1/?key=of-the-window")

    def has_ended(self) -> bool:
        self.thread.join(300)
        return not self.thread.is_alive() and self.leaving.is_set()


def test_a_closed_window_ends_the_app(place: Path) -> None:
    shown = Shown(place)
    (place / "closed").touch()
    assert shown.has_ended()


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_no_process_shows_the_token_among_its_arguments(place: Path) -> None:
    shown = Shown(place)
    for arguments in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it ended meanwhile
            assert b"key=of-the-window" not in arguments.read_bytes()
    shown.leaving.set()
    assert shown.has_ended()


def test_an_app_that_ends_closes_its_window(place: Path) -> None:
    shown = Shown(place)
    shown.leaving.set()
    assert shown.has_ended()
    seen(place, "destroy")


def test_a_window_that_is_wanted_comes_to_the_front(place: Path) -> None:
    shown = Shown(place)
    shown.wanted.set()
    seen(place, "restore")
    seen(place, "show")
    shown.leaving.set()
    assert shown.has_ended()


def test_without_a_screen_the_reason_is_told(place: Path) -> None:
    (place / "no-screen").touch()
    leaving = threading.Event()
    with pytest.raises(WindowUnavailable, match=r"here \(no screen was found\): start without --native"):
        show_window("http://127.0.0.1:1", place, leaving, threading.Event())
    assert leaving.is_set()


def test_without_pywebview_it_is_told_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.desktop.window.find_spec", lambda _name: None)
    with pytest.raises(WindowUnavailable, match="pip install"):
        require_window()


def test_lines_that_nobody_knows_are_left_alone() -> None:
    asked: list[str] = []

    class Window:
        def restore(self) -> None:
            asked.append("restore")

        def show(self) -> None:
            asked.append("show")

        def destroy(self) -> None:
            asked.append("destroy")

    follow_commands(Window(), [b"dance\n", b"raise\n"])
    assert asked == ["restore", "show", "destroy"]
