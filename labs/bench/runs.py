"""Keeps the runs of a benchmark as JSON lines, so that a stopped benchmark continues.

A run is identified by contestant, model, prompt, options and round. If one of these differs, the run is measured
anew; older runs stay in the file. An incomplete last line, left by a killed process, is dropped.
"""

import json
import os
from collections import UserDict
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from app.commands.bench_measurement import BenchRun
from app.errors import BadOption
from app.system.files import make_folder, sync_folder
from app.values.dataclass_json import parse_json

RUNS_FILE = "runs.jsonl"


class RunLog(UserDict[str, BenchRun]):
    """Runs by their keys. Each run is written to the folder's file as soon as it is measured."""

    def __init__(self, folder: Path) -> None:
        """Read the folder's runs, and make the folder if it is missing.

        Raises BadOption if the folder cannot be used, or its file is not a file of runs."""
        super().__init__()
        self._file = folder / RUNS_FILE
        try:
            make_folder(folder)
            self.data = dict(_read(self._file))
        except OSError as error:
            raise BadOption(f"{folder} cannot be used ({error.strerror}). Choose another folder.") from error

    def __setitem__(self, key: str, run: BenchRun) -> None:
        super().__setitem__(key, run)
        with self._file.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"key": key, **asdict(run)}) + "\n")
            file.flush()
            os.fsync(file.fileno())


def _read(file: Path) -> Iterator[tuple[str, BenchRun]]:
    """Yield the file's runs. Creates the file if it is missing, and truncates it after its last complete line."""
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
