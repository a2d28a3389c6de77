"""Whatever reads a person's or a model's text takes four times as long for four times as much, not sixteen times.

Each reader gets each seed of `text_seeds.py` over and over, twice as often from one size to the next. What is
measured is processor time of this thread, not how late it is; what looks too slow is measured again.
"""

import gc
import json
import time
from collections.abc import Callable, Iterable
from itertools import count
from pathlib import Path

import pytest

from app.chat_messages import TokenMark
from app.chats import search as chat_search
from app.chats.importing import parse_archive
from app.commands.console import printable
from app.conversation.source_prompt import quoted
from app.conversation.thinking import split_thought
from app.display_text import title_of
from app.document_messages import Citation, Passage, Sources
from app.documents.chunking import chunks
from app.documents.duplicates import is_new_version
from app.documents.file_import import cleaned
from app.documents.outline import (
    FENCE,
    CodeOutline,
    Line,
    WritingOutline,
    joined_pages,
    marked_heading,
    numbered_heading,
    underlined_heading,
)
from app.documents.reading.encodings import text_of
from app.documents.reading.html import read_html
from app.documents.reading.pdf import _tidied
from app.documents.search.follow_up import self_contained
from app.documents.search.snippets import sentences, snippet
from app.documents.search.terms import content_words, folded, indexed, terms
from app.engine.text import StopFilter
from app.errors import ImportBroken
from app.models_registry.hub.hub_id import parse_hub_id
from app.models_registry.locate import PATH_LIKE
from app.text_normalisation import spaced, without_surrogates
from app.ui.chat.citations import cited_html
from app.ui.chat.code import code_html
from app.ui.chat.formulas import formula_html
from app.ui.chat.live_markdown import LiveMarkdown
from app.ui.chat.markdown import render
from app.ui.chat.plain_text import typed_html
from app.ui.chat.reply_text import LiveReplyText, reply_html
from app.ui.chat.token_colours import coloured_html
from app.ui.file_export import file_html, file_name
from app.ui.live.tokens import visible
from tests.text_seeds import SEEDS, repeated

Read = Callable[[str], object]

SMALLEST, LARGEST, QUICK = 2**10, 2**20, 2**14
NOISE = 0.06
"""Seconds below which nothing is said about how a time grows."""
MOST_GROWTH = 9.0
"""How much longer a text of four times the size may take: linear is 4, the square 16."""
MOST_SECONDS = 100e-6
"""Seconds a character at most: far more than any reader needs on a machine that does something else besides."""


def read_all(parts: Iterable[object]) -> None:
    for _ in parts:
        pass


