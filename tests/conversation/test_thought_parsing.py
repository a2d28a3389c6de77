"""Thoughts are told from answers, and how long they took."""

from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.conversation.thought_parsing import SplitReply, ThoughtClock, split_thought, without_thoughts
from app.values.chat import MessageContent
from app.values.messages import Message, Piece, Statistics

NOTHING = MessageContent()
MENTIONED = "The tag `</think>` ends it."


@pytest.mark.parametrize(
    ("text", "spoken"),
    [
        ("Yes.", SplitReply("", "Yes.")),
        ("<think>\nhm\n</think>\n\nYes.", SplitReply("hm", "Yes.")),
        ("<think>hm</think>Yes.", SplitReply("hm", "Yes.")),
        ("\n<think>hm", SplitReply("hm", "", True)),
        ("<thi", SplitReply()),
        ("hm\n</think>\nYes.", SplitReply("hm", "Yes.")),
        (MENTIONED, SplitReply("", MENTIONED)),
        (f"{MENTIONED}\n</think>\nYes.", SplitReply(MENTIONED, "Yes.")),
        ("", SplitReply()),
    ],
)
def test_thoughts_are_told_from_answers(text: str, spoken: SplitReply) -> None:
    assert split_thought(text) == spoken


def clocked(*texts: str, before: MessageContent = NOTHING) -> float:
    """The seconds of a thought whose pieces come a second apart."""
    clock = ThoughtClock(before)
    for second, text in enumerate(texts, start=1):
        clock.take(Piece(text, (1,), ("model",), Statistics(seconds=second)))
    return clock.seconds(before.text + "".join(texts))


def test_a_thought_takes_until_its_end_came() -> None:
    assert clocked("<think>", "hm", "</think>", "Yes.") == 3
    assert clocked("hm\n", "</th", "ink>", "\nYes.") == 3


def test_a_tag_that_is_mentioned_ends_no_thought() -> None:
    assert clocked("The tag `", "</think>", "` ends it.") == 0
    assert clocked("The tag `</think>`", " ends it.", "\n</think>\n", "Yes.") == 3


def test_a_thought_that_goes_on_took_the_time_so_far() -> None:
    assert clocked("<think>", "hm") == 2


def test_a_thought_that_was_stopped_and_continued_took_the_time_of_both() -> None:
    before = MessageContent("<think>hm", thought=7.5)
    assert clocked(" so", "</think>", "Yes.", before=before) == 9.5
    assert clocked(" so", before=before) == 8.5


def test_a_reply_that_goes_on_keeps_what_its_thought_took() -> None:
    before = MessageContent("<think>hm</think>Yes", thought=7.5)
    assert clocked(" and", " </think> no.", before=before) == 7.5
    assert clocked("ink>Yes", before=MessageContent("<think>hm</th", thought=2)) == 3


@given(st.lists(st.sampled_from(["<think>", "</think>", "</th", "ink>", "\n", "hm ", "`"]), max_size=8))
def test_pieces_change_nothing_but_when(pieces: list[str]) -> None:
    """A thought that ended has the second of the piece that completed the last end tag before the answer."""
    text, seconds = "".join(pieces), clocked(*pieces)
    spoken = split_thought(text)
    ended = bool(spoken.thought) and not spoken.is_thinking
    counts = [so_far.count("</think>") for so_far in accumulate(pieces)]
    before = text.removesuffix(spoken.answer) if spoken.answer else text
    wanted = before.count("</think>")
    so_far = len(pieces) if spoken.is_thinking else 0
    assert seconds == (next(at for at, count in enumerate(counts, 1) if count >= wanted) if ended else so_far)


def test_earlier_answers_are_sent_without_their_thoughts() -> None:
    messages = (
        Message("user", "Why <think>x</think>?"),
        Message("assistant", "<think>\nHm.\n</think>\n\nSo."),
        Message("assistant", "<think>\nHm."),
    )
    assert [message.content for message in without_thoughts(messages)] == [
        "Why <think>x</think>?",
        "So.",
        "<think>\nHm.",
    ]
