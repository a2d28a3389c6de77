"""Measures what chains gain over plain decoding with a hybrid model, and what a copy of its state costs.

    python -m labs.chains --hidden 512 --layers 8 --rounds 5

The weights are random, the config is Qwen3-Next's (three gated delta nets to one full attention, experts), the
tokenizer is the demo model's. With small weights a model repeats itself; with `--spread 0.3` its text cannot be
guessed. The decoders take turns: plain, auto, auto with the whole text as a prediction, plain, ... Ratios are of
processor time.
"""

import argparse
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import NamedTuple

import torch

from app.engine.runner.sequential_runner import SequentialRunner
from app.engine.session.session import Session, no_progress
from app.values.messages import (
    DecoderName,
    Decoding,
    Finished,
    Message,
    ModelChoice,
    ModelFolder,
    Options,
    Piece,
    Request,
    Sampling,
    Statistics,
)
from tests.support.hybrid_model import make_model

QUESTION = "one two three four five six seven eight nine ten " * 12


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--hidden", type=int, default=512)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--spread", type=float, default=0.02, help="Standard deviation of the weights.")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=200, help="Tokens of each reply.")
    parser.add_argument("--temperature", type=float, default=0.0)
    given = parser.parse_args()
    with TemporaryDirectory() as folder:
        make_model(Path(folder), given.hidden, given.layers, given.spread)
        session = Session(lambda name, _progress: ModelFolder(Path(folder), name))
        _print(f"{torch.get_num_threads()} threads, {given.tokens} tokens, temperature {given.temperature}")
        for line in report(session, given.rounds, given.tokens, given.temperature):
            _print(line)


def report(session: Session, rounds: int, tokens: int, temperature: float) -> Iterator[str]:
    """Yield the lines to print."""
    choice = ModelChoice("hybrid", dtype="float32", device="cpu")
    loaded = session.open(choice, no_progress)
    yield f"{loaded.info.parameters / 1e6:.1f} million parameters. {loaded.info.note('chains')}"
    times = loaded.profile.free
    curve = zip(times.buckets, times.seconds, strict=True)
    yield "ms a step by rows: " + ", ".join(f"{rows}: {1000 * seconds:.1f}" for rows, seconds in curve)
    assert isinstance(loaded.runner, SequentialRunner)
    yield _copy_cost(loaded.runner)
    expected, _ = _ask(session, choice, "plain", tokens, temperature)
    lanes: Mapping[str, tuple[DecoderName, str]] = {
        "plain": ("plain", ""),
        "auto": ("auto", ""),
        "auto, told the text": ("auto", expected),
    }
    found: dict[str, list[_Reply]] = {lane: [] for lane in lanes}
    for _ in range(rounds + 1):
        for lane, (decoder, prediction) in lanes.items():
            began = process_time()
            text, statistics = _ask(session, choice, decoder, tokens, temperature, prediction)
            found[lane].append(_Reply(process_time() - began, statistics, text == expected))
    for lane, replies in found.items():
        ratios = [plain.seconds / one.seconds for plain, one in zip(found["plain"], replies, strict=True)][1:]
        per_step = median(one.statistics.tokens_per_step for one in replies[1:])  # the first round warms up
        same = "the same text" if all(one.is_same for one in replies) else "TEXTS DIFFER"
        yield f"{lane}: {per_step:.2f} tokens per step, {median(ratios):.2f} times plain's speed, {same}"


class _Reply(NamedTuple):
    """A reply; `seconds` is processor time, on which other programs have less influence than on the clock."""

    seconds: float
    statistics: Statistics
    is_same: bool


def _copy_cost(runner: SequentialRunner) -> str:
    """Measure the time of a copy of the state."""
    for _ in runner.prefill(range(100)):
        pass
    marks = [perf_counter()]
    for _ in range(100):
        runner.snapshot()
        marks.append(perf_counter())
    runner.forget()
    return f"a copy of the state takes {1000 * median(b - a for a, b in pairwise(marks)):.2f} ms"


def _ask(
    session: Session,
    choice: ModelChoice,
    decoder: DecoderName,
    tokens: int,
    temperature: float,
    prediction: str = "",
) -> tuple[str, Statistics]:
    sampling = Sampling(temperature, seed=1)
    options = Options(sampling=sampling, decoding=Decoding(decoder), max_new_tokens=tokens, ignore_eos=True)
    request = Request(choice, (Message("user", QUESTION),), options, is_cold=True, prediction=prediction)
    events = list(session.events(request, no_progress))
    last = events[-1]
    assert isinstance(last, Finished)
    return "".join(event.text for event in events if isinstance(event, Piece)), last.statistics


def _print(line: str) -> None:
    print(line, flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
