"""Laps of everything that takes and gives back memory: long and short prompts, stops, errors, other models.

A lap is the same every time, so at its end the device must hold as many bytes as at the end of the first one.
"""

from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

from app.engine.gpu_report.findings import Finding
from app.engine.gpu_report.gauge import Gauge
from app.engine.gpu_report.plan import Plan
from app.engine.gpu_report.replies import locate
from app.engine.session import Session
from app.engine.unwatched import silent
from app.messages import DecoderName, Decoding, Device, DType, ModelChoice, Options, Piece, Request, Sampling

TOKENS = 48
TOKENS_A_WORD = 4
"""The most that "word " takes in the tokenizers that are met here."""
LAPS = 2
"""The fewest laps: the first one warms up."""
STOPS = (0, 5, 12)
"""After how many pieces a reply is stopped; 0: not at all."""

_DTYPES: tuple[DType, ...] = ("bfloat16", "float32")


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


def soak(plan: Plan, gauge: Gauge) -> Iterator[Finding]:
    """Laps until the time is over; what was in use after each."""
    end = perf_counter() + plan.soak_seconds
    device: Device = "cuda" if gauge.device.type == "cuda" else "cpu"
    choices = [ModelChoice(str(folder), dtype, device) for folder in plan.soak_folders for dtype in _DTYPES]
    used: list[int] = []
    requests = 0
    with TemporaryDirectory() as notes:
        session = Session(locate, Path(notes))
        begin = perf_counter()
        while len(used) < LAPS or perf_counter() < end:
            requests += _lap(session, choices, plan)
            used.append(gauge.used())
            seconds = perf_counter() - begin
            numbers = {"laps": len(used), "requests": requests, "seconds": seconds, "used_bytes": used[:]}
            yield Finding("soak", {"models": len(choices)}, numbers)


def _lap(session: Session, choices: list[ModelChoice], plan: Plan) -> int:
    """Every model in turn, with every length of prompt; how many requests that were."""
    decoders: cycle[DecoderName] = cycle(("lookahead", "plain", "auto"))
    stops, count = cycle(STOPS), 0
    for choice in choices:
        most = (session.open(choice, silent).info.context - TOKENS) // TOKENS_A_WORD
        for words in plan.soak_words:
            _ask(session, choice, min(words, most), next(decoders), next(stops))
            count += 1
        _break_off(session, choice)
        count += 1
    session.forget()
    return count


def _request(choice: ModelChoice, words: int, decoder: DecoderName) -> Request:
    options = Options(Sampling(0.8, seed=words), Decoding(decoder), max_new_tokens=TOKENS, ignore_eos=True)
    return Request(choice, "word " * words, options)


def _ask(session: Session, choice: ModelChoice, words: int, decoder: DecoderName, pieces: int) -> None:
    watch = StopAfter(pieces)
    for event in session.events(_request(choice, words, decoder), silent, watch):
        if isinstance(event, Piece):
            watch.count()


def _break_off(session: Session, choice: ModelChoice) -> None:
    """Leave a reply in mid-step, as an error does; then the worker lets the session forget."""
    events = session.events(_request(choice, 30, "lookahead"), silent, StopAfter(0))
    for event in events:
        if isinstance(event, Piece):
            break
    session.forget()
