"""Kills a process (kill -9) at random moments while it indexes documents. No accepted document may be missing then.

A child process adds files, pastes a newer version of a text, and is killed. If it had ended before, another process
is killed sooner. Then the documents are opened again. The database must be undamaged, every document must become
ready by itself, and its passages must be those of an uninterrupted run.
"""

import subprocess
import sys
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from random import Random
from time import perf_counter, sleep

from app.database.database import database_in
from app.documents.documents import Documents
from app.system.child_process import importing_environment, python_command

CHECKOUT = Path(__file__).parents[2]
FILES, SECTIONS = 4, 150
ATTEMPTS = 5
OLDER, PASTED, ANEW = "older", "notes", "notes-anew"
Passages = dict[str, list[tuple[int, int, str, str]]]
"""The passages of documents by title, each with its start, end, heading and text."""


@dataclass(frozen=True, slots=True)
class Kill:
    """A kill `after` some seconds, when `taken` documents had been accepted and `ready` of them were indexed."""

    number: int
    after: float
    taken: int
    ready: int
    faults: tuple[str, ...] = ()


class Killer:
    """Indexes in a child process, kills it, and compares the passages with those of an uninterrupted run."""

    def __init__(self, folder: Path, chance: Random) -> None:
        self._folder = folder
        self._chance = chance
        make_files(folder)
        child, _ = self._start(folder / "clean")
        begin = perf_counter()
        child.communicate()
        self._longest = perf_counter() - begin
        self._expected = passages_in(folder / "clean")

    def kill(self, number: int) -> Kill:
        """Start indexing, kill the process, open the documents again, and return what was found."""
        data_dir, after, taken = self._killed(number, self._chance.uniform(0, self._longest))
        faults = [_damage(data_dir)]
        ready = len(passages_in(data_dir, wait=False))
        faults += [*self._wrong(taken, passages_in(data_dir)), _damage(data_dir)]
        return Kill(number, after, len(taken), ready, tuple(filter(None, faults)))

    def _killed(self, number: int, after: float) -> tuple[Path, float, list[str]]:
        """Kill a process that has not ended yet.

        Returns its data folder, the seconds until the kill, and the titles of the documents that it accepted."""
        for attempt in range(ATTEMPTS):
            data_dir = self._folder / f"data-{number}-{attempt}"
            child, first = self._start(data_dir)
            sleep(after)
            child.kill()
            taken = [first, *child.communicate()[0].decode().split()]
            if child.returncode:  # with 0 it had ended by itself
                return data_dir, after, taken
            after /= 2
        raise RuntimeError(f"The process had ended before each of {ATTEMPTS} kills.")

    def _start(self, data_dir: Path) -> tuple["subprocess.Popen[bytes]", str]:
        """Start a process and wait until it has accepted a document. Return both, the document as its title."""
        command = python_command("-m", "tests.support.document_kills", str(data_dir), str(self._folder))
        child = subprocess.Popen(command, cwd=CHECKOUT, stdout=subprocess.PIPE, env=importing_environment())
        assert child.stdout
        if not (first := child.stdout.readline().decode().strip()):
            raise RuntimeError(f"The process accepted no document and ended with code {child.wait()}.")
        return child, first

    def _wrong(self, taken: list[str], found: Passages) -> list[str]:
        due = dict(self._expected)
        if ANEW not in taken and found.get(PASTED) == due[OLDER]:
            due[PASTED] = due[OLDER]  # killed before the newer version was accepted
        lost = [
            f"{title} was accepted and is missing" for title in taken if title != ANEW and title not in found
        ]
        return lost + [
            f"{title} has {len(passages)} passages, {len(due[title])} are due, or they differ"
            for title, passages in found.items()
            if passages != due[title]
        ]


def make_files(folder: Path) -> None:
    for number in range(FILES):
        text = "\n\n".join(_section(Random(f"{number}.{at}"), at) for at in range(SECTIONS))
        (folder / f"manual{number}.md").write_text(text, encoding="utf-8")


def index(data_dir: Path, folder: Path) -> None:
    """Index documents, and print the title of each as soon as it is accepted. The child process runs this."""
    notes = [_section(Random(f"notes.{at}"), at) for at in range(SECTIONS)]
    with closing(database_in(data_dir)) as database, closing(Documents(database, data_dir)) as documents:
        collection = documents.create("Manuals")
        for title, text in ((OLDER, "\n\n".join(notes)), (PASTED, "\n\n".join([*notes, ""]))):
            documents.paste(collection, text, title)
            _tell(title)
        for path in sorted(folder.glob("*.md")):
            documents.add_files(collection, [path])
            _tell(path.name)
        documents.wait()
        notes[SECTIONS // 2] = "## New\n\nWritten anew."
        documents.paste(collection, "\n\n".join(notes), PASTED)
        _tell(ANEW)
        documents.wait()


def passages_in(data_dir: Path, wait: bool = True) -> Passages:
    """Return the passages of all ready documents. By default waits until nothing is left to do."""
    with closing(database_in(data_dir)) as database, closing(Documents(database, data_dir)) as documents:
        if wait:
            documents.wait()
        return {
            one.title: [(it.start, it.end, it.heading, it.text) for it in documents.passages(one.id)]
            for collection in documents.collections()
            for one in documents.documents(collection.id)
            if one.state == "ready"
        }


def _damage(data_dir: Path) -> str:
    with closing(database_in(data_dir)) as database:
        return database.damage()


def _section(source: Random, number: int) -> str:
    sentences = (" ".join(_word(source) for _ in range(12)).capitalize() + "." for _ in range(20))
    return f"## Section {number}\n\n" + " ".join(sentences)


def _word(source: Random) -> str:
    return "".join(source.choice("bcdfglmnrst") + source.choice("aeiou") for _ in range(source.randint(1, 3)))


def _tell(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    index(Path(sys.argv[1]), Path(sys.argv[2]))
