"""Text that comes in pieces is the text that would have come at once."""

from functools import cache
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from app.engine.text.detokenizer import Decode, Detokenizer
from tests.engine.tiny import DEMO, STORIES

HALF = "\N{REPLACEMENT CHARACTER}"


def in_bytes(ids: list[int]) -> str:
    """A tokenizer with one token for each byte."""
    return bytes(ids).decode(errors="replace")


@cache
def tokenizer_of(folder: Path) -> PreTrainedTokenizerBase:
    if not folder.exists():
        pytest.skip(f"{folder.name} is not there")
    tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(folder)
    return tokenizer


def decode_of(folder: Path) -> Decode:
    tokenizer = tokenizer_of(folder)
    return lambda ids: str(
        tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
    )


def pieces_of(decode: Decode, ids: list[int]) -> list[str]:
    detokenizer = Detokenizer(decode)
    return [*(detokenizer.push(token) for token in ids), detokenizer.flush()]


both_tokenizers = pytest.mark.parametrize(
    "folder", [DEMO, pytest.param(STORIES, marks=pytest.mark.shared)], ids=["demo", "stories260K"]
)


def test_a_character_of_three_bytes_comes_with_its_last() -> None:
    assert pieces_of(in_bytes, [226, 130, 172, 33]) == ["", "", "€", "!", ""]


def test_half_a_character_is_given_out_when_no_more_comes() -> None:
    assert pieces_of(in_bytes, [65, 226, 130]) == ["A", "", "", HALF]


def test_bytes_that_mean_nothing_are_not_held_back_for_ever() -> None:
    pieces = pieces_of(in_bytes, [255] * 20)
    assert any(pieces[:10])
    assert "".join(pieces) == HALF * 20


@both_tokenizers
@given(text=st.text(max_size=60))
def test_the_pieces_of_any_text_joined_are_that_text_decoded_at_once(folder: Path, text: str) -> None:
    ids = list(tokenizer_of(folder)(text, add_special_tokens=False).input_ids)
    assert "".join(pieces_of(decode_of(folder), ids)) == decode_of(folder)(ids)


@both_tokenizers
@given(data=st.data())
def test_the_pieces_of_any_tokens_joined_are_their_text_decoded_at_once(
    folder: Path, data: st.DataObject
) -> None:
    count = len(tokenizer_of(folder))
    ids = data.draw(st.lists(st.integers(0, count - 1), max_size=30))
    expected = decode_of(folder)(ids)
    # What is no UTF-8 at all may be cut elsewhere than at once; everything else may not.
    assume(HALF not in expected)
    assert "".join(pieces_of(decode_of(folder), ids)) == expected


@both_tokenizers
@given(text=st.text(max_size=40))
def test_no_piece_of_real_text_has_half_a_character(folder: Path, text: str) -> None:
    assume(HALF not in text)
    ids = list(tokenizer_of(folder)(text, add_special_tokens=False).input_ids)
    assume(HALF not in decode_of(folder)(ids))
    assert not any(HALF in piece for piece in pieces_of(decode_of(folder), ids))


def test_special_tokens_are_no_text() -> None:
    tokenizer = tokenizer_of(DEMO)
    ids = [*tokenizer("Hello", add_special_tokens=False).input_ids, tokenizer.eos_token_id]
    assert "".join(pieces_of(decode_of(DEMO), ids)) == "Hello"
