"""Measures documents: passages indexed per second, processor time per question, memory and disk space.

    python -m labs.documents_speed [--passages 10000] [--documents 20] [--folder FOLDER] [--vectors] [--asks]

Texts, in sections of 280 words, and questions are drawn from 30,000 made-up words by Zipf's law. The documents are
made if FOLDER has none; --documents 1 makes one large text. With --vectors each passage has a random vector, with
which questions are compared, too.
"""

import argparse
import resource
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import closing
from pathlib import Path
from random import Random
from statistics import median
from time import perf_counter, process_time, sleep, thread_time
from zlib import crc32

import numpy as np

from app.commands.console import print_text
from app.database.database import database_in
from app.documents.documents import Documents
from app.documents.embedding import NO_EMBEDDER, Vectors
from labs.indexing import wait_until_ready
from labs.made_up_words import made_up_word

WORDS_A_SECTION = 280
SECTIONS_A_TEXT = 4_096
QUESTIONS = 60
WIDTH = 384
"""The width of all-MiniLM-L6-v2's vectors."""
KILO = 1 if sys.platform == "darwin" else 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--passages", type=int, default=10_000)
    parser.add_argument("--documents", type=int, default=20)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--vectors", action="store_true")
    parser.add_argument("--asks", action="store_true", help="ask during the import, too, which slows it down")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = chosen.folder or Path(made)
        embedder = RandomEmbedder() if chosen.vectors else NO_EMBEDDER
        with (
            closing(database_in(folder)) as database,
            closing(Documents(database, folder, embedder)) as documents,
        ):
            if not documents.collections():
                _index(documents, folder, chosen.passages, chosen.documents, chosen.asks)
            documents.wait()
            before = _memory()
            _ask(documents, documents.collections()[0].id)
            print_text(f"memory at most {_memory():,.0f} MiB, {before:,.0f} before the first question")
            print_text(f"{database.size() / 2**20:,.0f} MiB on the disk")


class RandomEmbedder:
    """Gives each text its own random vector, always the same."""

    model = "random"

    def embed(self, texts: Sequence[str]) -> Future[Vectors]:
        drawn = [
            np.random.default_rng(crc32(text.encode())).standard_normal(WIDTH, np.float32) for text in texts
        ]
        answer: Future[Vectors] = Future()
        answer.set_result(np.array([one / np.linalg.norm(one) for one in drawn], np.float32))
        return answer


def _index(documents: Documents, folder: Path, passages: int, count: int, asks: bool) -> None:
    collection = documents.create("Speed")
    files = [_write(folder / f"text{number}.md", number, passages // count) for number in range(count)]
    before, begin, own = _memory(), perf_counter(), process_time()
    documents.add_files(collection, files)
    if asks:
        _ask_meanwhile(documents, collection)
    wait_until_ready(documents, collection, count)
    seconds, busy = perf_counter() - begin, process_time() - own
    (about,) = documents.collections()
    print_text(
        f"{about.passages:,} passages of {about.documents:,} documents ({about.characters / 1e6:,.1f} million "
        f"characters) in {seconds:.1f} s ({busy:.1f} s of the processor): {about.passages / seconds:,.0f} a second"
    )
    print_text(f"memory at most {_memory():,.0f} MiB, {before:,.0f} before")
    for file in files:
        file.unlink()


def _ask_meanwhile(documents: Documents, collection: int) -> None:
    """Ask a question every half second until all documents are read."""
    source, busy, waited = Random(2), [], []
    while any(one.state in ("waiting", "reading", "indexing") for one in documents.documents(collection)):
        asked = " ".join(_word(source) for _ in range(6))
        begin, own = perf_counter(), thread_time()
        documents.search([collection], asked)
        waited.append((perf_counter() - begin) * 1_000)
        busy.append((thread_time() - own) * 1_000)
        sleep(0.5)
    if busy:
        print_text(
            f"{len(busy)} questions during the import: {median(busy):.1f} ms of the processor (median), "
            f"{max(busy):.1f} ms at most; {median(waited):.1f} ms by the clock, {max(waited):.1f} ms at most"
        )


def _ask(documents: Documents, collection: int) -> None:
    source = Random(1)
    taken, found = [], 0
    for _ in range(QUESTIONS):
        asked = " ".join(_word(source) for _ in range(source.randint(2, 12)))
        begin = process_time()
        found += len(documents.search([collection], asked))
        taken.append((process_time() - begin) * 1_000)
    slow = sorted(taken)[-QUESTIONS // 20]
    print_text(
        f"processor time of a question of 2 to 12 words: {median(taken):.1f} ms median, {slow:.1f} ms for the "
        f"slowest twentieth, {max(taken):.1f} ms at most, {found / QUESTIONS:.1f} found"
    )


def _write(path: Path, number: int, sections: int) -> Path:
    source = Random(number)
    texts = [_section(source, at) for at in range(min(sections, SECTIONS_A_TEXT))]
    with path.open("w", encoding="utf-8") as file:
        for at in range(sections):
            # The number makes repeated sections differ in their digests.
            file.write(f"## Section {number}.{at}\n\n{texts[at % SECTIONS_A_TEXT]}\n\n")
    return path


def _section(source: Random, number: int) -> str:
    words = [_word(source) for _ in range(WORDS_A_SECTION)]
    sentences = (" ".join(words[at : at + 14]).capitalize() + "." for at in range(0, len(words), 14))
    return f"Everywhere. {number} " + " ".join(sentences)


def _word(source: Random) -> str:
    """Return a made-up word with a consonant at its end."""
    word = made_up_word(source)
    return word + "nrst"[len(word) % 4]


def _memory() -> float:
    """Return this process's peak memory in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * KILO / 2**20


if __name__ == "__main__":
    main()
