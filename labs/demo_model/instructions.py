"""Reads single questions with their answers: instructions (GPTeacher) and small talk (the ChatterBot corpus)."""

import gzip
import json
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path

from labs.demo_model.archives import texts_in
from labs.demo_model.conversations import Conversation, clean, pair

SETS = ("roleplay-instruct", "codegen-instruct")
ANSWER_LENGTHS = range(21, 2500)
MAX_QUESTION = 1500


def instructions(data: Path) -> Iterator[Conversation]:
    """Yield role-play and programming tasks with answers that are neither trivial nor long."""
    for name in SETS:
        with gzip.open(data / "gpteacher" / f"{name}.json.gz", "rt", encoding="utf-8") as file:
            tasks = json.load(file)
        for task in tasks:
            question = task.get("instruction", "") + ("\n" + task["input"] if task.get("input") else "")
            answer = task.get("response") or task.get("output") or ""
            if isinstance(answer, str) and len(answer) in ANSWER_LENGTHS and len(question) < MAX_QUESTION:
                yield pair("gpteacher", clean(question), answer.strip())


def small_talk(data: Path) -> Iterator[Conversation]:
    """Yield the corpus's conversations, cut to the first question and its answer."""
    with tarfile.open(data / "chatterbot" / "english.tar.gz") as archive:
        for _, text in texts_in(archive, (".yml", ".yaml")):
            for lines in _finished_lists(text):
                if len(lines) >= 2:
                    question, answer = (clean(line.strip("'\"")) for line in lines[:2])
                    yield pair("chatterbot", question, answer)


def _finished_lists(text: str) -> Iterator[list[str]]:
    """Yield the lines of each list (`- - question` / `  - answer`) that another list follows.

    Each file's last list is left out, as for the shipped model, so that the data stays the same."""
    lines: list[str] = []
    for line in text.split("\n"):
        if first := re.match(r"^- - (.*)", line):
            yield lines
            lines = [first[1]]
        elif further := re.match(r"^  - (.*)", line):
            lines.append(further[1])
