"""Counting and showing tokens beside the worker, as `encode` makes them, on any thread; no bound is too high."""

import re
import sys
import unicodedata
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers
from transformers import AutoTokenizer, PreTrainedTokenizerBase, PreTrainedTokenizerFast

from app.engine.text.prompt import RequestTokenizer, encode
from app.engine.text.token_counter import BYTES_OF_NFC, FAR, SHORT, CachedTokenReader, FewestTokens, in_parts
from app.errors import BadOption
from app.values.messages import Message
from tests.engine.tiny import DEMO, STORIES
from tests.engine.tokenizers_made import bytes_of_words, in_small_letters, with_a_space_before
from tests.tiers import examples

CHAT = (Message("system", "Be brief."), Message("user", "Hello"))
HALF = "\N{REPLACEMENT CHARACTER}"
CONTROLS = st.sampled_from([" ", "\n", "a", "<|im_end|>", "<|im_start|>", "<|im", "|>"])
CONTENTS = st.text(max_size=20) | st.lists(CONTROLS, max_size=8).map("".join)
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
    assert RequestTokenizer(tokenizer, 1024).reader().count(chat) == len(encode(tokenizer, chat, 10_000))


def test_a_chat_beyond_the_context_is_counted_all_the_same(tokenizer: PreTrainedTokenizerBase) -> None:
    reader = RequestTokenizer(tokenizer, 8).reader()
    assert (reader.context, reader.count(CHAT) > 8) == (8, True)


def test_a_chat_that_is_far_too_long_is_told_by_the_fewest_tokens_that_it_can_have(
    tokenizer: PreTrainedTokenizerBase,
) -> None:
    reader = RequestTokenizer(tokenizer, 1024).reader()
    chats = [(Message("user", " word" * count),) for count in (900, 3_000, 200_000)]
    exact = [len(encode(tokenizer, chat, 1_000_000)) for chat in chats]
    counted = [reader.count(chat) for chat in chats]
    assert counted[:2] == exact[:2]
    assert FAR * 1024 < counted[2] < exact[2]


def test_a_chat_that_the_template_refuses_is_refused_in_words(tokenizer: PreTrainedTokenizerBase) -> None:
    tokenizer = AutoTokenizer.from_pretrained(DEMO)
    tokenizer.chat_template = "{{ raise_exception('No system messages') }}"
    with pytest.raises(BadOption, match="refuses this chat"):
        RequestTokenizer(tokenizer, 1024).reader().count(CHAT)


def test_each_token_is_shown_by_itself_with_halves_and_special_ones(
    tokenizer: PreTrainedTokenizerBase,
) -> None:
    ids = tokenizer("upon 漢<|im_end|>", add_special_tokens=False).input_ids
    assert RequestTokenizer(tokenizer, 1024).reader().texts(ids)[-5:] == (" ", HALF, HALF, HALF, "<|im_end|>")


@pytest.mark.shared
def test_the_space_before_a_word_is_shown_where_tokenizers_leave_it_out() -> None:
    if not STORIES.exists():
        pytest.skip("stories260K is not there")
    tokenizer = AutoTokenizer.from_pretrained(STORIES)
    ids = tokenizer("Once upon a time", add_special_tokens=False).input_ids
    assert RequestTokenizer(tokenizer, 1024).reader().texts(ids) == (" Once", " upon", " a", " time")


def test_a_chat_is_counted_once() -> None:
    counted: list[tuple[Message, ...]] = []
    reader = CachedTokenReader(8, lambda prompt, *_: counted.append(prompt) or 5)  # type: ignore[func-returns-value]
    assert [reader.count(CHAT), reader.count(tuple(CHAT))] == [5, 5]
    assert counted == [CHAT]


def test_many_threads_read_while_the_own_tokenizer_is_used(tokenizer: PreTrainedTokenizerBase) -> None:
    reader = RequestTokenizer(tokenizer, 1024).reader()
    chats = [(Message("user", f"{number} " * (number % 17 + 1)),) for number in range(120)]
    expected = [len(encode(tokenizer, chat, 10_000)) for chat in chats]
    with ThreadPoolExecutor(4) as threads:
        counted = threads.map(reader.count, chats)
        own = [len(encode(tokenizer, chat, 10_000)) for chat in chats]
        assert list(counted) == expected == own


BORDERS = ["<user>", "<end>"]


def words(text: str) -> int:
    """One token for each special one, one for each word, one for each run of spaces."""
    return len(re.findall(r"<user>|<end>|\w+|\W", text))


def words_with_a_beginning(text: str) -> int:
    """A tokenizer that puts a token where a text begins."""
    return words(text) + 1


def test_only_what_is_new_of_a_text_is_read() -> None:
    read: list[str] = []

    def count(text: str) -> int:
        read.append(text)
        return words(text)

    counted = in_parts(count, BORDERS)
    first = "<user>Hi you<end><user>How a"
    assert counted(first) == words(first)
    read.clear()
    assert counted(first + "re") == words(first + "re")
    assert read == ["How are"]


def test_a_tokenizer_that_reads_beginnings_unlike_the_rest_reads_all_at_once() -> None:
    counted = in_parts(words_with_a_beginning, BORDERS)
    text = "<user>Hi you<end><user>How are"
    assert counted(text) == words_with_a_beginning(text)


def test_a_longer_special_token_is_not_cut_by_a_shorter_one_that_begins_it() -> None:
    def count(text: str) -> int:
        return len(re.findall(r"<s2>|<s|.", text))

    assert in_parts(count, ["<s", "<s2>"])("a<s2>b<sc") == 5


