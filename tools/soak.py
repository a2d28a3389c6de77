"""Checks that replies leave no memory in use on a GPU.

    python -m tools.soak --minutes 10

Each lap is the same: long and short prompts, each model in bfloat16 and in float32, and replies that are stopped
between two steps or interrupted within a step, as by an error. Prints the numbers of these replies after each lap.
The exit code is 1 if the last lap ends with more bytes in use than the first, or if laps differ.
"""

import argparse
import gc
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import cycle
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import torch

from app.engine.loading.parts import no_progress
from app.engine.session.session import Session
from app.settings import assets_dir
from app.values.messages import (
    DecoderName,
    Decoding,
    Device,
    DType,
    Finished,
    ModelChoice,
    Options,
    Piece,
    Request,
    Sampling,
)
from tools.same_text import locate

TOKENS = 48
TOKENS_A_WORD = 4
"""Maximum number of tokens that "word " takes in the tokenizers of these models."""
WORDS = (20, 150, 600)
"""Numbers of words in the prompts, which differ so that the cache grows."""
STOPS = (0, 5, 12)
"""Numbers of pieces after which a reply is stopped; 0 does not stop it."""
DTYPES: tuple[DType, ...] = ("bfloat16", "float32")


@dataclass(frozen=True, slots=True)
class Lap:
    """The counts of a lap's replies and of their prompt tokens, and the bytes in use after it."""

    replies: int
    stopped: int
    interrupted: int
    prompt_tokens: int
    used: int = 0

    def __str__(self) -> str:
        return (
            f"{self.used:,} bytes; {self.replies} replies ({self.stopped} stopped), "
            f"{self.interrupted} interrupted; {self.prompt_tokens:,} tokens of prompts"
        )


class StopAfter:
    """Ends the reply after a number of pieces; 0 never ends it."""

    def __init__(self, pieces: int) -> None:
        self._left = pieces or TOKENS + 1

    def __call__(self) -> bool:
        """Return whether this number of pieces was counted."""
        return self._left <= 0

    def count(self) -> None:
        self._left -= 1


def laps(choices: Sequence[ModelChoice], seconds: float, used: Callable[[], int]) -> Iterator[Lap]:
    """Run laps until the time is over, at least two, and yield each."""
    end, count = perf_counter() + seconds, 0
    with TemporaryDirectory() as cache:
        session = Session(locate, Path(cache))
        while count < 2 or perf_counter() < end:
            lap = _lap(session, choices)
            yield replace(lap, used=used())
            count += 1


def cuda_bytes() -> int:
    """Return the bytes that tensors take on the GPU now, after collecting garbage."""
    gc.collect()
    torch.cuda.empty_cache()
    return int(torch.cuda.memory_allocated())


def _lap(session: Session, choices: Sequence[ModelChoice]) -> Lap:
    decoders: cycle[DecoderName] = cycle(("lookahead", "plain", "auto"))
    stops = cycle(STOPS)
    ends, interrupted = list[Finished](), 0
    for choice in choices:
        most = (session.open(choice, no_progress).info.context - TOKENS) // TOKENS_A_WORD
        for words in WORDS:
            ends.append(_write(session, _request(choice, min(words, most), next(decoders)), next(stops)))
        interrupted += _interrupt(session, _request(choice, 30, "lookahead"))
    session.forget()
    stopped = sum(end.reason == "stopped" for end in ends)
    return Lap(len(ends), stopped, interrupted, sum(end.statistics.prompt_tokens for end in ends))


def _request(choice: ModelChoice, words: int, decoder: DecoderName) -> Request:
    options = Options(Sampling(0.8, seed=words), Decoding(decoder), max_new_tokens=TOKENS, ignore_eos=True)
    return Request(choice, "word " * words, options)


def _write(session: Session, request: Request, pieces: int) -> Finished:
    stop = StopAfter(pieces)
    for event in session.events(request, no_progress, stop):
        if isinstance(event, Piece):
            stop.count()
    assert isinstance(event, Finished)
    return event


def _interrupt(session: Session, request: Request) -> bool:
    """Leave a reply in the middle of a step, as an error does; then clear the session, as the worker does."""
    pieces = 0
    for event in session.events(request, no_progress, StopAfter(0)):
        pieces += isinstance(event, Piece)
        if pieces == 2:  # the first piece comes after the prefill, before any step
            break
    session.forget()
    return pieces == 2


def run(choices: Sequence[ModelChoice], seconds: float, used: Callable[[], int]) -> int:
    """Run and print laps; return by how many bytes the last exceeds the first. Raises SystemExit if laps differ."""
    found: list[Lap] = []
    for lap in laps(choices, seconds, used):
        found.append(lap)
        print(f"lap {len(found)}: {lap}", flush=True)
        if replace(lap, used=0) != replace(found[0], used=0) or not lap.stopped or not lap.interrupted:
            sys.exit("This lap differs from the first, or no reply was stopped or interrupted in it.")
    return found[-1].used - found[0].used


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=10.0, help="how long to run laps")
    parser.add_argument(
        "--model",
        type=Path,
        action="append",
        help="a model's folder; may be repeated; default: the demo model",
    )
    given = parser.parse_args(arguments)
    if not torch.cuda.is_available():
        sys.exit("The soak needs a CUDA device, and torch finds none here: run it on a machine with one.")
    device: Device = "cuda"
    folders = given.model or [assets_dir() / "demo-model"]
    choices = [ModelChoice(str(folder), dtype, device) for folder in folders for dtype in DTYPES]
    more = run(choices, 60 * given.minutes, cuda_bytes)
    print(f"{more:+,} bytes from the first lap to the last")
    sys.exit(more > 0)


if __name__ == "__main__":
    main()
