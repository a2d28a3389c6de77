"""Has the app index documents and download a model while it is killed (app_kills.py).

A document counts as acknowledged once the page lists it. It must be there after every kill, and become ready by
itself. A download must continue where it was, and have the right bytes at its end.
"""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from time import monotonic, sleep
from typing import Any

PASTED, UPLOADED = 400, 20_000
"""Numbers of paragraphs of a pasted and of an uploaded document. Pasting a long text takes seconds in the page."""
READY_SECONDS = 300.0
STARTING_SECONDS = 60.0
"""Maximum number of seconds until the first bytes of a download arrive."""
MODEL = "org/large"
RESUME = f'#downloads button[aria-label="Resume {MODEL}"]'


class Papers:
    """Adds a document before each kill. Documents are pasted and uploaded in turn."""

    def __init__(self, database: Path) -> None:
        self._database = database
        self._acknowledged: list[str] = []

    def add(self, page: Any, number: int) -> None:
        """Add a document that takes a while to index."""
        title, text = f"Paper {number:03}{'' if number % 2 else '.txt'}", text_of(number)
        page.click("#to-documents")
        if number % 2:
            page.fill("#paste textarea", text)
            page.fill("#paste-title :is(input, textarea)", title)
            page.click("#paste-add")
        else:
            file = {"name": title, "mimeType": "text/plain", "buffer": text.encode()}
            page.set_input_files("#import input[type=file]", file)
        page.wait_for_selector(f"#document-list >> text={title}")
        self._acknowledged.append(title)
        page.click("#to-chat")

    def faults(self) -> list[str]:
        titles = {title for title, _ in self._rows()}
        return [f"{title} is missing" for title in self._acknowledged if title not in titles]

    def faults_at_the_end(self) -> list[str]:
        """Return the documents that are not ready or not complete after a while without kills."""
        deadline = monotonic() + READY_SECONDS
        while any(state != "ready" for _, state in self._rows()) and monotonic() < deadline:
            sleep(0.5)
        late = [f"{title} is {state}" for title, state in self._rows() if state != "ready"]
        whole = {title: text_of(int(title.removesuffix(".txt").split()[1])) for title in self._acknowledged}
        return late + [f"{title} has another text" for title in whole if self._text(title) != whole[title]]

    def unready(self) -> int:
        return sum(state != "ready" for _, state in self._rows())

    def _rows(self) -> list[tuple[str, str]]:
        with closing(sqlite3.connect(self._database)) as connection:
            return connection.execute("SELECT title, state FROM document").fetchall()

    def _text(self, title: str) -> str:
        asked = "SELECT text FROM document_text JOIN document ON id = document WHERE title = ? ORDER BY part"
        with closing(sqlite3.connect(self._database)) as connection:
            return "".join(row[0] for row in connection.execute(asked, (title,)))


class Download:
    """The download of a model from a hub on this machine, which continues after each kill."""

    def __init__(self, cache: Path, weights: bytes, hurry: Callable[[], None]) -> None:
        """Take `hurry`, which makes the hub send the rest as fast as it can."""
        self._cache = cache
        self._weights = weights
        self._hurry = hurry
        self._sizes: list[tuple[float, int]] = []

    def look(self) -> None:
        """Record how many bytes have arrived so far."""
        parts = self._cache.glob(f"{_folder()}/blobs/*.incomplete")
        self._sizes.append((monotonic(), sum(part.stat().st_size for part in parts)))

    def latest(self) -> int:
        """Return how many bytes arrived within the last second."""
        self.look()
        now, size = self._sizes[-1]
        return size - next(before for at, before in self._sizes if at >= now - 1)

    def begin(self, page: Any) -> None:
        """Start the download in the page."""
        page.click("#to-models")
        page.click("#models-tab-discover")
        page.fill("#search-text :is(input, textarea)", MODEL)
        page.click("#search-button")
        page.click('#results [data-do="download"]')
        page.wait_for_selector(f"#downloads >> text={MODEL}")
        self._wait_until_it_runs()
        page.click("#to-chat")

    def go_on(self, page: Any) -> None:
        """Resume the download if a kill has paused it."""
        page.click("#to-models")
        page.click("#models-tab-installed")
        page.wait_for_selector("#installed .line")
        if page.locator(RESUME).count():
            page.click(RESUME)
            page.wait_for_selector(RESUME, state="detached")
            self._wait_until_it_runs()
        page.click("#to-chat")

    def faults_at_the_end(self) -> list[str]:
        """Return what is wrong with the downloaded weights after a while."""
        self._hurry()
        deadline, expected = monotonic() + READY_SECONDS, sha256(self._weights).digest()
        while monotonic() < deadline:
            found = list(self._cache.glob(f"{_folder()}/snapshots/*/*.safetensors"))
            if found:
                is_right = sha256(found[0].read_bytes()).digest() == expected
                return [] if is_right else ["the model has other bytes"]
            sleep(0.5)
        return ["the model did not come"]

    def _wait_until_it_runs(self) -> None:
        """Wait until bytes arrive. Raises RuntimeError if none arrive."""
        deadline = monotonic() + STARTING_SECONDS
        self._sizes.clear()
        while monotonic() < deadline:
            if self.latest() > 0:
                return
            sleep(0.1)
        raise RuntimeError(f"{MODEL} is not downloaded: nothing came within {STARTING_SECONDS:.0f} s")


def _folder() -> str:
    """Return the name of the model's folder in the cache."""
    return f"models--{MODEL.replace('/', '--')}"


def text_of(number: int) -> str:
    """Return the text of a document. All documents have different texts."""
    return "\n\n".join(
        f"Paragraph {paragraph} of paper {number} is about the number {number * paragraph} and what comes of it."
        for paragraph in range(PASTED if number % 2 else UPLOADED)
    )
