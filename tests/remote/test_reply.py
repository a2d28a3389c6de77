"""What servers tell of their speculative decoding, each in its own words."""

from typing import Any

import pytest

from app.remote.reply import RemoteReply, with_usage
from app.values.messages import ModelChoice, Statistics

USAGE = {"prompt_tokens": 9, "completion_tokens": 61, "prompt_tokens_details": {"cached_tokens": 4}}


@pytest.mark.parametrize(
    ("told", "steps"),
    [
        ({}, 0),
        ({"foresight": {"tokens_per_step": 2.0}}, 30),
        ({"timings": {"predicted_n": 61, "draft_n": 50, "draft_n_accepted": 40}}, 20),
        ({"timings": {"predicted_n": 61}}, 0),
        (
            {"metrics": {"speculative_decoding": {"num_draft_tokens": 90, "num_accepted_draft_tokens": 35}}},
            25,
        ),
        ({"metrics": {"speculative_decoding": {"num_draft_tokens": 90, "num_accepted_draft_tokens": 0}}}, 60),
        ({"metrics": None, "timings": [], "foresight": {"tokens_per_step": "many"}}, 0),
    ],
)
def test_forward_passes_are_known_where_the_server_tells(told: dict[str, Any], steps: int) -> None:
    numbers = with_usage(Statistics(seconds=3.0), {"usage": USAGE, **told})
    assert (numbers.prompt_tokens, numbers.reused_tokens, numbers.tokens, numbers.steps) == (9, 4, 60, steps)
    assert numbers.tokens_per_second == 20


def test_accepted_prediction_tokens_of_any_server_count() -> None:
    for accepted, steps in ((0, 0), (20, 40)):
        details = {"accepted_prediction_tokens": accepted}
        assert (
            with_usage(Statistics(), {"usage": {**USAGE, "completion_tokens_details": details}}).steps
            == steps
        )


def test_numbers_that_are_missing_or_make_no_sense_are_zero() -> None:
    for usage in ({}, {"usage": None}, {"usage": {"completion_tokens": "7", "prompt_tokens": -1}}):
        assert with_usage(Statistics(), usage) == Statistics()


def test_a_reply_that_reached_its_limit_says_so() -> None:
    reply = RemoteReply(ModelChoice("m", server="http://box/v1"))
    pieces = list(reply.take({"choices": [{"delta": {"content": "Hi"}, "finish_reason": "length"}]}))
    assert [piece.text for piece in pieces] == ["Hi"] and reply.has_begun
    assert reply.reason == "max_tokens"


def test_chunks_without_a_text_are_no_pieces() -> None:
    reply = RemoteReply(ModelChoice("m", server="http://box/v1"))
    for chunk in (
        {},
        {"choices": None},
        {"choices": [{"delta": None}]},
        {"choices": [{"delta": {"role": "assistant"}}]},
    ):
        assert list(reply.take(chunk)) == []
    assert not reply.has_begun and reply.reason is None
