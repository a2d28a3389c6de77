"""How long `python run.py` takes to a page that answers: several starts, each in a data folder of its own."""

import argparse
import subprocess
import tempfile
from statistics import median
from time import perf_counter, sleep
from urllib.request import urlopen

from tools.app_process import CHECKOUT, app_command

PORT = 7990
LONGEST = 60.0


def start_seconds(port: int) -> float:
    """Seconds from the start of the process to the page's first answer."""
    with tempfile.TemporaryDirectory() as data_dir:
        command = app_command(port, data_dir, "--no-token")
        begin = perf_counter()
        with subprocess.Popen(command, cwd=CHECKOUT, stdout=subprocess.DEVNULL) as app:
            try:
                while not answers(port) and perf_counter() - begin < LONGEST:
                    sleep(0.02)
                return perf_counter() - begin
            finally:
                app.terminate()


def answers(port: int) -> bool:
    """Whether the page is there, whole."""
    try:
        with urlopen(f"http://127.0.0.1:{port}/", timeout=LONGEST) as page:
            return bool(page.status == 200 and page.read())
    except OSError:
        return False


def main() -> None:
    """Print every start and their median."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--starts", type=int, default=5)
    starts = parser.parse_args().starts
    seconds = [start_seconds(PORT + number) for number in range(starts)]
    print("seconds:", " ".join(f"{value:.2f}" for value in seconds), f"median {median(seconds):.2f}")  # noqa: T201


if __name__ == "__main__":
    main()