def in_steps(text: str, take: Callable[[str], object], steps: int = 2) -> None:
    """Show a text as it grows."""
    step = max(len(text) // steps, 1)
    for end in range(step, len(text) + step, step):
        take(text[:end])


def stopped() -> float:
    """A clock by which rendering takes no time, so that nothing is put off."""
    return 0.0


def live_markdown(text: str) -> None:
    in_steps(text, LiveMarkdown(stopped).update)


def live_reply(text: str) -> None:
    in_steps(text, LiveReplyText(stopped).update)


def live_code(text: str) -> None:
    in_steps("```python\n" + text, LiveMarkdown(stopped).update)


def code(language: str) -> Read:
    return lambda text: code_html(text, language)


def cited(text: str) -> None:
    sources = Sources((Citation(1, 1, "Title", 0, 1),))
    cited_html(render(text), 1, sources)


def coloured(text: str) -> None:
    coloured_html(text, [TokenMark(end, "model", end) for end in range(4, len(text), 4)])


def heading(text: str) -> None:
    outline = WritingOutline(1)
    for line in (text, f"# {text}", f"chapter {text}"):
        numbered_heading(line)
        marked_heading(line)
        outline.begins_section(Line(0, line), Line(0, ""))
        outline.enter(Line(0, line))
    underlined_heading("a heading", text)
    joined_pages(f"page 1{text}", f"page 2{text}")


def code_line(text: str) -> None:
    outline = CodeOutline()
    for line in (text, f"class {text}", f"pub({text}", f"static {text}"):
        outline.enter(Line(0, line))


def line_of_writing(text: str) -> None:
    FENCE.match(text)
    read_all(sentences(text))


def passages_of(name: str) -> Read:
    return lambda text: read_all(chunks(iter([without_surrogates(text)]), name))


def focus(text: str) -> None:
    snippet(Passage(1, 1, "a", 0, len(text), text), "what of the word", 500)


def focus_on(text: str) -> None:
    snippet(Passage(1, 1, "a", 0, 600, "One word. " * 60), text, 300)


def stops(text: str) -> None:
    held = StopFilter(["END", text[:20]])
    for at in range(0, len(text), 4):
        held.push(text[at : at + 4])


def library(text: str) -> None:
    for file in (text, f'{{"chats": {text}', json.dumps({"chats": [{"messages": [{"text": text}]}]})):
        try:
            parse_archive(file)
        except ImportBroken:
            continue


def hub_id(text: str) -> None:
    for name in (text, f"org/{text}", f"org/name@{text}", f"https://huggingface.co/org/name/tree/{text}"):
        try:
            parse_hub_id(name)
        except ValueError:  # an address of brackets is no address
            continue
        PATH_LIKE.match(name)


READERS: dict[str, Read] = {
    "title": title_of,
    "reply": reply_html,
    "question": typed_html,
    "live markdown": live_markdown,
    "live reply": live_reply,
    "live code": live_code,
    "formula": lambda text: formula_html(text, text, True),
    "code": code("python"),
    "code in C": code("c"),
    "code in C#": code("csharp"),
    "code in HTML": code("html"),
    "code of an unknown language": lambda text: code_html(text, text),
    "citations": cited,
    "token colours": coloured,
    "thought": split_thought,
    "opened thought": lambda text: split_thought(f"<think>{text}"),
    "quoted passage": quoted,
    "file name": file_name,
    "file": lambda text: file_html(text, text),
    "search": lambda text: (chat_search.fts_query(text), chat_search.excerpt("some words", text)),
    "excerpt": lambda text: chat_search.excerpt(text, "word"),
    "excerpt by itself": lambda text: chat_search.excerpt(text, text),
    "index of chats": spaced,
    "imported file": library,
    "cleaned": cleaned,
    "follow-up": lambda text: self_contained(text, [text, text]),
    "heading": heading,
    "line of code": code_line,
    "line of writing": line_of_writing,
    "passages of writing": passages_of("a.md"),
    "passages of code": passages_of("a.py"),
    "newer form": lambda text: is_new_version(
        [without_surrogates(text)], [without_surrogates(text)], "a.txt"
    ),
    "index of documents": indexed,
    "folded": folded,
    "words of a question": lambda text: (terms(text), content_words(text)),
    "snippet passage": focus,
    "snippet by a question": focus_on,
    "encoding": lambda text: text_of(text.encode("cp1252", "replace") + b"\xe9"),
    "page of a PDF": _tidied,
    "stop strings": stops,
    "hub id": hub_id,
    "printed": printable,
    "argument": without_surrogates,
    "visible tokens": visible,
}
QUICK_SEEDS = (
    "newlines", "tabs and newlines", "camel case", "capitals", "full stops", "opened brackets of formulas",
    "marks of two classes",
)  # fmt: skip
"""What was too slow for some reader before, apart from what has a test of its own below."""

anew = count()


def seconds(read: Read, seed: str, size: int) -> float:
    """Processor time for a text that was never read before: some readers remember."""
    text = f"{repeated(seed, size)}x{next(anew)}"
    gc.disable()  # what it takes depends on everything else that is in memory
    try:
        begin = time.thread_time()
        read(text)
        return time.thread_time() - begin
    finally:
        gc.enable()


def require_linear(read: Read, seed: str, largest: int) -> None:
    """Double a seed; a time that is too long by what was measured once is measured again."""
    times: dict[int, float] = {}
    size = SMALLEST
    while size <= largest:
        times[size] = seconds(read, seed, size)
        if is_too_long(times, size):
            for one in (size, size // 4) if size // 4 in times else (size,):
                times[one] = min(seconds(read, seed, one) for _ in range(3))
        assert not is_too_long(times, size), f"{times}"
        size *= 2


def is_too_long(times: dict[int, float], size: int) -> bool:
    before = max(times.get(size // 4, times[size]), NOISE / MOST_GROWTH)
    return times[size] > MOST_GROWTH * before or times[size] > 1 + MOST_SECONDS * size


@pytest.mark.parametrize("reader", READERS)
def test_four_times_the_text_takes_no_sixteen_times_as_long(reader: str) -> None:
    for seed in QUICK_SEEDS:
        require_linear(READERS[reader], SEEDS[seed], QUICK)


@pytest.mark.thorough
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("reader", READERS)
def test_a_megabyte_of_anything_takes_a_thousand_times_as_long_as_a_kilobyte(reader: str, seed: str) -> None:
    require_linear(READERS[reader], SEEDS[seed], LARGEST)


@pytest.mark.parametrize("seed", ("newlines", "tags", "words", "ideographs"))
def test_a_page_of_the_web_is_heard_in_linear_time(seed: str, tmp_path: Path) -> None:
    file = tmp_path / "page.html"

    def read(text: str) -> None:
        file.write_text(text, encoding="utf-8", errors="replace")
        read_all(read_html(file, "page.html"))

    require_linear(read, SEEDS[seed], QUICK)
