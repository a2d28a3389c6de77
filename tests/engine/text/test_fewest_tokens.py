"""A bound that is never more than a text has: what fits is not refused."""

import sys
import unicodedata
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers
from transformers import AutoTokenizer, PreTrainedTokenizerBase, PreTrainedTokenizerFast

from app.engine.text.reader import BYTES_OF_NFC, SHORT, FewestTokens
from tests.engine.tiny import DEMO, STORIES
from tests.engine.tokenizers_made import bytes_of_words, in_small_letters, with_a_space_before
from tests.tiers import examples

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
