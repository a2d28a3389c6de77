"""Dialogues of several turns: tasks (Schema-Guided Dialogue, Taskmaster-4), topics, and personas."""

import csv
import gzip
import json
import re
from collections.abc import Iterator
from pathlib import Path

from app.values.messages import Message, Role
from labs.demo_model.conversations import Conversation, alternating, clean, from_the_user_on

TASK_FILES = ("sgd/sgd_turns.jsonl.gz", "taskmaster4/tm4_turns.jsonl.gz")
MAX_TASK_MESSAGES = 16
MAX_TOPIC_MESSAGES = 20
LONGEST_FIELD = 10**8
LINE = re.compile(r"\s*User ?([12]):\s*(.*)")


def task_dialogues(data: Path) -> Iterator[Conversation]:
    """Yield dialogues in which an assistant books, looks up or arranges something for a user."""
    for name in TASK_FILES:
        with gzip.open(data / name, "rt", encoding="utf-8") as lines:
            for line in lines:
                turns = [Message(m["role"], clean(m["content"])) for m in json.loads(line)["messages"]]
                messages = from_the_user_on(turns)
                if len(messages) >= 2:
                    yield Conversation(name.split("/")[0], tuple(messages[:MAX_TASK_MESSAGES]))


def topic_dialogues(data: Path) -> Iterator[Conversation]:
    """Yield dialogues of two people about a topic; the first speaker is the user."""
    for path in sorted((data / "topical-chat").glob("*.json.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as file:
            dialogues = json.load(file)
        for dialogue in dialogues.values():
            turns = dialogue["content"]
            first = turns[0]["agent"]
            messages = alternating((_role(turn["agent"] == first), turn["message"]) for turn in turns)
            yield Conversation("topical", tuple(messages[:MAX_TOPIC_MESSAGES]))


def persona_dialogues(data: Path) -> Iterator[Conversation]:
    """Yield dialogues of two people who get to know each other, read from lines `User 1: …`."""
    csv.field_size_limit(LONGEST_FIELD)
    for path in sorted((data / "synthetic-persona-chat").glob("*.csv.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                messages = from_the_user_on(alternating(_spoken(row)))
                if len(messages) >= 2:
                    yield Conversation("persona", tuple(messages))


def _spoken(row: dict[str, str]) -> Iterator[tuple[Role, str]]:
    column = next(name for name in row if "Conversation" in name)
    for line in row[column].split("\n"):
        if found := LINE.match(line):
            yield _role(found[1] == "1"), found[2]


def _role(is_user: bool) -> Role:
    return "user" if is_user else "assistant"
