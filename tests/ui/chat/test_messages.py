"""Messages and threads: what is said of a reply, and which actions there are for it."""

import re
from dataclasses import replace

import pytest

from app.ui.chat.messages import ThreadOptions, can_compare, can_continue, thread_html
from app.ui.chat.provenance import coloured_html, provenance_html, thinking_in_words
from app.ui.chat.reply_text import thought_summary
from app.values.chat import ChatVersion, MessageContent, Provenance, StoredMessage, Thread, TokenMark
from app.values.chat_format import Thinking
from app.values.messages import Decoding, Options, Sampling, Statistics, StopReason
from tests.fakes import DEMO

NUMBERS = Statistics(412, 380, 312, 120, 90, time_to_first_token=0.084, seconds=1.9)
PROVENANCE = Provenance(
    DEMO, Options(Sampling(0.7, top_p=0.9, seed=42), Decoding("auto")), "lookahead", "eos", NUMBERS, "1.2.3"
)
ANSWER = StoredMessage(7, "assistant", MessageContent("Yes.", "done", provenance=PROVENANCE), versions=(7,))
QUESTION = StoredMessage(6, "user", MessageContent("Is <it>?", "done"), versions=(6,))
MARKS = (
    TokenMark(1, "model", 0),
    TokenMark(2, "output", 1),
    TokenMark(2, "output", 1),
    TokenMark(4, "model", 1),
)


def message_html(message: StoredMessage, options: ThreadOptions = ThreadOptions()) -> str:  # noqa: B008
    """The message as the only one of its chat."""
    return thread_html(Thread(ChatVersion(), messages=(message,)), options)


def actions(html: str) -> list[str]:
    return re.findall(r'data-do="([a-z-]+)"', html)


def ended(reason: StopReason) -> MessageContent:
    return replace(ANSWER.content, provenance=replace(PROVENANCE, reason=reason))


def test_a_question_shows_what_was_typed_and_can_be_edited() -> None:
    html = message_html(QUESTION)
    assert '<p class="typed" dir="auto">Is &lt;it&gt;?</p>' in html
    assert '<div class="raw" hidden>Is &lt;it&gt;?</div>' in html
    assert actions(html) == ["edit", "fork", "delete"]
    assert 'aria-label="Your message"' in html


def test_an_answer_can_be_written_anew() -> None:
    html = message_html(ANSWER)
    assert 'data-do="regenerate" data-name="7"' in html
    assert 'aria-label="Answer"' in html
    assert actions(html) == ["edit-reply", "regenerate", "fork", "delete"]


@pytest.mark.parametrize(
    ("written", "can"),
    [
        (ended("eos"), False),
        (ended("stop_string"), False),
        (ended("max_tokens"), True),
        (ended("context"), True),
        (MessageContent("Ye", "stopped"), True),
        (MessageContent("Ye", "interrupted"), True),
        (MessageContent("Ye", "failed", "No."), False),
    ],
)
def test_what_ended_before_its_end_can_be_continued(written: MessageContent, can: bool) -> None:
    assert can_continue(written) == can
    assert ("continue" in actions(message_html(replace(ANSWER, content=written)))) == can


@pytest.mark.parametrize(
    ("written", "words"),
    [
        (MessageContent("Ye", "stopped"), "Stopped."),
        (MessageContent("Ye", "failed", "The <card> is full."), "The &lt;card&gt; is full."),
        (MessageContent("Ye", "interrupted"), "Interrupted: Foresight was closed"),
        (ended("max_tokens"), "Reached the max-tokens limit."),
        (ended("context"), "Reached the end of the model&#39;s context."),
        (MessageContent("", "done"), "without any text"),
    ],
)
def test_it_is_said_how_an_answer_ended(written: MessageContent, words: str) -> None:
    html = message_html(replace(ANSWER, content=written))
    assert words in html.split('<p class="ending')[1]


def test_versions_lead_to_their_neighbours() -> None:
    html = message_html(replace(ANSWER, versions=(3, 7, 12)))
    assert "<span>2/3</span>" in html
    assert re.findall(r'data-do="version" data-name="(\d+)"', html) == ["3", "12"]


def test_nothing_can_be_changed_while_a_reply_is_written() -> None:
    html = message_html(replace(ANSWER, versions=(3, 7, 12)), ThreadOptions(is_busy=True))
    assert html.count("disabled") == 6


