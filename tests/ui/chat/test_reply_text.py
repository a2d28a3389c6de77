"""Markers in an answer become buttons where they stand for a source, and nowhere else."""

import re
from dataclasses import replace

import pytest

from app.ui.chat.messages import thread_html
from app.ui.chat.reply_text import budget_in_words, calls_html, doubt_words, sources_html
from app.values.chat import ChatVersion, MessageContent, StoredMessage, Thread
from app.values.document import LITTLE_IN_COMMON, Citation, Sources, TokenBudget
from app.values.tools import CalledTool

EVIL = '"><script>alert(1)</script>'
SOURCES = Sources(
    "rent", (Citation(1, 5, "Lease", 10, 40, 7.25, 0.61), Citation(2, 6, EVIL, 0, 9)), left_out=3,
    budget=TokenBudget(20, 390, 80, 14, 256, 1024),
)  # fmt: skip


def numbers(html: str) -> list[str]:
    return re.findall(r'class="cite" data-do="source" data-name="7" data-value="(\d+)', html)


def drawn(text: str, sources: Sources | None = SOURCES) -> str:
    answer = StoredMessage(7, "assistant", MessageContent(text, "done", sources=sources), versions=(7,))
    return thread_html(Thread(ChatVersion(), messages=(answer,)))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("It is 1,200 [1].", ["1"]),
        ("Both [1][2], and again [1].", ["1", "2", "1"]),
        ("- listed [2]\n- **bold [1]**", ["2", "1"]),
        ("There is no ninth [9] and no [x] or [1 2].", []),
        ("`x[1]` is code, [2] is not", ["2"]),
        ("```py\nx[1]\n```\n\nBut [1] is.", ["1"]),
        ("A formula $x[1]$ and [1]", ["1"]),
        ("[1](https://example.com) is a link", []),
        ("<think>\nfrom [1]\n</think>\n\nIt is [2].", ["1", "2"]),
    ],
)
def test_numbers_that_stand_for_a_source_are_buttons(text: str, found: list[str]) -> None:
    assert numbers(drawn(text)) == found


@pytest.mark.parametrize(
    ("text", "places", "doubted"),
    [
        ("It is 1,200 [1]. Cats may stay [2].", (1,), ["2"]),
        ("Cats [1], `x[1]`, [one](https://example.com) [1].", (1,), ["1"]),
        ("<think>\nfrom [1]\n</think>\n\nIt is [2].", (0,), ["2"]),
        ("Nobody knows [9], but [1] does.", (1,), ["1"]),
        ("It is [1].", (), []),
    ],
)
def test_a_citation_that_its_source_does_not_support_has_a_question_mark_and_says_why(
    text: str, places: tuple[int, ...], doubted: list[str]
) -> None:
    html = drawn(text, replace(SOURCES, unsupported=places))
    marked = re.findall(r'class="cite unsupported" data-do="source" [^>]*>(\d+)\?<', html)
    assert marked == doubted
    assert html.count(f'. {LITTLE_IN_COMMON}"') == 2 * len(doubted), "in the name and in the tooltip"
    words = doubt_words(replace(SOURCES, unsupported=places))
    assert (f'<p class="doubt" role="note">{words}</p>' in html) == bool(doubted)


def test_a_doubt_says_which_number_or_name_is_not_in_the_source() -> None:
    doubtful = replace(SOURCES, unsupported=(0, 2), missing=("7:15", "Anna, 1850"))
    html = drawn("At 7:15 [1]. It is [1]. Anna, 1850 [2].", doubtful)
    assert 'title="Source 1: Lease. 7:15 is not in the source."' in html
    assert "marked with “?”. 7:15 is not in the source. Anna, 1850 are not in the source. Check" in html
    assert re.findall(r'data-value="([\d.]+)"[^>]*>\d', html)[:3] == ["1.0", "1.1", "2.2"]


def test_below_an_answer_stand_its_sources_and_what_the_prompt_was_made_of() -> None:
    html = sources_html(7, SOURCES)
    assert html.count('data-do="source"') == 2
    assert "<b>1</b> <bdi>Lease</bdi>" in html
    assert (
        "Prompt: system 20, sources 390, chat 80, question 14; 256 reserved for the reply; context 1,024 tokens"
        " · 3 found passages did not fit"
    ) in html


def test_an_estimate_says_so_and_names_no_context() -> None:
    assert budget_in_words(TokenBudget(20, 390, 0, 14, 256)) == (
        "Estimated prompt: system 20, sources 390, question 14 tokens"
    )


def test_a_title_is_nothing_but_text() -> None:
    assert "<script" not in drawn("It is [2].")


def test_arguments_cannot_be_shown_in_another_order_than_they_are_sent() -> None:
    call = CalledTool("1", "Files", "delete", '{"path": "ü\u202egpj.exe\\u2066"}', 0, 1)
    html = calls_html([call], is_live=True)
    assert "ü\\u202egpj.exe\\u2066" in html and "\u202e" not in html
