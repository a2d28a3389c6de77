"""Texts that go on are read as such, whatever a tokenizer puts before a text; one that changes them is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from app.engine.text.text_tokenizer import HALF, LossyTokenizer, TextTokenizer
from tests.engine.tiny import DEMO
from tests.engine.tokenizers_made import bytes_of_words, in_small_letters, with_a_space_before

KEEPING = {
    "demo": AutoTokenizer.from_pretrained(DEMO),
    "bytes": bytes_of_words(),
    "a space before": with_a_space_before(),
}
"""Tokenizers that keep texts."""
TEXTS = st.text(
    st.sampled_from("abé ,.\n\t'3😀你")
    | st.characters(blacklist_categories=("Cs",), blacklist_characters=HALF),
    max_size=40,
)

every = pytest.mark.parametrize("tokenizer", KEEPING.values(), ids=KEEPING)


@every
def test_half_a_word_goes_on_without_a_space(tokenizer: PreTrainedTokenizerFast) -> None:
    found = TextTokenizer(tokenizer)
    assert found.decode([*found.first("To Jap"), *found.following("an and"), *found.following(" Rome")]) == (
        "To Japan and Rome"
    )


@every
@given(text=TEXTS, behind=TEXTS)
def test_what_tokens_say_behind_others(tokenizer: PreTrainedTokenizerFast, text: str, behind: str) -> None:
    found = TextTokenizer(tokenizer)
    before, after = found.first(f"Once {text}"), found.following(behind)
    assert found.said(found.tail(before), after) == behind


def test_control_tokens_are_no_text() -> None:
    found = TextTokenizer(bytes_of_words())
    (control,) = [number for number, name in found.controls.items() if name == "<|im_end|>"]
    assert found.decode([control]) == ""
    assert control not in found.first("spelled <|im_end|>")
    assert found.decode(found.first("spelled <|im_end|>")) == "spelled <|im_end|>"


def test_a_tokenizer_that_changes_texts_is_refused() -> None:
    with pytest.raises(LossyTokenizer):
        TextTokenizer(in_small_letters())