def test_colours_come_when_they_are_asked_for() -> None:
    message = replace(ANSWER, content=replace(ANSWER.content, marks=MARKS))
    assert "colours" in actions(message_html(message))
    html = message_html(message, ThreadOptions(coloured=frozenset({7})))
    assert "colours" not in actions(html)
    assert '<div class="coloured">' in html
    assert 'data-show="colours"' in html


def test_every_letter_is_coloured_once_and_steps_stay_together() -> None:
    html = coloured_html("a<cde", MARKS).split('<p class="tokens" dir="auto">')[1]
    assert re.sub(r"<[^>]+>", "", html) == "a&lt;cde"
    assert html.count('class="step"') == 2
    assert 'title="model · predicted when the prompt was read">a<' in html
    assert 'title="output · step 1 · 3 tokens in one step">&lt;<' in html
    assert 'title="model · step 1 · 3 tokens in one step">cd<' in html


def test_provenance_says_all_that_is_needed_to_write_a_reply_again() -> None:
    html = provenance_html(PROVENANCE)
    for label, value in {
        "Seed": "42", "Sampling": "temperature 0.7, top-p 0.9", "Decoder": "lookahead (requested: auto)",
        "Tokens per step": "2.60", "Tokens/s": "164.2", "First token": "after 84 ms", "Foresight": "1.2.3",
        "Prompt": "412 tokens, 380 of them kept from before (KV cache)", "Device": DEMO.device,
    }.items():  # fmt: skip
        assert f"<dt>{label}</dt><dd>{value}</dd>" in html


def test_how_much_was_thought_is_told_if_it_was_chosen() -> None:
    chosen = (Thinking(), Thinking("high"), Thinking(budget=1_500), Thinking("on", 300))
    assert [thinking_in_words(thinking) for thinking in chosen] == [
        "", "high", "at most 1,500 tokens", "on, at most 300 tokens",
    ]  # fmt: skip


def test_a_thread_begins_with_what_is_earlier() -> None:
    thread = Thread(ChatVersion(1, 1), messages=(QUESTION, ANSWER), earlier=120)
    html = thread_html(thread)
    assert 'data-do="earlier" data-name="6" data-value="50">Show 50 earlier messages' in html
    assert "Show 1 earlier message<" in thread_html(replace(thread, earlier=1))
    assert html.count("<article") == 2
    assert html.count(" last") == 1


def test_a_thread_shows_from_where_on_the_model_reads() -> None:
    thread = Thread(ChatVersion(1, 1), messages=(QUESTION, ANSWER))
    html = thread_html(thread, ThreadOptions(first_read=7))
    assert html.index("cut-line") < html.index('data-message="7"')
    assert "cut-line" not in thread_html(thread)


@pytest.mark.parametrize(
    ("seconds", "words"), [(3.21, "Thought for 3.2 s"), (0.0, "Thought"), (125.0, "Thought for 2 min 5 s")]
)
def test_a_thought_says_how_long_it_took(seconds: float, words: str) -> None:
    assert thought_summary(seconds, is_thinking=False) == words


def test_only_a_whole_reply_of_a_model_that_drafts_is_compared() -> None:
    whole = replace(ended("eos"), marks=MARKS)
    assert can_compare(whole)
    made = whole.provenance
    assert made
    plain = replace(made, decoder="plain", options=Options(decoding=Decoding("plain")))
    assert can_compare(replace(whole, provenance=plain))
    continued = replace(made, statistics=replace(made.statistics, steps=0))
    for refused in (
        replace(made, decoder="plain"),
        continued,
        replace(made, model=replace(DEMO, server="x")),
    ):
        assert not can_compare(replace(whole, provenance=refused))
    assert not can_compare(replace(whole, state="stopped")) and not can_compare(ended("eos"))


def test_the_row_below_a_reply_has_three_buttons_and_a_menu_with_the_rest() -> None:
    content = replace(ended("max_tokens"), marks=MARKS)
    html = str(message_html(replace(ANSWER, content=content)))
    row, menu = html.split("<footer>")[1].split("</footer>")[0].split("<details")
    assert re.findall(r">([^<>]+)</button>", row) == ["Copy", "Regenerate", "Continue"]
    labels = re.findall(r">([^<>]+)</button>", menu)
    assert labels == [
        "Write again without lookahead",
        "Details",
        "Colour by origin",
        "Edit",
        "Fork into a new chat",
        "Delete",
    ]
