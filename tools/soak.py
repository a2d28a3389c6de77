"""Does a card end with the memory it began with?

    python -m tools.soak --minutes 10

Each lap is the same: long and short prompts, stopped and interrupted replies, and both types of each model. Prints
a line after each lap; the exit code is 1 where the last lap ends with more bytes in use than the first.
"""

import argparse
import gc
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import cycle
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import torch

from app.engine.session import Session, no_progress
from app.messages import (
    DecoderName,
    Decoding,
    Device,
    DType,
    ModelChoice,
    ModelFolder,
    Options,
    Piece,
    Progress,
    Request,
    Sampling,
)
from app.settings import assets_dir

TOKENS = 48
TOKENS_A_WORD = 4
"""The most that "word " takes in the tokenizers of these models."""
WORDS = (20, 150, 600)
"""Lengths of prompts, so that the cache grows."""
STOPS = (0, 5, 12)
"""After how many pieces a reply is stopped; 0: not at all."""
DTYPES: tuple[DType, ...] = ("bfloat16", "float32")


class StopAfter:
    """Asks for the end of a reply after so many pieces; never, for 0."""

    def __init__(self, pieces: int) -> None:
        self._left = pieces or TOKENS + 1

    @property
    def is_stopping(self) -> bool:
        """Whether there were enough."""
        return self._left <= 0

    def count(self) -> None:
        """One piece more."""
        self._left -= 1


def laps(choices: Sequence[ModelChoice], seconds: float, used: Callable[[], int]) -> Iterator[int]:
    """Run laps until the time is over, at least two; yields the bytes in use after each."""
    end, count = perf_counter() + seconds, 0
    with TemporaryDirectory() as cache:
        session = Session(_locate, Path(cache))
        while count < 2 or perf_counter() < end:
            _lap(session, choices)
            yield used()
            count += 1


def cuda_bytes() -> int:
    """Bytes that tensors take on the card now, garbage collected."""
    gc.collect()
    torch.cuda.empty_cache()
    return int(torch.cuda.memory_allocated())


def _lap(session: Session, choices: Sequence[ModelChoice]) -> None:
    decoders: cycle[DecoderName] = cycle(("lookahead", "plain", "auto"))
    stops = cycle(STOPS)
    for choice in choices:
        most = (session.open(choice, no_progress).info.context - TOKENS) // TOKENS_A_WORD
        for words in WORDS:
            _write(session, _request(choice, min(words, most), next(decoders)), next(stops))
        _interrupt(session, _request(choice, 30, "lookahead"))
    session.forget()


def _request(choice: ModelChoice, words: int, decoder: DecoderName) -> Request:
    options = Options(Sampling(0.8, seed=words), Decoding(decoder), max_new_tokens=TOKENS, ignore_eos=True)
    return Request(choice, "word " * words, options)


def _write(session: Session, request: Request, pieces: int) -> None:
    stop = StopAfter(pieces)
    for event in session.events(request, no_progress, stop):
        if isinstance(event, Piece):
            stop.count()


def _interrupt(session: Session, request: Request) -> None:
    """Leave a reply in mid-step, as an error does; then the worker lets the session forget."""
    for event in session.events(request, no_progress, StopAfter(0)):
        if isinstance(event, Piece):
            break
    session.forget()


def _locate(name: str, _progress: Progress) -> ModelFolder:
    return ModelFolder(Path(name), Path(name).name)


def run(choices: Sequence[ModelChoice], seconds: float, used: Callable[[], int]) -> int:
    """Print what is in use after each lap; returns how many bytes the last one has above the first."""
    found: list[int] = []
    for count in laps(choices, seconds, used):
        found.append(count)
        print(f"lap {len(found)}: {count:,} bytes", flush=True)  # noqa: T201
    return found[-1] - found[0]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run laps on the card and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--model", type=Path, action="append", help="a folder; the demo model without it")
    given = parser.parse_args(arguments)
    if not torch.cuda.is_available():
        sys.exit("The soak needs a CUDA device, and torch finds none here: run it on a machine with one.")
    device: Device = "cuda"
    folders = given.model or [assets_dir() / "demo-model"]
    choices = [ModelChoice(str(folder), dtype, device) for folder in folders for dtype in DTYPES]
    more = run(choices, 60 * given.minutes, cuda_bytes)
    print(f"{more:+,} bytes from the first lap to the last")  # noqa: T201
    sys.exit(more > 0)


if __name__ == "__main__":
    main()
