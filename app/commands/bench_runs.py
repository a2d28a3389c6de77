"""Runs of a benchmark: what a contestant needed for a reply. Kept as JSON lines, so that a stopped one goes on.

A run is found again by what was asked (contestant, model, prompt, options, round). What was asked differently is
measured anew; older runs stay in the file. The last line of a killed process may be cut off; it is dropped.
"""

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from app.errors import BadOption
from app.system.files import make_folder, sync_folder
from app.values.dataclass_json import parse_json
from app.values.messages import Options, Prompt

RUNS_FILE = "runs.jsonl"


@dataclass(frozen=True, slots=True)
class BenchRun:
    """One reply: all its tokens, and the tokens, steps, seconds, rows and hits behind the first forward pass."""

    token_ids: tuple[int, ...]
    tokens: int
    steps: int
    seconds: float
    rows: int = 0
    hits: int = 0
    text: str = ""

    @property
    def tokens_per_second(self) -> float:
        """Speed of decoding; 0.0 for a reply of one pass, which has none."""
        return self.tokens / self.seconds if self.steps and self.seconds else 0.0


@dataclass(frozen=True, slots=True)
class Contestant:
    """What answers a prompt. `settings` is what its runs depend on: the model, its type, the decoder's sizes."""

    name: str
    settings: str
    answer: Callable[[Prompt, Options], BenchRun]
    is_plain: bool = False

    def key(self, place: str, prompt: Prompt, options: Options) -> str:
        """What a run of this contestant is found by."""
        asked = sha256(repr((self.settings, prompt, options)).encode("utf-8", "surrogatepass")).hexdigest()
        return f"{place}, {self.name}, {asked[:16]}"


class RunLog:
    """Runs by their keys. With a folder each is written as soon as it is measured."""

    def __init__(self, folder: Path | None = None) -> None:
        """Raises BadOption where the folder cannot be used, or has a file of another kind."""
        self._runs: dict[str, BenchRun] = {}
        self._file = folder / RUNS_FILE if folder else None
        if self._file:
            try:
                make_folder(self._file.parent)
                self._runs = dict(_read(self._file))
            except OSError as error:
                raise BadOption(
                    f"{folder} cannot be used ({error.strerror}). Choose another folder."
                ) from error

    def __len__(self) -> int:
        return len(self._runs)

    def find(self, key: str) -> BenchRun | None:
        """The run of this key; None where it is still to be measured."""
        return self._runs.get(key)

    def add(self, key: str, run: BenchRun) -> None:
        """Keep a run."""
        self._runs[key] = run
        if self._file:
            with self._file.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"key": key, **asdict(run)}) + "\n")
                file.flush()
                os.fsync(file.fileno())


def _read(file: Path) -> Iterator[tuple[str, BenchRun]]:
    """The runs of a file, whose last line is cut off where it is incomplete and all others are runs."""
    file.touch()
    sync_folder(file.parent)
    raw = file.read_bytes()
    complete = raw[: raw.rfind(b"\n") + 1]
    for number, line in enumerate(complete.splitlines(), start=1):
        try:
            yield _run_of(parse_json(line))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise BadOption(
                f"{file}, line {number} is not a run of a benchmark. Choose another folder, or remove this file."
            ) from error
    if len(complete) < len(raw):
        os.truncate(file, len(complete))


def _run_of(line: dict[str, Any]) -> tuple[str, BenchRun]:
    key = str(line.pop("key"))
    return key, BenchRun(tuple(map(int, line.pop("token_ids"))), **line)
