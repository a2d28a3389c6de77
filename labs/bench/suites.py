"""Reads Spec-Bench, MT-Bench, HumanEval and GSM8K as prompt sets, one for each category.

Their questions are not part of the app. They are read from a folder as their authors publish them:

    FOLDER/spec-bench/question.jsonl (or dev.jsonl)     FOLDER/mt-bench/question.jsonl
    FOLDER/human-eval/HumanEval.jsonl.gz                FOLDER/gsm8k/test.jsonl
"""

import gzip
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from app.commands.prompts import PromptItem, PromptSet
from app.errors import BadOption
from app.values.dataclass_json import parse_json
from app.values.messages import Message
from app.values.text_normalisation import without_surrogates

Suite = Literal["spec-bench", "mt-bench", "humaneval", "gsm8k"]

MT_BENCH = "mt-bench"
_OTHER_CATEGORIES = ("translation", "summarization", "qa", "math_reasoning", "rag")
"""Spec-Bench's categories, except those of MT-Bench, which its leaderboard counts as one category."""


@dataclass(frozen=True, slots=True)
class _Source:
    """The files of a suite's questions, and a function that reads a line's category and turns."""

    folder: str
    files: tuple[str, ...]
    read: Callable[[Any], tuple[str, list[str]]]


def read_suite(suite: Suite, folder: Path | None, limit: int | None) -> list[PromptSet]:
    """Read the first `limit` questions of each category. Raises BadOption if the questions cannot be read."""
    if limit is not None and limit < 1:
        raise BadOption(f"--limit takes a number from 1 on, got {limit}.")
    source = _SOURCES[suite]
    file = _file(suite, source, folder)
    sets = dict[str, list[PromptItem]]()
    for number, line in enumerate(_lines(file), start=1):
        category, turns = _question(source, line, f"{file}, line {number}")
        sets.setdefault(category, []).append(_item(turns))
    if not sets:
        raise BadOption(f"{file} has no questions.")
    return [PromptSet(category, tuple(items[:limit])) for category, items in sets.items()]


def _file(suite: Suite, source: _Source, folder: Path | None) -> Path:
    places = [f"{source.folder}/{name}" for name in source.files]
    if folder is None:
        raise BadOption(f"--suite {suite} needs --suite-data FOLDER, a folder with {places[0]}.")
    found = next((folder / place for place in places if (folder / place).is_file()), None)
    if found is None:
        raise BadOption(f"{folder} has no {' or '.join(places)}. Download the questions there first.")
    return found


def _lines(file: Path) -> list[str]:
    try:
        raw = file.read_bytes()
        text = (gzip.decompress(raw) if file.suffix == ".gz" else raw).decode("utf-8")
    except (OSError, EOFError, ValueError) as error:
        raise BadOption(f"The questions in {file} cannot be read ({error}).") from error
    return [line for line in text.splitlines() if line.strip()]


def _question(source: _Source, line: str, where: str) -> tuple[str, list[str]]:
    try:
        category, turns = source.read(parse_json(line))
        if not turns or not all(isinstance(turn, str) and turn.strip() for turn in turns):
            raise ValueError
    except (ValueError, LookupError, TypeError) as error:
        raise BadOption(f"{where} is not a question of this suite.") from error
    return category, turns


def _item(turns: list[str]) -> PromptItem:
    first, *later = map(without_surrogates, turns)
    return PromptItem((Message("user", first),), later_turns=tuple(later))


def _of_spec_bench(question: Any) -> tuple[str, list[str]]:
    category = question["category"]
    return category if category in _OTHER_CATEGORIES else MT_BENCH, question["turns"]


_SOURCES: dict[Suite, _Source] = {
    "spec-bench": _Source("spec-bench", ("question.jsonl", "dev.jsonl"), _of_spec_bench),
    "mt-bench": _Source("mt-bench", ("question.jsonl",), lambda one: (one["category"], one["turns"])),
    "humaneval": _Source(
        "human-eval",
        ("HumanEval.jsonl.gz", "HumanEval.jsonl"),
        lambda one: ("humaneval", ["Complete this Python function:\n\n" + one["prompt"]]),
    ),
    "gsm8k": _Source("gsm8k", ("test.jsonl",), lambda one: ("gsm8k", [one["question"]])),
}
