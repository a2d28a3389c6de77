"""Every token of the vocabulary is asked once, each as if a text began with it."""

from collections.abc import Sequence
from itertools import count

import numpy as np
import pytest

from app.engine.block.entries import SUCCESSORS, pack_successors, unpack_successor
from app.engine.lookahead.model_statistics import (
    ROWS,
    SECONDS,
    ask_first_successors,
    likely_anywhere,
    no_successors,
    num_asked,
)
from tests.engine.lookahead.scripted_runner import VOCABULARY, ScriptedRunner, triple_plus_one

START = 5
NOTHING = no_successors(VOCABULARY)


def silent(_done: int, _total: int) -> None:
    """Nobody watches."""


def sums(line: Sequence[int]) -> int:
    return sum(line) % VOCABULARY


def test_each_tokens_likeliest_successor_is_what_the_model_says_behind_it() -> None:
    found = ask_first_successors(ScriptedRunner([]), NOTHING, START, silent)
    assert found.shape == (VOCABULARY, SUCCESSORS)
    assert [unpack_successor(row[0])[0] for row in found.tolist()] == [
        triple_plus_one([token]) for token in range(VOCABULARY)
    ]
    assert (found > 0).all(), "and seven others"


@pytest.mark.parametrize("rows", [1, 7, 40, ROWS])
def test_rows_do_not_see_each_other_however_many_there_are(rows: int) -> None:
    runner = ScriptedRunner([9, 9], rule=sums)
    found = ask_first_successors(runner, NOTHING, START, silent, rows)
    assert [unpack_successor(row[0])[0] for row in found.tolist()] == [
        (START + token) % VOCABULARY for token in range(VOCABULARY)
    ]
    assert max(len(block) for block in runner.blocks) == min(rows, VOCABULARY)
    assert [token for block in runner.blocks for token in block.tokens] == list(range(VOCABULARY))


def test_no_prefix_is_left_behind() -> None:
    runner = ScriptedRunner([1, 2, 3])
    ask_first_successors(runner, NOTHING, START, silent)
    assert runner.prefix == []


def test_the_person_is_told_how_far_it_is() -> None:
    seen = []
    ask_first_successors(
        ScriptedRunner([]), NOTHING, START, lambda done, total: seen.append((done, total)), rows=40
    )
    assert seen == [(40, VOCABULARY), (80, VOCABULARY), (VOCABULARY, VOCABULARY)]


def test_on_a_slow_machine_the_later_tokens_stay_unasked() -> None:
    clock = count(0.0, 2 * SECONDS).__next__  # each look at it finds that too much time went by
    found = ask_first_successors(ScriptedRunner([]), NOTHING, START, silent, 10, clock)
    assert (found[:10] > 0).all()
    assert not found[10:].any()
    assert (num_asked(NOTHING), num_asked(found)) == (0, 10)


@pytest.mark.parametrize("asked", [0, 1, 50, VOCABULARY])
def test_the_next_load_goes_on_where_there_was_no_time(asked: int) -> None:
    whole = ask_first_successors(ScriptedRunner([]), NOTHING, START, silent)
    known, runner = whole.copy(), ScriptedRunner([])
    known[asked:] = 0
    assert (ask_first_successors(runner, known, START, silent) == whole).all()
    assert [token for block in runner.blocks for token in block.tokens] == list(range(asked, VOCABULARY))
    assert num_asked(known) == asked


def test_likely_anywhere_is_the_mean_over_the_tokens_that_were_asked() -> None:
    first = no_successors(VOCABULARY)
    first[3] = pack_successors(np.array([[7, 8, 9]]), np.log([[0.6, 0.3, 0.1]], dtype=np.float32))
    first[5] = pack_successors(np.array([[8, 0]]), np.log([[0.8, 0.2]], dtype=np.float32))
    found = [unpack_successor(entry)[0] for entry in likely_anywhere(first).tolist() if entry]
    assert found == [8, 7, 0, 9]


def test_without_a_measurement_nothing_is_likely_anywhere() -> None:
    assert not likely_anywhere(NOTHING).any()
