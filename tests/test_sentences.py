"""Every sentence that the app can show is one for people: none is a value of Python or a word of the engine."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from app.main import cli

ROOT = Path(__file__).parents[1]
UI = ROOT / "assets" / "ui"
FIRST_VIEW = (
    "chat_list.html", "context_meter.html", "messages.html", "notice.html", "overflow_question.html",
    "problem.html", "queue.html", "reply_note.html", "regenerate_question.html", "starters.html", "status.html",
    "undo.html",
)  # fmt: skip
"""The templates of what a new user sees: the bar, the list of chats, the messages, and what is asked there."""
FIRST_CODE = (
    "app/ui/chat/view.py",
    "app/ui/chat/messages.py",
    "app/ui/chat/context_meter.py",
    "app/ui/welcome",
)
NOT_SAID = {
    "“got …” tells what a check found, not what to do": r"\bgot (\{\}|[\"'(\[]|an? [a-z]+$)",
    "brackets and quotes of a Python list": r"\[\s*['\"]|['\"]\s*\]|\(\s*'|',?\s*\)(?!\S)|\[\]|\(\)(?= |$)",
    "“(none)”": r"\(none\)",
    "words of Gradio": r"Drop File|processing \||Click to Upload",
}
ENGINE_WORDS = re.compile(
    r"logits?|prefill|kv[- ]cache|kernels?|quantis|n-grams?|jacobi|speculat|tensors?|sdpa|dtype|draft tree"
    r"|rows? per|batch|softmax|verification",
    re.IGNORECASE,
)
PYTHON_CODE = re.compile(
    r"\b(SELECT|INSERT|UPDATE|DELETE|CREATE|PRAGMA|WHERE|ALTER|import)\b|^\s*<|=>|\{%|^[\w.]+\(| \| |=\(\)|', '"
)
COMMENT = re.compile(r"\{#.*?#\}|\{%.*?%\}|\{\{.*?\}\}|<[^>]*>", re.DOTALL)
JS_TEXT = re.compile(r"\"((?:[^\"\\\n]|\\.)*)\"|'[^'\n]*'|`((?:[^`\\]|\\.)*)`")
JS_COMMENT = re.compile(r"(^|\s)//.*")


def docstrings(tree: ast.AST) -> set[int]:
    return {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}


def strings_of(path: Path) -> Iterator[str]:
    """The texts of a module but its docstrings; {} stands for what is filled in."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    skipped = docstrings(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            skipped |= {id(part) for part in node.values}
            parts = (part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)
            yield "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skipped:
            yield node.value


@cache
def python_sentences() -> list[tuple[str, str]]:
    """Texts of at least three words that are no code: of messages, labels, and replies of the command line."""
    return [
        (path.relative_to(ROOT).as_posix(), text)
        for path in (*(ROOT / "app").rglob("*.py"), *(ROOT / "tools").rglob("*.py"))
        for text in strings_of(path)
        if len(text.split()) >= 3 and not PYTHON_CODE.search(text)
    ]


def page_sentences() -> Iterator[tuple[str, str]]:
    """Texts of the page's templates and scripts."""
    for path in (UI / "templates").glob("*.html"):
        for text in COMMENT.sub("\n", path.read_text(encoding="utf-8")).splitlines():
            if " " in text.strip():
                yield path.name, text.strip()
    for path in UI.glob("*.js"):
        for found in JS_TEXT.finditer(JS_COMMENT.sub("", path.read_text(encoding="utf-8"))):
            if re.match(r"[A-Z][a-z']* ", text := found[1] or found[2] or ""):
                yield path.name, text


def help_texts(command: Any) -> Iterator[tuple[str, str]]:
    """The help of a command, its options, and its subcommands."""
    texts = [command.help, *(getattr(option, "help", "") for option in command.params)]
    yield from ((f"help of {command.name}", text) for text in texts if text)
    for below in getattr(command, "commands", {}).values():
        yield from help_texts(below)


def all_sentences() -> list[tuple[str, str]]:
    return [*python_sentences(), *page_sentences(), *help_texts(get_command(cli))]


def class_names() -> re.Pattern[str]:
    """The names of the app's own classes that nobody takes for words, such as StoreError."""
    names = {
        node.name
        for path in (ROOT / "app").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef) and re.search(r"[a-z][A-Z]", node.name)
    }
    return re.compile(rf"\b({'|'.join(sorted(names))})\b")


def test_there_are_sentences_of_each_kind() -> None:
    found = all_sentences()
    assert len(found) > 1_500
    places = {place for place, _ in found}
    assert {"app/errors.py", "messages.html", "settings.js", "help of chats"} <= places


@pytest.mark.parametrize(
    "text", ["must be one of plain, got {}", "Choose from ['a', 'b'].", "Drop File Here", "No models (none)"]
)
def test_what_no_sentence_may_say_is_found(text: str) -> None:
    assert any(re.search(pattern, text) for pattern in NOT_SAID.values())


def test_no_sentence_is_a_value_of_python() -> None:
    wrong = [
        f"{place}: {text!r} ({why})"
        for place, text in all_sentences()
        for why, pattern in NOT_SAID.items()
        if re.search(pattern, text)
    ]
    assert not wrong, "\n".join(wrong)


def test_no_sentence_names_a_class() -> None:
    names = class_names()
    candidates = [(place, text) for place, text in all_sentences() if re.search("[a-z][A-Z]", text)]
    wrong = [f"{place}: {text}" for place, text in candidates if names.search(text)]
    assert not wrong, "\n".join(wrong)


def test_the_first_view_needs_no_word_of_the_engine() -> None:
    first = [(place, text) for place, text in page_sentences() if place in FIRST_VIEW]
    first += [(place, text) for place, text in python_sentences() if place.startswith(FIRST_CODE)]
    assert len(first) > 60
    wrong = [f"{place}: {text}" for place, text in first if ENGINE_WORDS.search(text)]
    assert not wrong, "\n".join(wrong)