LETTERS = pre_tokenizers.ByteLevel.alphabet()
BYTES = pre_tokenizers.ByteLevel(add_prefix_space=False)


def demo() -> PreTrainedTokenizerBase:
    found: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(DEMO)
    return found


def bytewise(**changes: object) -> PreTrainedTokenizerFast:
    """Byte-level BPE of words, changed in one part."""
    made = Tokenizer.from_str(bytes_of_words().backend_tokenizer.to_str())
    for name, part in changes.items():
        setattr(made, name, part)
    return PreTrainedTokenizerFast(tokenizer_object=made)


def composing() -> PreTrainedTokenizerFast:
    return bytewise(normalizer=normalizers.NFC())


def without_some_bytes() -> PreTrainedTokenizerFast:
    """As SmolLM2's, which leaves out the bytes that it was not trained on."""
    known = {name: number for number, name in enumerate(name for name in LETTERS if name not in "xyÃ")}
    return bytewise(model=models.BPE(known | {"aa": 300}, [("a", "a")]))


def pieces(falls_back: bool) -> PreTrainedTokenizerFast:
    """Unigram, as SentencePiece's: with bytes for what it does not know, or one token for a row of that."""
    names = ["<unk>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁", "▁hello", "▁world", "a", "aa"]
    made = Tokenizer(
        models.Unigram([(name, -float(place)) for place, name in enumerate(names)], 0, falls_back)
    )
    made.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    return PreTrainedTokenizerFast(tokenizer_object=made)


def pieces_and_bytes() -> PreTrainedTokenizerFast:
    return pieces(falls_back=True)


def pieces_alone() -> PreTrainedTokenizerFast:
    return pieces(falls_back=False)


def removing_spaces() -> PreTrainedTokenizerFast:
    return bytewise(pre_tokenizer=pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), BYTES]))


def removing_parts() -> PreTrainedTokenizerFast:
    return bytewise(pre_tokenizer=pre_tokenizers.Sequence([pre_tokenizers.Split("a", "removed"), BYTES]))


def shortening() -> PreTrainedTokenizerFast:
    return bytewise(normalizer=normalizers.Replace(Regex(" +"), " "))


def fusing() -> PreTrainedTokenizerFast:
    """One token of whatever it does not know."""
    known = {name: number for number, name in enumerate(["<unk>", *LETTERS[:50]])}
    return bytewise(model=models.BPE(known, [], unk_token="<unk>", fuse_unk=True))


def greedy() -> PreTrainedTokenizerBase:
    """Its control token takes all spaces behind it."""
    made = bytewise()
    made.add_tokens([AddedToken("<|end|>", rstrip=True, special=True)])
    return made


KNOWN = [demo, bytes_of_words, with_a_space_before, composing, without_some_bytes, pieces_and_bytes]
UNKNOWN = [in_small_letters, removing_spaces, removing_parts, shortening, fusing, greedy, pieces_alone]
PIECES = st.sampled_from(
    [" ", "\n", "a", "aa", "word", "1", "x", "é", "e\u0301", "\u1112\u1161\u11ab", "한", "🙂", "\x1d", "<|im_end|>"]
)  # fmt: skip
SEEDS = st.text(min_size=1, max_size=12) | st.lists(PIECES, min_size=1, max_size=8).map("".join)


def long(seed: str) -> str:
    return seed * (2 * SHORT // len(seed))


def count(tokenizer: PreTrainedTokenizerBase, text: str) -> int:
    return len(tokenizer(text, add_special_tokens=False).input_ids)


@pytest.mark.parametrize("make", KNOWN + UNKNOWN)
@given(seed=SEEDS)
@examples(12)
def test_no_text_has_fewer_tokens(make: Callable[[], PreTrainedTokenizerBase], seed: str) -> None:
    tokenizer, text = make(), long(seed)
    assert FewestTokens(tokenizer).of(text) <= count(tokenizer, text)


@pytest.mark.parametrize("make", KNOWN)
def test_the_longest_tokens_do_not_exceed_it(make: Callable[[], PreTrainedTokenizerBase]) -> None:
    tokenizer = make()
    fewest, names = FewestTokens(tokenizer), sorted(tokenizer.get_vocab(), key=len)[-20:]
    for name in names:
        text = long(str(tokenizer.decode([tokenizer.get_vocab()[name]])) or "a")
        assert fewest.of(text) <= count(tokenizer, text)


@pytest.mark.parametrize("make", KNOWN)
def test_a_book_is_known_to_have_many(make: Callable[[], PreTrainedTokenizerBase]) -> None:
    assert FewestTokens(make()).of("hello world " * 20_000) >= 8_000


@pytest.mark.parametrize("make", UNKNOWN)
def test_where_characters_may_vanish_nothing_is_known(make: Callable[[], PreTrainedTokenizerBase]) -> None:
    assert FewestTokens(make()).of("hello world " * 20_000) == 0


def test_a_composed_character_has_a_third_of_its_parts_bytes_at_least() -> None:
    for code in range(sys.maxunicode + 1):
        if not 0xD800 <= code < 0xE000:
            parts = unicodedata.normalize("NFD", chr(code))
            assert len(parts.encode()) <= BYTES_OF_NFC * len(chr(code).encode())


@pytest.mark.shared
def test_a_trained_models_tokenizer_keeps_to_it() -> None:
    if not STORIES.exists():
        pytest.skip("stories260K is not there")
    stories: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(STORIES)
    for seed in ("Once upon a time", "é", " ", "\n", "漢", "<s>"):
        assert 0 < FewestTokens(stories).of(long(seed)) <= count(stories, long(seed))
