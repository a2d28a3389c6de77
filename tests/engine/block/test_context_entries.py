"""What is packed comes out again, and 0 stays free for nothing."""

from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.engine.block.context_entries import (
    GAP_STEP,
    GAPS,
    LEADS,
    MOST_GAP,
    MOST_TOKENS,
    NUM_REPLIES,
    SOURCES,
    SUCCESSORS,
    Packed,
    count_again,
    gap_class,
    pack_follower,
    pack_successors,
    unpack_follower,
    unpack_successor,
)
from app.values.messages import Origin

TOKENS = st.integers(0, MOST_TOKENS - 1)
REPLIES = st.integers(0, 200)
LARGEST = 2**31 - 1


def packed(ids: list[int], logits: list[float]) -> Packed:
    """One row of successors."""
    row: Packed = pack_successors(np.array([ids]), np.array([logits], dtype=np.float32))[0]
    return row


def gaps(logits: list[float]) -> list[int]:
    """The gap of each token of one row, in steps."""
    row = packed(list(range(len(logits))), logits)
    return [unpack_successor(entry)[1] for entry in row[: len(logits)].tolist()]


@given(ids=st.lists(TOKENS, min_size=1, max_size=SUCCESSORS, unique=True))
def test_successors_come_out_as_they_were_packed(ids: list[int]) -> None:
    row = packed(ids, [float(-place) for place in range(len(ids))]).tolist()
    assert [unpack_successor(entry)[0] for entry in row[: len(ids)]] == ids
    assert all(0 < entry <= LARGEST for entry in row[: len(ids)])
    assert row[len(ids) :] == [0] * (SUCCESSORS - len(ids)), "0 is nothing"


@pytest.mark.parametrize(
    ("logits", "steps"),
    [
        ([5.0, 5.0, 5.0], [0, 0, 0]),
        ([5.0, 4.75, 4.5], [8, 8, 16]),
        ([5.0, 4.0, 3.0], [32, 32, 64]),
        ([90.0, 2.0, -inf], [MOST_GAP] * 3),
        ([5.0], [MOST_GAP]),
    ],
)
def test_the_first_ones_gap_is_its_lead_and_the_others_how_far_they_are_behind(
    logits: list[float], steps: list[int]
) -> None:
    assert gaps(logits) == steps


@given(behind=st.lists(st.floats(0, 40, width=32), min_size=2, max_size=SUCCESSORS).map(sorted))
def test_gaps_are_kept_to_a_step_and_ascend(behind: list[float]) -> None:
    found = gaps([0.0, *(-gap for gap in behind[1:])])
    assert found[1:] == sorted(found[1:])
    assert found[0] == found[1]
    for gap, steps in zip(behind[1:], found[1:], strict=True):
        assert steps * GAP_STEP <= gap
        assert steps == MOST_GAP or gap < (steps + 1) * GAP_STEP


def test_classes_of_distance_ascend_and_fit_four_bits() -> None:
    classes = [gap_class(gap * GAP_STEP) for gap in range(MOST_GAP + 1)]
    assert classes == sorted(classes)
    assert (classes[0], classes[-1], LEADS + classes[-1]) == (0, LEADS - 1, 15)
    assert [gap_class(border) for border in GAPS] == list(range(1, LEADS))


def test_rows_are_packed_each_for_itself() -> None:
    ids, logits = np.array([[3, 4], [5, 6]]), np.array([[1.0, 1.0], [9.0, 0.0]], dtype=np.float32)
    rows = pack_successors(ids, logits).tolist()
    assert [unpack_successor(entry) for row in rows for entry in row[:2]] == [
        (3, 0),
        (4, 0),
        (5, 288),
        (6, 288),
    ]


@given(token=TOKENS, origin=st.sampled_from(SOURCES), reply=REPLIES)
def test_a_follower_comes_out_as_it_was_packed(token: int, origin: Origin, reply: int) -> None:
    entry = pack_follower(token, origin, reply)
    assert 0 < entry <= LARGEST
    assert unpack_follower(entry, reply) == (token, SOURCES.index(origin), True)


@given(token=TOKENS, origin=st.sampled_from(SOURCES), reply=REPLIES, later=st.integers(1, NUM_REPLIES - 1))
def test_in_a_later_reply_all_but_what_was_given_to_quote_is_history(
    token: int, origin: Origin, reply: int, later: int
) -> None:
    _, source, _ = unpack_follower(pack_follower(token, origin, reply), reply + later)
    assert SOURCES[source] == (origin if origin in ("document", "prediction") else "history")


@given(
    token=TOKENS, first=st.sampled_from(SOURCES), newest=st.sampled_from(SOURCES), times=st.integers(1, 20)
)
def test_what_is_seen_again_keeps_its_newest_source_and_is_no_longer_new(
    token: int, first: Origin, newest: Origin, times: int
) -> None:
    entry = pack_follower(token, first, 4)
    for _ in range(times):
        entry = count_again(pack_follower(token, newest, 5), entry)
        assert 0 < entry <= LARGEST
    assert unpack_follower(entry, 5) == (token, SOURCES.index(newest), False)
