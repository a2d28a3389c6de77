"""Writes the demo model's training text, one conversation per line. The same seed gives the same file."""

import json
import random
from argparse import ArgumentParser
from collections import Counter
from pathlib import Path

from labs.demo_model.conversations import Conversation
from labs.demo_model.dialogues import persona_dialogues, task_dialogues, topic_dialogues
from labs.demo_model.instructions import instructions, small_talk
from labs.demo_model.introductions import greetings, introductions
from labs.demo_model.passages import make_library
from labs.demo_model.quoting import quoting_tasks
from labs.demo_model.shell_commands import command_questions, read_pages

SEED = 7
QUOTING_TASKS = 60_000


def make_conversations(data: Path, num_quoting_tasks: int, seed: int) -> list[Conversation]:
    """Make all training conversations in a random order."""
    rng = random.Random(seed)
    pages = read_pages(data)
    conversations = [
        *task_dialogues(data),
        *topic_dialogues(data),
        *persona_dialogues(data),
        *instructions(data),
        *command_questions(pages, rng),
        *small_talk(data),
    ]
    library = make_library(data, conversations, pages)
    conversations += quoting_tasks(library, num_quoting_tasks, rng)
    conversations += [*introductions(rng), *greetings()]
    rng.shuffle(conversations)
    return conversations


def write_conversations(conversations: list[Conversation], path: Path) -> None:
    with path.open("w", encoding="utf-8") as file:
        for conversation in conversations:
            file.write(json.dumps(conversation.as_json(), ensure_ascii=False) + "\n")


def main() -> None:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="folder with the data sets of labs/README.md")
    parser.add_argument("conversations", type=Path, help="the JSON lines file to write")
    parser.add_argument("--quoting-tasks", type=int, default=QUOTING_TASKS)
    parser.add_argument("--seed", type=int, default=SEED)
    options = parser.parse_args()
    conversations = make_conversations(options.data, options.quoting_tasks, options.seed)
    write_conversations(conversations, options.conversations)
    characters = sum(len(message.content) for c in conversations for message in c.messages)
    print(f"{len(conversations):,} conversations, {characters:,} characters")
    print(dict(Counter(conversation.source for conversation in conversations)))


if __name__ == "__main__":
    main()
