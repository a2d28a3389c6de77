"""A text that goes on, and back, token by token is in another tokenizer's tokens what it is when read at once."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.engine.drafters.retokenised_line import RetokenisedLine
from app.engine.text.text_tokenizer import TextTokenizer
from tests.engine.text.test_text_tokenizer import KEEPING, TEXTS
from tests.engine.tokenizers_made import TEXT, bytes_of_words
from tests.tiers import pairwise

TOKENIZERS = {name: TextTokenizer(one) for name, one in KEEPING.items()}
DEMO, BYTES, SPACED = TOKENIZERS.values()
CONTROL = next(number for number, name in BYTES.controls.items() if name == "<|im_start|>")


def at_once(source: TextTokenizer, to: TextTokenizer, tokens: Sequence[int]) -> list[int]:
    line = RetokenisedLine(source, to)
    line.follow(tokens)
    return line.behind(())


@pairwise(source=TOKENIZERS, to=TOKENIZERS)
@given(parts=st.lists(TEXTS | st.sampled_from(TEXT.split(". ")), min_size=1, max_size=4), steps=st.data())
def test_a_text_that_goes_on_is_the_text_read_at_once(
    source: TextTokenizer, to: TextTokenizer, parts: list[str], steps: st.DataObject
) -> None:
    text = "".join(parts)
    tokens = source.first(text)
    line, end = RetokenisedLine(source, to), 0
    while end < len(tokens):
        end += steps.draw(st.integers(1, 6))
        line.follow(tokens[:end])
        assert line.behind(()) == at_once(source, to, tokens[:end])
    if text:
        assert line.is_whole
        assert line.behind(()) == [*to.begin, *to.first(text)], "and what its own tokenizer reads in the text"


@given(there=TEXTS, back=TEXTS, cut=st.integers(0, 30))
def test_a_text_that_goes_back_and_on_is_the_text_read_at_once(there: str, back: str, cut: int) -> None:
    line = RetokenisedLine(BYTES, SPACED)
    said = BYTES.first(f"The fox said: {there}")
    for end in range(1, len(said), 2):
        line.follow(said[:end])
    said = [*said[:cut], *BYTES.first(back)]
    line.follow(said)
    assert line.behind(()) == at_once(BYTES, SPACED, said)


@given(text=TEXTS, guesses=TEXTS)
def test_guesses_are_read_as_text_that_went_on(text: str, guesses: str) -> None:
    line, said, guessed = RetokenisedLine(BYTES, DEMO), BYTES.first(f"A {text}"), BYTES.first(guesses)
    line.follow(said)
    before = line.behind(())
    assert line.behind(guessed) == at_once(BYTES, DEMO, [*said, *guessed])
    assert line.behind(()) == before


def test_half_a_character_waits() -> None:
    line, said = RetokenisedLine(BYTES, DEMO), BYTES.first("It costs 5 €")
    line.follow(said[:-1])
    assert not line.is_whole
    assert line.behind(()) == []
    assert line.behind(said[-1:]) == [], "and is not asked about"
    line.follow(said)
    assert DEMO.decode(line.behind(())) == "It costs 5 €"


def test_bytes_that_mean_nothing_do_not_wait_for_ever() -> None:
    half = BYTES.first("€")[0]
    line = RetokenisedLine(BYTES, DEMO)
    line.follow([half] * 20)
    assert line.is_whole


def test_control_tokens_with_the_same_spelling_stay() -> None:
    line = RetokenisedLine(BYTES, DEMO)
    line.follow([CONTROL, *BYTES.first("user\nHello")])
    known = next(number for number, name in DEMO.controls.items() if name == "<|im_start|>")
    assert line.behind(()) == [known, *DEMO.first("user\nHello")]
    assert line.behind((CONTROL,)) == [], "nothing is asked behind one that is a guess"


def test_what_begins_every_text_stands_there_once_and_unknown_ones_are_left_out() -> None:
    line = RetokenisedLine(BYTES, SPACED)
    begin = next(number for number, name in BYTES.controls.items() if name == "<|endoftext|>")
    line.follow([begin, CONTROL, *BYTES.first("Hello")])
    assert SPACED.begin
    assert line.behind(()) == [*SPACED.begin, *SPACED.first("Hello")]


def test_only_the_last_words_are_read_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    source, to = BYTES, TextTokenizer(bytes_of_words(380))
    line, said = RetokenisedLine(source, to), source.first(TEXT * 20)
    line.follow(said[:-5])
    read = list[str]()
    first = to.first
    monkeypatch.setattr(to, "first", lambda text: read.append(text) or first(text))
    line.follow(said)
    line.behind(())
    assert 0 < sum(map(len, read)) < 60
