"""Texts that once took the square of their length: a title of newlines, C# that is no C#, a pile of marks."""

import json
from collections.abc import Callable
from itertools import repeat

import pytest

from app.chats.chats import Chats
from app.chats.message_table import MessageTree
from app.chats.search import excerpt, fts_query
from app.documents.chunking import CodeOutline, Line, WritingOutline, chunks, marked_heading
from app.documents.search.snippets import sentences
from app.documents.search.terms import indexed, terms
from app.ui.chat.code import coloured
from app.ui.chat.live_markdown import LiveMarkdown
from app.ui.chat.markdown import render
from app.ui.chat.plain_text import PLAIN_BLOCK, RENDERED, TOO_LONG, typed_html
from app.ui.chat.reply_text import LiveReplyText
from app.values.display_text import title_of
from app.values.text_normalisation import normalized, spaced
from tests.chats.conftest import chats, database
from tests.linear_time import require_linear, seconds

__all__ = ["chats", "database"]


def path_below(title: str) -> str:
    outline = WritingOutline()
    outline.begins_section(Line(0, f"# {title}"), Line(0, ""))
    outline.enter(Line(0, f"# {title}"))
    return outline.path(0, title)


def live_formula(text: str) -> None:
    live = LiveMarkdown(lambda: 0.0)
    live.update(f"{text}\\[ a")


FROZEN: dict[str, tuple[Callable[[str], object], str]] = {
    "a title of newlines": (title_of, "\n"),
    "a title of tabs and newlines": (title_of, "\t\n"),
    "formulas that only begin": (render, "\\["),
    "a paragraph of brackets": (render, "["),
    "a paragraph of pictures": (render, "!["),
    "newlines before a formula that is written": (live_formula, "\n"),
    "stops that end no sentence": (lambda text: list(sentences(text)), "."),
    "tabs behind a heading": (lambda text: marked_heading(f"# a{text}"), "\t"),
    "brackets in a heading": (path_below, "["),
    "capitals": (indexed, "A"),
    "capitals of a question": (terms, "A"),
    "marks of two classes on a letter": (spaced, "\u0327\u0301"),
    "marks of two classes in what is found": (lambda text: excerpt(text, "word"), "\u0327\u0301"),
    "a search for many words": (lambda text: excerpt(text, text), "word1 words2 "),
    "an address of a link in no known script": (lambda text: render(f"<http://{text}>"), "\u00fc"),
}


@pytest.mark.parametrize("name", FROZEN)
def test_it_takes_time_in_proportion(name: str) -> None:
    read, seed = FROZEN[name]
    require_linear(read, seed, 2**15)


@pytest.mark.parametrize(("language", "seed"), [("c", "\n"), ("c", " "), ("csharp", "a\n"), ("java", "a\n")])
def test_code_that_a_lexer_takes_minutes_for_keeps_one_colour(language: str, seed: str) -> None:
    code = (seed * 20_000)[:19_000]
    assert seconds(lambda text: coloured(text, language), code, len(code)) < 2
    assert coloured(code, language).count("a") >= code.count("a")


def test_code_of_a_usual_kind_keeps_its_colours() -> None:
    code = "def f(x):\n    return x + 1  # one more\n\n\n" * 400
    html = coloured(code, "python")
    assert html.count('<span class="k">return</span>') == 400


def test_definitions_far_within_others_cost_no_more() -> None:
    deep = "".join(f"{' ' * depth}def f{depth}():\n" for depth in range(100))
    outline = CodeOutline()
    for at, line in enumerate(deep.splitlines()):
        outline.enter(Line(at, line))
    assert 10 < len(outline.path(99, "x").split(" \u203a ")) < 20
    heads = [passage.heading for passage in chunks([deep, "\n" * 3_000, "x"], "a.py")]
    assert max(map(len, heads)) < 2_000


def test_a_letter_keeps_the_marks_that_can_be_read() -> None:
    assert normalized("NFC", "e\u0301") == "\u00e9"
    assert len(normalized("NFD", "e" + "\u0301\u0327" * 1000)) == 31
    assert normalized("NFC", "a" + "\u0301" * 40 + "b").endswith("b")


def test_a_long_search_asks_for_its_first_words() -> None:
    asked = fts_query("word " * 100_000)
    assert 100 < asked.count('"word"') < 300


def test_a_file_of_chats_of_one_moment_is_known_when_it_comes_again(chats: Chats) -> None:
    seen = [{"messages": [{"role": "user", "id": 1, "text": f"chat {number}"}]} for number in range(300)]
    file = json.dumps({"chats": seen})
    assert chats.import_json(file).new == 300
    reads: list[str] = []
    with chats.database.reading() as connection:
        connection.set_trace_callback(reads.append)
    assert chats.import_json(file).new == 0
    assert sum("FROM message" in one for one in reads) < 10


def test_thousands_of_siblings_share_one_tuple() -> None:
    tree = MessageTree(zip(range(1, 5_000), repeat(0)))
    assert tree.versions(1) is tree.versions(4_999)


# What is very long is shown as it was written.


def test_the_rest_of_a_very_long_text_is_plain_and_a_sentence_says_so() -> None:
    text = ("A **bold** word. " * 100 + "\n\n") * 100
    html = render(text)
    assert html.count(TOO_LONG) == 1
    head, _, rest = html.partition(TOO_LONG)
    assert "<strong>bold</strong>" in head and "**bold**" not in head
    assert "<strong>" not in rest and rest.startswith('<div class="plain" dir="auto">A **bold** word.')
    assert head.count("bold") + rest.count("bold") == 10_000


def test_a_text_that_is_not_so_long_is_rendered_whole() -> None:
    assert TOO_LONG not in render(("word " * 200 + "\n\n") * 90)


@pytest.mark.parametrize("seed", ["word " * 200 + "\n\n", "word ", "```python\nx = 1\n"])
def test_a_very_long_text_that_grows_ends_as_it_would_at_once(seed: str) -> None:
    live, text = LiveMarkdown(lambda: 0.0), seed * (RENDERED * 2 // len(seed))
    for end in (RENDERED, RENDERED + 1, RENDERED + 2 * PLAIN_BLOCK, len(text)):
        live.update(text[:end])
    live.update(text, is_done=True)
    assert live.html == render(text)


def test_what_is_plain_and_settled_does_not_change() -> None:
    live, text = LiveMarkdown(lambda: 0.0), "word " * RENDERED
    live.update(text[: 2 * RENDERED])
    before = live.blocks
    live.update(text[: 2 * RENDERED + PLAIN_BLOCK])
    assert live.blocks[: len(before) - 1] == before[:-1]


def test_a_thought_that_has_ended_is_not_rendered_with_every_word_of_the_answer() -> None:
    live = LiveMarkdown(lambda: 0.0)
    live.update("a\n\nb", is_done=True)
    before = live.blocks[-1]
    live.update("a\n\nb", is_done=True)
    assert live.blocks[-1] is before


def test_a_reply_says_when_its_next_look_takes_long() -> None:
    live = LiveReplyText()
    live.update("Some words")
    assert not live.is_slow
    live.update("Some words" + "\n- item" * 2_000)
    assert live.is_slow


def test_a_very_long_question_is_shown_as_it_was_typed() -> None:
    text = "```python\nx = 1\n```\nAnd <this>?\n" * 30_000
    html = typed_html(text)
    assert html.count("x = 1") >= 1 and html.count("And &lt;this&gt;?") == 30_000
    assert html.count('<div class="code">') < 5_000
