"""Docstrings are sentences that begin with a verb, in ordinary words (docs/contributing.md)."""

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

from tests.support.verbs import VERBS

CHECKOUT = Path(__file__).parent.parent
SOURCES = sorted(path for place in ("app", "tools", "labs") for path in (CHECKOUT / place).rglob("*.py"))
FEWEST_WORDS = 4
OUR_FILE = re.compile(r"(?<![\w./*-])[\w/]+\.(?:py|js|css)\b")
COMMENT = re.compile(r"(?:^ *|  )#.*")
"""As the formatter writes one: on a line of its own, or after two spaces. Tokenising all files takes seconds."""
NOT_OURS = (
    (r"\bbehind\b", 'write "after"'),
    (r"\b(so many|so long as|so much)\b", "name the number or the length"),
    (r"\b(told|heard|stood)\b", "use the technical verb"),
    (r"\b(same|equal) bits\b", 'write "bitwise identical"'),
    (r", for (it|they|there|this|these|that|those|its|their|nobody|nothing) ", 'write "because"'),
    (r"\bis no [a-z]+[.,;:]", 'write "is not a …"'),
    (r"\b(graphics )?(?<!-)cards?\b(?!-)", 'write "GPU"'),
    (r"\b(goes|go|going|gone) on\b", 'write "continue"'),
    (r"\b(some|no|any)body\b", 'write "the user" or what it is'),
    (r"\bthe person\b", 'write "the user"'),
    (r"(^|[.;] )Of (a|an|the|its|each|every|several|such|these|those|longer)\b", "begin with the subject"),
    (r"(^|[.;:] )To [a-z]+ [^,.;:]* (takes?|costs?|sets?|would)\b", 'begin with "Reading …", not "To read …"'),
    (r"\blikewise\b", "repeat the words"),
    (r"\bstands? in (a|the|its|their)\b", "name what is there"),
    (r"\bfor one thread( only)?\.", 'write "not thread-safe"'),
    (r"\b(two|the) looks\b|\blooks of\b", 'write "polls" or "checks"'),
    (r"\b(in|of) (the|its own|their own|another) ([A-Z]\w+ )?form of (a|an|the) \w+", 'write "as" or "format"'),
    (r"\bare the most\b", 'write "at most"'),
    (r"\b(stored|kept|read|looked up|counted) apart\b", 'write "separately"'),
    (r"\bcannot be had\b", "say what fails"),
)  # fmt: skip
NOT_IN_MESSAGES = tuple(
    pair
    for pair in NOT_OURS
    if any(word in pair[0] for word in ("told", "card", "person", "most", "form of"))
)
"""For the strings of the app, most of which somebody reads; in some of them other words are right."""
NOT_IN_PAGES = tuple(pair for pair in NOT_OURS if "behind" not in pair[0] and "body" not in pair[0])
"""For the pages of documentation, whose sentences are longer."""


def imperatives(word: str) -> set[str]:
    """The forms of which this word may be the third person."""
    irregular = {"has": "have", "does": "do", "goes": "go"}
    return {word, word.removesuffix("s"), word.removesuffix("es"), irregular.get(word, word)} | (
        {f"{word[:-3]}y"} if word.endswith("ies") else set()
    )


def is_called(node: ast.AST) -> bool:
    """Whether it is a function or a method that does something, not a property."""
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not any(
        "property" in ast.unparse(decorator) for decorator in node.decorator_list
    )


def unusual_words(text: str, patterns: Iterable[tuple[str, str]] = NOT_OURS) -> Iterator[str]:
    for pattern, advice in patterns:
        if found := re.search(pattern, text, re.IGNORECASE):
            yield f'has "{found[0].strip()}": {advice}'


def faults_of(node: ast.AST, text: str) -> Iterator[str]:
    words = re.findall(r"[\w'-]+", text)
    if len(words) < FEWEST_WORDS:
        yield "is shorter than a sentence"
    if is_called(node):
        first = re.match(r"[A-Za-z-]+", text)
        if not first or not imperatives(first[0].lower()) & VERBS:
            yield "does not begin with a verb"
        name = set(re.findall(r"[a-z]+", getattr(node, "name", "")))
        if {word.lower() for word in words} - {"the", "a", "an", "of", "this", "its"} <= name:
            yield "repeats the name"
    yield from unusual_words(text)


def texts_beside_code(source: Path, tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Comments, and the strings below constants and attributes."""
    for number, line in enumerate(source.read_text(encoding="utf-8").splitlines(), 1):
        if found := COMMENT.search(line):
            yield number, found[0]
    for node in ast.walk(tree):
        for before, after in pairwise(node.body if isinstance(node, ast.Module | ast.ClassDef) else []):
            match before, after:
                case (ast.Assign() | ast.AnnAssign(), ast.Expr(ast.Constant(str(text)))):
                    yield after.lineno, text


def texts_of(source: Path) -> Iterator[tuple[int, str, Iterable[str]]]:
    """The line of each text that somebody reads, the text, and its faults."""
    tree = ast.parse(source.read_text(encoding="utf-8"))
    is_app = CHECKOUT / "app" in source.parents
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module):
            if text := ast.get_docstring(node):
                yield getattr(node, "lineno", 1), text, faults_of(node, text)
        elif is_app and isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value, unusual_words(node.value, NOT_IN_MESSAGES)
    for line, text in texts_beside_code(source, tree):
        yield line, text, unusual_words(text)


@cache
def all_texts() -> list[tuple[str, str, Iterable[str]]]:
    """Where each text is, the text, and its faults, which can be iterated over once."""
    return [
        (f"{source.relative_to(CHECKOUT)}:{line}", text, faults)
        for source in SOURCES
        for line, text, faults in texts_of(source)
    ]


def test_texts_read_at_once() -> None:
    wrong = [
        f"{place}: {text.splitlines()[0]!r} {fault}"
        for place, text, faults in all_texts()
        for fault in faults
    ]
    assert not wrong, "\n".join(wrong)


def test_files_that_texts_name_exist() -> None:
    places = ("app", "assets", "tools", "labs", "tests")
    files = ["run.py", *(path.as_posix() for place in places for path in (CHECKOUT / place).rglob("*.*"))]
    missing = {
        f"{place}: {name}"
        for place, text, _ in all_texts()
        for name in OUR_FILE.findall(text)
        if "models/eagle3/" not in name and not any(f"/{file}".endswith(f"/{name}") for file in files)
    }
    assert not missing, "\n".join(sorted(missing))


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("As at this rank.", "does not begin with a verb"),
        ("Return it.", "is shorter than a sentence"),
        ("Returns the runner of it, for nobody else has one.", 'has ", for nobody": write "because"'),
        ("Return the texts. Of a long text only the end.", 'has ". Of a": begin with the subject'),
        (
            "Write a call in the Hermes form of a call.",
            'has "in the Hermes form of a call": write "as" or "format"',
        ),
        ("Read the runs of a file.", ""),
    ],
)
def test_the_rule_is_held(text: str, fault: str) -> None:
    [function] = ast.parse(f"def runs_of(file):\n    {text!r}").body
    assert next(faults_of(function, text), "") == fault
