"""Reads the labelled questions and the texts that they are about (tests/documents/quality/README.md)."""

import importlib
import inspect
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

QUALITY = Path(__file__).parents[1] / "documents" / "quality"
BOOKS = {"alice": "Alice's Adventures in Wonderland", "oz": "The Wonderful Wizard of Oz"}
LIBRARY = """
    abc argparse array ast asyncio base64 binascii bisect bz2 calendar cmath cmd code codecs codeop
    collections compileall configparser contextlib csv ctypes dataclasses datetime decimal difflib dis doctest
    email.message email.utils enum filecmp fileinput fnmatch fractions ftplib functools gc getpass gettext
    glob graphlib gzip hashlib heapq hmac html http.client http.cookies http.server imaplib inspect io
    ipaddress itertools json linecache logging logging.handlers mailbox math mimetypes operator os pathlib
    pickle pickletools pkgutil platform plistlib pprint profile pstats queue random re reprlib secrets select
    selectors shelve shlex shutil signal smtplib socket socketserver sqlite3 ssl statistics string struct
    subprocess symtable sys sysconfig tabnanny tarfile tempfile textwrap threading time timeit tokenize trace
    traceback tracemalloc types typing unicodedata unittest.mock urllib.parse urllib.request uuid venv
    warnings wave weakref webbrowser xml.dom.minidom xml.etree.ElementTree xmlrpc.client zipapp zipfile
    zipimport zlib
"""
"""Modules that all supported versions of Python have, on nearly every system."""
SHORTEST, LONGEST = 120, 1_600
"""Limits for the characters of a documentation string, so that it has some content and fits one passage."""

Kind = Literal["near", "paraphrase", "absent"]


@dataclass(frozen=True, slots=True)
class Text:
    """A text that is searched. `names` are the names of the objects that a documentation string documents."""

    document: str
    title: str
    text: str
    names: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Question:
    """A question and the place of its answer. `before` is the question that a follow-up refers to, or ""."""

    kind: Kind
    document: str
    answer: str
    question: str
    before: str = ""

    def is_answered_by(self, title: str, passage: str) -> bool:
        if self.document in BOOKS:
            return title == BOOKS[self.document] and self.answer in re.sub(r"\s+", " ", passage)
        return title in self.answer.split("|")


def read_questions() -> tuple[Question, ...]:
    """Return the questions with and without an answer, in the order of their files."""
    rows = (row for part in ("books", "python", "absent") for row in _rows(f"questions_{part}.tsv"))
    return tuple(
        Question(cast(Kind, kind), document, answer, asked) for kind, document, answer, asked in rows
    )


def read_follow_ups() -> tuple[Question, ...]:
    """Return the questions that refer to the question before them."""
    rows = _rows("follow_ups.tsv")
    return tuple(
        Question("near", document, answer, asked, before) for document, answer, before, asked in rows
    )


def read_texts() -> tuple[Text, ...]:
    """Return the books and this Python's documentation strings."""
    books = (
        Text(name, title, (QUALITY / f"{name}.txt").read_text(encoding="utf-8"))
        for name, title in BOOKS.items()
    )
    return (*books, *documentation())


def documentation() -> tuple[Text, ...]:
    """Return a text for each documentation string. If several names share a string, the first is its title."""
    named: dict[str, list[str]] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # from deprecated parts of the library
        for name, thing in _things():
            text = inspect.getdoc(thing)
            if text and SHORTEST <= len(text) <= LONGEST:
                named.setdefault(text, []).append(name)
    return tuple(Text("python", names[0], text, frozenset(names)) for text, names in named.items())


def _things() -> Iterator[tuple[str, Any]]:
    for module_name in LIBRARY.split():
        module = importlib.import_module(module_name)
        for name, thing in sorted(vars(module).items()):
            if name.startswith("_") or not callable(thing) or not _is_of(thing, module_name):
                continue
            yield f"{module_name}.{name}", thing
            if inspect.isclass(thing):
                methods = sorted(vars(thing).items())
                yield from (
                    (f"{module_name}.{name}.{method}", function)
                    for method, function in methods
                    if callable(function) and not method.startswith("_")
                )


def _is_of(thing: Any, module: str) -> bool:
    """Return whether an object belongs to a module. Objects written in C name another module as theirs."""
    return getattr(thing, "__module__", module) in (module, f"_{module}", "posix", "nt", None) or module in (
        "os",
        "math",
        "time",
    )


def _rows(name: str) -> list[list[str]]:
    return [line.split("\t") for line in (QUALITY / name).read_text(encoding="utf-8").splitlines()]
