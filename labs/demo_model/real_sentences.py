"""Reads real sentences for the copying tasks: from books, dialogues, pages about shell commands, and docstrings."""

import ast
import random
import re
import sysconfig
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

from labs.demo_model.conversations import clean
from labs.demo_model.dialogues import persona_dialogues, topic_dialogues
from labs.demo_model.passages import Sentences, count_words, read_books, split_sentences
from labs.demo_model.shell_commands import read_pages

PER_GROUP = 40
PAGES_PER_GROUP = 4
NUM_MESSAGES = 1500
SEED = 3
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef)
NOT_DOCUMENTATION = ("test", "site-packages", "lib2to3")
DOC_SENTENCE = re.compile(r"[A-Z][^\n]{24,200}[.!?]")


def real_sentences(data: Path) -> tuple[list[Sentences], Counter[str]]:
    """Return groups of sentences, and how often each word occurs in them.

    The sentences of a group are consecutive in books, dialogues and within a docstring's paragraph."""
    rng = random.Random(SEED)
    books = chain.from_iterable(_groups(book, PER_GROUP) for book in read_books(data))
    docs = list(docstrings(Path(sysconfig.get_path("stdlib"))))
    rng.shuffle(docs)
    found = [*books, *_messages(data, rng), *_pages(data, rng), *(_joined(docs) * 2)]
    return found, count_words(found)


def docstrings(library: Path) -> Iterator[Sentences]:
    """Yield the sentences of each paragraph of the docstrings in a folder and in the folders directly in it."""
    for path in sorted([*library.glob("*.py"), *library.glob("*/*.py")]):
        if any(name in str(path.relative_to(library)) for name in NOT_DOCUMENTATION):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            text = ast.get_docstring(node) if isinstance(node, DOCUMENTED) else None
            for paragraph in re.split(r"\n\s*\n", text or ""):
                sentences = split_sentences(clean(re.sub(r"\s+", " ", paragraph)))
                if plain := [one for one in sentences if DOC_SENTENCE.fullmatch(one)]:
                    yield plain


def _messages(data: Path, rng: random.Random) -> list[Sentences]:
    texts = (
        split_sentences(message.content)
        for conversation in chain(topic_dialogues(data), persona_dialogues(data))
        for message in conversation.messages
    )
    return rng.sample([sentences for sentences in texts if len(sentences) >= 2], NUM_MESSAGES)


def _pages(data: Path, rng: random.Random) -> Iterator[Sentences]:
    lines = [f"{page.name}: {page.description}".removesuffix(".") + "." for page in read_pages(data)]
    rng.shuffle(lines)
    return _groups(lines, PAGES_PER_GROUP)


def _joined(paragraphs: Iterable[Sentences]) -> list[Sentences]:
    """Join paragraphs into passages of at least PAGES_PER_GROUP sentences; the last may have fewer."""
    joined: list[Sentences] = [[]]
    for sentences in paragraphs:
        if len(joined[-1]) >= PAGES_PER_GROUP:
            joined.append([])
        joined[-1] += sentences
    return joined


def _groups(sentences: Sentences, size: int) -> Iterator[Sentences]:
    return (sentences[start : start + size] for start in range(0, len(sentences), size))
