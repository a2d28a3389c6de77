"""Measures the time from `python run.py` to a page that answers: several starts, each with a new data folder."""

import argparse
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median
from time import perf_counter, sleep
from urllib.request import urlopen

from tests.support.app_process import CHECKOUT, app_command, free_port

LONGEST = 60.0


def start_seconds() -> float:
    """Return the seconds from the start of the process to the page's first answer."""
    with tempfile.TemporaryDirectory() as data_dir:
        begin = perf_counter()
        with started(data_dir):
            return perf_counter() - begin


@contextmanager
def started(data_dir: str) -> Iterator[str]:
    """Start an app and yield its address once it answers. Raises RuntimeError if it ends or does not answer."""
    port, begin = free_port(), perf_counter()
    command = app_command(port, data_dir, "--no-key")
    with subprocess.Popen(command, cwd=CHECKOUT, stdout=subprocess.DEVNULL) as app:
        try:
            while not answers(port):
                if app.poll() is not None:
                    raise RuntimeError(f"the app ended with code {app.poll()}")
                if perf_counter() - begin > LONGEST:
                    raise RuntimeError(f"the app did not answer within {LONGEST:.0f} seconds")
                sleep(0.02)
            yield f"http://127.0.0.1:{port}/"
        finally:
            app.terminate()


def answers(port: int) -> bool:
    """Return whether the app answers with status 200 and a page."""
    try:
        with urlopen(f"http://127.0.0.1:{port}/", timeout=LONGEST) as page:
            return bool(page.status == 200 and page.read())
    except OSError:
        return False


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--starts", type=int, default=5)
    starts = parser.parse_args().starts
    seconds = [start_seconds() for _ in range(starts)]
    print("seconds:", " ".join(f"{value:.2f}" for value in seconds), f"median {median(seconds):.2f}")


if __name__ == "__main__":
    main()
