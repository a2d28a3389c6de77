"""Counting and showing tokens beside the worker: what `encode` makes, from any thread."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from app.engine.text.prompt import PromptTokenizer, encode
from app.engine.text.reader import FAR, CachedTokenReader
from app.errors import BadOption
from app.values.messages import Message
from tests.engine.tiny import DEMO, STORIES

CHAT = (Message("system", "Be brief."), Message("user", "Hello"))
HALF = "\N{REPLACEMENT CHARACTER}"
PIECES = st.sampled_from([" ", "\n", "a", "<|im_end|>", "<|im_start|>", "<|im", "|>"])
CONTENTS = st.text(max_size=20) | st.lists(PIECES, max_size=8).map("".join)
MESSAGES = st.builds(Message, st.sampled_from(["user", "assistant", "system"]), CONTENTS)


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerBase:
    found: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(DEMO)
    return found


def test_without_a_model_there_is_nothing() -> None:
    reader = CachedTokenReader()
    assert (reader.context, reader.count(CHAT), reader.texts([1, 2])) == (0, 0, ("", ""))


@given(chat=st.lists(MESSAGES, max_size=4).map(lambda behind: (*CHAT, *behind)))
def test_a_chat_takes_as_many_tokens_as_are_sent(
    tokenizer: PreTrainedTokenizerBase, chat: tuple[Message, ...]
) -> None:
    assert PromptTokenizer(tokenizer, 1024).reader().count(chat) == len(encode(tokenizer, chat, 10_000))


def test_no_messages_take_no_tokens(tokenizer: PreTrainedTokenizerBase) -> None:
    assert PromptTokenizer(tokenizer, 1024).reader().count(()) == 0


def test_a_chat_beyond_the_context_is_counted_all_the_same(tokenizer: PreTrainedTokenizerBase) -> None:
    reader = PromptTokenizer(tokenizer, 8).reader()
    assert (reader.context, reader.count(CHAT) > 8) == (8, True)


def test_a_chat_that_is_far_too_long_is_told_by_the_fewest_tokens_that_it_can_have(
    tokenizer: PreTrainedTokenizerBase,
) -> None:
    reader = PromptTokenizer(tokenizer, 1024).reader()
    chats = [(Message("user", " word" * count),) for count in (900, 3_000, 200_000)]
    exact = [len(encode(tokenizer, chat, 1_000_000)) for chat in chats]
    counted = [reader.count(chat) for chat in chats]
    assert counted[:2] == exact[:2]
    assert FAR * 1024 < counted[2] < exact[2]


def test_a_chat_that_the_template_refuses_is_refused_in_words(tokenizer: PreTrainedTokenizerBase) -> None:
    tokenizer = AutoTokenizer.from_pretrained(DEMO)
    tokenizer.chat_template = "{{ raise_exception('No system messages') }}"
    with pytest.raises(BadOption, match="refuses this chat"):
        PromptTokenizer(tokenizer, 1024).reader().count(CHAT)


def test_each_token_is_shown_by_itself_with_halves_and_special_ones(
    tokenizer: PreTrainedTokenizerBase,
) -> None:
    ids = tokenizer("upon 漢<|im_end|>", add_special_tokens=False).input_ids
    assert PromptTokenizer(tokenizer, 1024).reader().texts(ids)[-5:] == (" ", HALF, HALF, HALF, "<|im_end|>")


@pytest.mark.shared
def test_the_space_before_a_word_is_shown_where_tokenizers_leave_it_out() -> None:
    if not STORIES.exists():
        pytest.skip("stories260K is not there")
    tokenizer = AutoTokenizer.from_pretrained(STORIES)
    ids = tokenizer("Once upon a time", add_special_tokens=False).input_ids
    assert PromptTokenizer(tokenizer, 1024).reader().texts(ids) == (" Once", " upon", " a", " time")


def test_a_chat_is_counted_once() -> None:
    counted: list[tuple[Message, ...]] = []
    reader = CachedTokenReader(8, lambda prompt: counted.append(prompt) or 5)  # type: ignore[func-returns-value]
    assert [reader.count(CHAT), reader.count(tuple(CHAT))] == [5, 5]
    assert counted == [CHAT]


def test_many_threads_read_while_the_own_tokenizer_is_used(tokenizer: PreTrainedTokenizerBase) -> None:
    reader = PromptTokenizer(tokenizer, 1024).reader()
    chats = [(Message("user", f"{number} " * (number % 17 + 1)),) for number in range(120)]
    expected = [len(encode(tokenizer, chat, 10_000)) for chat in chats]
    with ThreadPoolExecutor(4) as threads:
        counted = threads.map(reader.count, chats)
        own = [len(encode(tokenizer, chat, 10_000)) for chat in chats]
        assert list(counted) == expected == own
