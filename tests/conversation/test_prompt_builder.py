"""What of a chat fits: a tokenizer that counts words, and a template that costs two tokens a message."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.conversation.prompt_builder import ChatTooLong, ContextFit, fit_context, reply_reserve
from app.values.messages import Message


def count(prompt: Sequence[Message]) -> int:
    return sum(2 + len(message.content.split()) for message in prompt)


def chat(*lengths: int, system: int = 0) -> list[Message]:
    """Messages of so many words, by turns of user and assistant."""
    head = [Message("system", "x " * system)] if system else []
    return [
        *head,
        *(
            Message("user" if place % 2 == 0 else "assistant", "x " * length)
            for place, length in enumerate(lengths)
        ),
    ]


def test_the_oldest_turns_go_first_and_whole_turns_at_once() -> None:
    found = fit_context(chat(38, 8, 28, 8, 18), count, context=100, reply=25)
    assert not found.fits
    assert (found.tokens, found.left_out, found.kept_tokens) == (110, 2, 60)


def test_the_system_prompt_stays_whatever_goes() -> None:
    found = fit_context(chat(38, 8, 28, 8, 18, system=10), count, context=100, reply=25)
    assert (found.left_out, found.kept_tokens) == (2, 72)


def test_a_question_that_is_too_long_by_itself_keeps_only_itself() -> None:
    found = fit_context(chat(5, 5, 200), count, context=100, reply=25)
    assert (found.left_out, found.kept_tokens) == (2, 202)
    assert not found.can_be_shorter


def test_a_shorter_reply_is_a_choice_while_some_words_of_it_fit() -> None:
    assert fit_context(chat(80), count, context=100, reply=25).can_be_shorter
    assert not fit_context(chat(90), count, context=100, reply=25).can_be_shorter


@pytest.mark.parametrize(
    ("asked", "context", "kept"),
    [(512, 1024, 256), (100, 1024, 100), (512, 131_072, 512), (0, 1024, 256), (0, 131_072, 4096)],
)
def test_a_reply_reserves_what_it_asks_for_but_no_more_than_a_quarter(
    asked: int, context: int, kept: int
) -> None:
    assert reply_reserve(asked, context) == kept


def test_the_sentence_says_how_long_the_chat_is_and_what_to_do() -> None:
    sentence = str(ChatTooLong(fit_context(chat(200), count, context=100, reply=25)))
    assert "202 tokens" in sentence
    assert "100" in sentence


@given(st.lists(st.integers(0, 40), min_size=1, max_size=21).filter(lambda lengths: len(lengths) % 2 == 1))
def test_no_shorter_cut_would_have_fitted(lengths: list[int]) -> None:
    messages = chat(*lengths)
    found = fit_context(messages, count, context=100, reply=25)
    assert found.kept_tokens == count(messages[found.left_out :])
    assert messages[found.left_out].role == "user"
    if found.left_out:
        assert count(messages[found.left_out - 2 :]) + 25 > 100


def turn_by_turn(messages: list[Message], context: int, reply: int) -> ContextFit:
    """The same, found by trying every question in turn."""
    head = 1 if messages[0].role == "system" else 0
    tokens = count(messages)
    if tokens + reply <= context:
        return ContextFit(tokens, context, reply, 0, tokens)
    starts = [place for place in range(head + 1, len(messages)) if messages[place].role == "user"]
    kept = {start: count([*messages[:head], *messages[start:]]) for start in starts or [head]}
    start = next((start for start in kept if kept[start] + reply <= context), max(kept))
    return ContextFit(tokens, context, reply, start - head, kept[start])


@given(st.lists(st.integers(0, 40), min_size=1, max_size=60), st.integers(0, 9), st.integers(30, 300))
def test_the_cut_is_the_one_that_trying_every_turn_finds(
    lengths: list[int], system: int, context: int
) -> None:
    messages = chat(*lengths, system=system)
    assert fit_context(messages, count, context, reply=25) == turn_by_turn(messages, context, reply=25)


def test_a_long_chat_is_counted_a_few_times_and_hardly_beyond_its_context() -> None:
    counted: list[int] = []

    def counting(prompt: Sequence[Message]) -> int:
        counted.append(len(prompt))
        return count(prompt)

    found = fit_context(chat(*[8] * 8000), counting, context=10_000, reply=500)
    assert found.left_out == 7050
    assert len(counted) < 25
    assert counted[0] == 8000 and max(counted[1:]) < 2 * (8000 - found.left_out)
