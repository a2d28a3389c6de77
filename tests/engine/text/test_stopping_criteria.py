"""The end of a reply is one decision, once per step; text that may begin a stop string is held back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.engine.text.stopping_criteria import ReplyText, StopCut, StopFilter, StoppingCriteria
from tests.engine.text.test_detokenizer import HALF, in_bytes

FEW_LETTERS = st.text("abX", max_size=8)


@pytest.mark.parametrize(
    ("pieces", "shown", "rest"),
    [
        pytest.param(["so END", "more"], ["so ", ""], "", id="it never shows, and nothing comes after it"),
        pytest.param(["so E", "N", "TER "], ["so ", "", "ENTER "], "", id="what may begin it waits"),
        pytest.param([*"so END of"], [*"so ", *[""] * 6], "", id="it is found over the borders of pieces"),
        pytest.param(["so EN"], ["so "], "EN", id="what was held back in vain comes at the end"),
    ],
)
def test_text_is_held_back_for_a_stop_string(pieces: list[str], shown: list[str], rest: str) -> None:
    stop = StopFilter(["END"])
    assert [stop.push(piece) for piece in pieces] == shown
    assert (stop.is_stopped, stop.flush()) == ("END" in "".join(pieces), rest)


@given(pieces=st.lists(FEW_LETTERS, max_size=8), stops=st.lists(st.text("abX", min_size=1, max_size=4)))
def test_whatever_the_pieces_the_text_ends_where_a_stop_string_first_begins(
    pieces: list[str], stops: list[str]
) -> None:
    stop = StopFilter(stops)
    shown, expected, whole = "", "", ""
    for piece in pieces:
        shown += stop.push(piece)
        whole, expected = (whole, expected) if _found(whole, stops) else (whole + piece, "")
        assert stop.is_stopped == _found(whole, stops)
    shown += stop.flush()
    expected = whole[: min((whole.find(one) for one in stops if one in whole), default=len(whole))]
    assert shown == expected


def _found(text: str, stops: list[str]) -> bool:
    return any(one in text for one in stops)


def test_a_reply_joins_characters_and_watches_for_stop_strings_in_one() -> None:
    text = ReplyText(in_bytes, ["€!"])
    assert [text.push([65, 226]), text.push([130]), text.push([172, 33, 66])] == [
        ["A", ""],
        [""],
        ["", "", ""],
    ]
    assert text.is_stopped


def test_a_character_and_a_text_held_back_in_vain_are_of_the_token_that_settled_it() -> None:
    text = ReplyText(in_bytes, ["!?"])
    assert text.push([226, 130, 172, 33, 65]) == ["", "", "€", "", "!A"]


def test_a_reply_that_ends_gives_out_what_it_held() -> None:
    text = ReplyText(in_bytes, ["!?"])
    assert [text.push([65, 33, 226]), text.flush()] == [["A", "", ""], "!" + HALF]


@given(
    steps=st.lists(st.lists(st.integers(0, 255), max_size=5), max_size=6),
    stops=st.lists(st.text("aé!", min_size=1, max_size=3), max_size=2),
)
def test_however_tokens_come_in_steps_each_has_the_same_text(
    steps: list[list[int]], stops: list[str]
) -> None:
    together, alone = ReplyText(in_bytes, stops), ReplyText(in_bytes, stops)
    for tokens in steps:
        assert together.push(tokens) == [text for token in tokens for text in alone.push([token])]
    assert together.flush() == alone.flush()


EOS = 9


def spelled(ids: list[int]) -> str:
    return "".join(chr(ord("a") + token) for token in ids)


def stopper(max_new_tokens: int = 100, room: int = 100, stops: tuple[str, ...] = ()) -> StoppingCriteria:
    return StoppingCriteria(frozenset([EOS]), max_new_tokens, room, ReplyText(spelled, stops))


def test_the_token_that_ends_the_reply_is_kept_and_nothing_behind_it() -> None:
    assert stopper().cut([1, EOS, 3, EOS]) == StopCut(2, "eos")


def test_the_token_limit_cuts_in_the_middle_of_a_step() -> None:
    limited = stopper(max_new_tokens=3)
    assert [limited.cut([1, 2]), limited.left, limited.cut([3, 4, 5]), limited.left] == [
        StopCut(2),
        1,
        StopCut(1, "max_tokens"),
        0,
    ]


@pytest.mark.parametrize(
    ("limit", "room", "reason"), [(3, 2, "context"), (2, 2, "max_tokens"), (0, 2, "context")]
)
def test_the_smaller_of_limit_and_room_ends_the_reply(limit: int, room: int, reason: str) -> None:
    assert stopper(limit, room).cut([1, 2, 3]) == StopCut(2, reason)  # type: ignore[arg-type]


def test_an_end_of_text_at_the_very_limit_is_the_end_of_text() -> None:
    assert stopper(max_new_tokens=2).cut([1, EOS]) == StopCut(2, "eos")


def test_a_stop_string_over_the_border_of_two_steps_is_found() -> None:
    watching = stopper(stops=("cd",))
    assert [watching.cut([0, 1, 2]), watching.cut([3, 4])] == [StopCut(3), StopCut(1, "stop_string")]


def test_a_stop_string_inside_one_token_ends_with_that_token() -> None:
    text = ReplyText(lambda ids: "".join("the END of" for _ in ids), ["END"])
    watching = StoppingCriteria(frozenset(), 100, 100, text)
    assert watching.cut([1, 2]) == StopCut(1, "stop_string")
