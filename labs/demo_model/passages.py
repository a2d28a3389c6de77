"""Reads the sentences that quoting tasks quote, from books and dialogues, and counts their words."""

import gzip
import html
import re
import tarfile
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from labs.demo_model.archives import texts_in
from labs.demo_model.conversations import Conversation, clean
from labs.demo_model.shell_commands import Page

Sentences = list[str]
ALICE = "books/alice-pg11.txt.gz"
ALICE_WITHOUT_NOTICES = slice(2000, -20000)
EBOOKS = ("books/se-sherlock-holmes-xhtml.tar.gz", "books/se-wizard-of-oz-xhtml.tar.gz")
CHAPTER_NAME = re.compile(r"chapter|adventure|a-|the-")
SHORTEST_CHAPTER = 2000
SPOKEN = ("topical", "persona")


@dataclass(frozen=True, slots=True)
class Library:
    """The texts that can be quoted, and how often each word occurs in books and dialogues."""

    books: list[Sentences]
    dialogues: list[Sentences]
    pages: list[Page]
    word_counts: Counter[str]


def make_library(data: Path, conversations: Iterable[Conversation], pages: list[Page]) -> Library:
    """Make the library of the books in the data folder and of the spoken conversations."""
    books = list(read_books(data))
    dialogues = [
        sentences
        for conversation in conversations
        if conversation.source in SPOKEN
        for message in conversation.messages
        if (sentences := split_sentences(message.content))
    ]
    return Library(books, dialogues, pages, count_words(books + dialogues))


def read_books(data: Path) -> Iterator[Sentences]:
    with gzip.open(data / ALICE, "rt", encoding="utf-8") as file:
        yield split_sentences(clean(file.read()[ALICE_WITHOUT_NOTICES]))
    for name in EBOOKS:
        with tarfile.open(data / name) as archive:
            for path, page in texts_in(archive, (".xhtml",)):
                text = _paragraphs(page)
                if CHAPTER_NAME.search(path) and len(text) > SHORTEST_CHAPTER:
                    yield split_sentences(text)


def split_sentences(text: str) -> Sentences:
    """Return the sentences of a text that have 26 to 259 characters."""
    parts = re.split(r'(?<=[.!?])\s+(?=[A-Z"])', re.sub(r"\s+", " ", text))
    return [part.strip() for part in parts if 25 < len(part.strip()) < 260]


def _paragraphs(page: str) -> str:
    paragraphs = " ".join(re.findall(r"<p[^>]*>(.*?)</p>", page, re.S))
    text = clean(html.unescape(re.sub(r"<[^>]+>", "", paragraphs)))
    return text.replace("\u2060", "").replace("\u00a0", " ")


def count_words(texts: Iterable[Sentences]) -> Counter[str]:
    """Count how often each word occurs, in lower case."""
    counts: Counter[str] = Counter()
    for sentences in texts:
        for sentence in sentences:
            counts.update(re.findall(r"[A-Za-z']+", sentence.lower()))
    return counts
