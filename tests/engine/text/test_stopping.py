"""Where a reply ends is one decision, made once per step."""

import pytest

from app.engine.text.reply_text import StopCut, StoppingCriteria

EOS = 9


def spelled(ids: list[int]) -> str:
    return "".join(chr(ord("a") + token) for token in ids)


def stopper(max_new_tokens: int = 100, room: int = 100, stops: tuple[str, ...] = ()) -> StoppingCriteria:
    return StoppingCriteria(frozenset([EOS]), max_new_tokens, room, stops, spelled)


def test_a_step_without_an_end_is_kept_whole() -> None:
    assert stopper().cut([1, 2, 3]) == StopCut(3)


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


@pytest.mark.parametrize(("limit", "room", "reason"), [(3, 2, "context"), (2, 2, "max_tokens")])
def test_the_smaller_of_limit_and_room_ends_the_reply(limit: int, room: int, reason: str) -> None:
    assert stopper(limit, room).cut([1, 2, 3]) == StopCut(2, reason)  # type: ignore[arg-type]


def test_an_end_of_text_at_the_very_limit_is_the_end_of_text() -> None:
    assert stopper(max_new_tokens=2).cut([1, EOS]) == StopCut(2, "eos")


def test_a_stop_string_over_the_border_of_two_steps_is_found() -> None:
    watching = stopper(stops=("cd",))
    assert [watching.cut([0, 1, 2]), watching.cut([3, 4])] == [StopCut(3), StopCut(1, "stop_string")]


def test_a_stop_string_inside_one_token_ends_with_that_token() -> None:
    watching = StoppingCriteria(
        frozenset(), 100, 100, ["END"], lambda ids: "".join("the END of" for _ in ids)
    )
    assert watching.cut([1, 2]) == StopCut(1, "stop_string")
