"""Measures the share of a core that the app takes while nothing happens: `python -m labs.idle_cost`.

It measures without a page, with a page, and after seven were closed, each time 15 seconds after the last event."""

import argparse
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import sleep
from typing import Any

from tests.support.app_process import AppProcess
from tests.support.soak_parts import running_chromium
from tools.processor_time import seconds_of

SETTLING = 15.0
SECONDS = 20.0
CLOSED = 6


def tell(what: str, app: AppProcess) -> None:
    """Print the share of a core that the app takes at rest. Raises RuntimeError if the app has ended."""
    sleep(SETTLING)
    begin = seconds_of(app.process)
    sleep(SECONDS)
    print(f"{what}: {(seconds_of(app.process) - begin) / SECONDS:.2%} of a core")


@contextmanager
def page_of(app: AppProcess, browser: Any) -> Iterator[None]:
    """Open a page as a user does, and close it at the end."""
    page = browser.new_page()
    page.goto(app.url)
    page.wait_for_selector("#status .ready")
    yield
    page.close()


def main() -> None:
    argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0]).parse_args()
    with tempfile.TemporaryDirectory() as data, running_chromium() as browser, AppProcess(Path(data)) as app:
        tell("no page", app)
        with page_of(app, browser):
            tell("one page", app)
        for _ in range(CLOSED):
            with page_of(app, browser):
                pass
        tell(f"after {CLOSED + 1} pages were closed", app)


if __name__ == "__main__":
    main()
