"""What is said about a reply that was written once with lookahead and once without."""

from dataclasses import replace

from app.conversation.comparison import comparison_in_words
from app.values.chat import MessageContent, Provenance
from app.values.messages import DecoderName, Options, Statistics
from tests.fakes import DEMO


def written(text: str, decoder: DecoderName, seconds: float, dtype: str = "float32") -> MessageContent:
    model, numbers = replace(DEMO, dtype=dtype), Statistics(tokens=9, steps=9, seconds=seconds)
    return MessageContent(text, "done", provenance=Provenance(model, Options(), decoder, "eos", numbers))


FAST, SLOW = written("One two three", "auto", 8.1), written("One two three", "plain", 12.4)


def test_the_same_text_is_one_line_with_both_times_in_either_order() -> None:
    words = "Same text: 8.1 s with lookahead against 12.4 s without."
    assert comparison_in_words(FAST, SLOW) == comparison_in_words(SLOW, FAST) == words


def test_other_text_is_told_from_where_it_differs_and_why() -> None:
    words = comparison_in_words(FAST, replace(SLOW, text="One two four"))
    assert words.startswith("The texts differ after 2 words (8.1 s with lookahead against 12.4 s without).")
    assert "In float32 they must be the same" in words
    half = written("Other", "auto", 8.1, "bfloat16"), written("text", "plain", 8.1, "bfloat16")
    assert "after 0 words" in comparison_in_words(*half)
    assert "In bfloat16 the size of a step may change how numbers are rounded." in comparison_in_words(*half)
