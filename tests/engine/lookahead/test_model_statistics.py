"""What outlives a reply: the pool within its chat, chances by temperature, first successors always."""

from collections.abc import Sequence
from itertools import count

import numpy as np
import pytest

from app.engine.block.context_entries import SUCCESSORS, pack_successors, unpack_successor
from app.engine.block.step_profile import StepTimes
from app.engine.lookahead.drafter import DraftSources, MakeDrafter, PythonDrafter
from app.engine.lookahead.model_statistics import (
    LARGE_MODEL,
    ROWS,
    SECONDS,
    ModelStatistics,
    likely_anywhere,
    measure_first_successors,
    no_successors,
    num_measured,
)
from app.engine.lookahead.ngram_pool import Pool
from app.values.messages import Origin, Sampling
from tests.engine.lookahead.scripted_runner import VOCABULARY as RULED
from tests.engine.lookahead.scripted_runner import ScriptedRunner, triple_plus_one

START = 5
NOTHING = no_successors(RULED)


def silent(_done: int, _total: int) -> None:
    """Nobody watches."""


def sums(line: Sequence[int]) -> int:
    return sum(line) % RULED


def test_each_tokens_likeliest_successor_is_what_the_model_says_behind_it() -> None:
    found = measure_first_successors(ScriptedRunner([]), NOTHING, START, silent)
    assert found.shape == (RULED, SUCCESSORS)
    assert [unpack_successor(row[0])[0] for row in found.tolist()] == [
        triple_plus_one([token]) for token in range(RULED)
    ]
    assert (found > 0).all(), "and seven others"


@pytest.mark.parametrize("rows", [1, 7, 40, ROWS])
def test_rows_do_not_see_each_other_however_many_there_are(rows: int) -> None:
    runner = ScriptedRunner([9, 9], rule=sums)
    found = measure_first_successors(runner, NOTHING, START, silent, rows)
    assert [unpack_successor(row[0])[0] for row in found.tolist()] == [
        (START + token) % RULED for token in range(RULED)
    ]
    assert max(len(block) for block in runner.blocks) == min(rows, RULED)
    assert [token for block in runner.blocks for token in block.tokens] == list(range(RULED))


def test_no_prefix_is_left_behind() -> None:
    runner = ScriptedRunner([1, 2, 3])
    measure_first_successors(runner, NOTHING, START, silent)
    assert runner.prefix == []


def test_the_person_is_told_how_far_it_is() -> None:
    seen = []
    measure_first_successors(
        ScriptedRunner([]), NOTHING, START, lambda done, total: seen.append((done, total)), rows=40
    )
    assert seen == [(40, RULED), (80, RULED), (RULED, RULED)]


def test_on_a_slow_machine_the_later_tokens_stay_unasked() -> None:
    clock = count(0.0, 2 * SECONDS).__next__  # each look at it finds that too much time went by
    found = measure_first_successors(ScriptedRunner([]), NOTHING, START, silent, 10, clock)
    assert (found[:10] > 0).all()
    assert not found[10:].any()
    assert (num_measured(NOTHING), num_measured(found)) == (0, 10)


@pytest.mark.parametrize("asked", [0, 1, 50, RULED])
def test_the_next_load_goes_on_where_there_was_no_time(asked: int) -> None:
    whole = measure_first_successors(ScriptedRunner([]), NOTHING, START, silent)
    known, runner = whole.copy(), ScriptedRunner([])
    known[asked:] = 0
    assert (measure_first_successors(runner, known, START, silent) == whole).all()
    assert [token for block in runner.blocks for token in block.tokens] == list(range(asked, RULED))
    assert num_measured(known) == asked


def test_likely_anywhere_is_the_mean_over_the_tokens_that_were_asked() -> None:
    first = no_successors(RULED)
    first[3] = pack_successors(np.array([[7, 8, 9]]), np.log([[0.6, 0.3, 0.1]], dtype=np.float32))
    first[5] = pack_successors(np.array([[8, 0]]), np.log([[0.8, 0.2]], dtype=np.float32))
    found = [unpack_successor(entry)[0] for entry in likely_anywhere(first).tolist() if entry]
    assert found == [8, 7, 0, 9]


VOCABULARY = 64
CHAT = [1, 2, 3, 4]


def statistics() -> ModelStatistics:
    return ModelStatistics(VOCABULARY)


def sources(pool: Pool, context: list[int]) -> list[Origin]:
    """Who drafts the next token."""
    return pool.draft(context, 99, 1, 0.0).origins[1:]


def test_the_pool_stays_while_the_chat_goes_on() -> None:
    known = statistics()
    pool = known.pool(CHAT, Sampling(), ())
    pool.learn([*CHAT, 5], 1, "output")
    again = known.pool([*CHAT, 5, 6, 7], Sampling(), ())
    assert again is pool
    assert sources(again, [3, 4]) == ["history"]
    assert sources(again, [5, 6]) == ["prompt"]


def test_asking_anew_keeps_what_the_first_answer_taught() -> None:
    known = statistics()
    pool = known.pool(CHAT, Sampling(), ())
    pool.learn([*CHAT, 5], 1, "output")
    assert sources(known.pool(CHAT, Sampling(), ()), [4]) == ["history"]


def test_a_reply_that_begins_otherwise_is_of_the_same_chat() -> None:
    """The last token of the text is the reply's first: asked anew, or without its thought, it is another one."""
    known = statistics()
    pool = known.pool(CHAT, Sampling(), ())
    assert known.pool([*CHAT[:-1], 9], Sampling(), ()) is pool
    assert known.pool([*CHAT[:-2], 9, 4], Sampling(), ()) is not pool


def test_another_chat_begins_with_an_empty_pool() -> None:
    known = statistics()
    first = known.pool(CHAT, Sampling(), ())
    other = known.pool([1, 8, 9], Sampling(), ())
    assert other is not first
    assert sources(other, [3]) == []
    assert sources(other, [8]) == ["prompt"]


def test_a_shorter_chat_is_another_one() -> None:
    known = statistics()
    first = known.pool(CHAT, Sampling(), ())
    assert known.pool(CHAT[:2], Sampling(), ()) is not first


def test_what_was_forgotten_is_gone_but_not_what_was_counted() -> None:
    known = statistics()
    first = known.pool(CHAT, Sampling(), ())
    first.observe([1], [2])
    known.forget()
    assert known.pool(CHAT, Sampling(), ()) is not first
    assert known.counts[0] != {}


def test_a_new_pool_may_have_other_drafters_than_the_models() -> None:
    """A tool that records each guess needs those in Python."""
    made: list[str] = []

    def maker(name: str) -> MakeDrafter:
        def make(sources: DraftSources) -> PythonDrafter:
            made.append(name)
            return PythonDrafter(sources)

        return make

    known = ModelStatistics(VOCABULARY, make_drafter=maker("the model's"))
    known.new_pool(known.estimator(0.0))
    known.new_pool(known.estimator(0.0), maker("another"))
    assert made == ["the model's", "another"]


def test_every_new_pool_begins_with_the_first_successors() -> None:
    first = np.zeros((VOCABULARY, SUCCESSORS), dtype=np.int32)
    first[7] = pack_successors(np.array([[20, 21]]), np.array([[3.0, 1.0]], dtype=np.float32))
    known = ModelStatistics(VOCABULARY, first=first)
    for text in ([1, 2], [3, 4]):
        pool = known.pool(text, Sampling(), ())
        assert pool.draft([7], 9, 1, 0.0).tokens == [7, 20, 21]
        assert sources(pool, [7]) == ["successor"] * 2


def test_documents_are_read_before_the_reply() -> None:
    pool = statistics().pool([1, 2], Sampling(), ([7, 8, 9], [10, 11]))
    assert sources(pool, [7]) == sources(pool, [10]) == ["document"]
    assert pool.draft([7], 9, 4, 0.0).tokens == [7, 8, 9]


def test_a_document_of_the_last_turn_is_still_one() -> None:
    known = statistics()
    known.pool([1, 2], Sampling(), ([7, 8, 9],))
    assert sources(known.pool([1, 2, 3], Sampling(), ()), [7]) == ["document"]


def test_special_tokens_are_never_followed() -> None:
    pool = ModelStatistics(VOCABULARY, special={8}).pool([6, 7, 8, 9], Sampling(), ())
    assert pool.draft([6], 9, 9, 0.0).tokens == [6, 7, 8]


def test_temperatures_half_a_degree_apart_have_chances_of_their_own() -> None:
    known = statistics()
    greedy, cool, hot = (known.estimator(temperature) for temperature in (0.0, 0.6, 1.5))
    assert len({id(greedy), id(cool), id(hot)}) == 3
    assert known.estimator(0.7) is cool
    known.pool(CHAT, Sampling(0.6), ()).observe([1], [2])
    assert (greedy.counts, hot.counts) == ({}, {})
    assert cool.counts != {}


def test_a_chat_that_goes_on_at_another_temperature_learns_there() -> None:
    known = statistics()
    known.pool(CHAT, Sampling(), ())
    known.pool(CHAT, Sampling(1.0), ()).observe([1], [2])
    assert known.counts[0] == {}
    assert known.counts[2] != {}


def test_kept_counts_are_where_the_next_start_begins() -> None:
    known = statistics()
    known.pool(CHAT, Sampling(), ()).observe([1, 2], [3, 4])
    again = ModelStatistics(VOCABULARY, counts=known.counts)
    assert again.counts == known.counts
    assert again.estimator(0.0).rates == known.estimator(0.0).rates


def test_the_pools_memory_is_bounded_and_larger_for_large_models() -> None:
    small, large = ModelStatistics(VOCABULARY), ModelStatistics(VOCABULARY, LARGE_MODEL)
    sizes = [known.pool(CHAT, Sampling(), ()).table.rows.nbytes >> 20 for known in (small, large)]
    assert sizes == [16, 64]


def test_the_curve_of_each_padding_stays() -> None:
    known, times = statistics(), StepTimes((1, 8), (0.01, 0.02))
    assert known.curve(times, ()) is known.curve(times, ())
    assert known.curve(times, (8,)) is not known.curve(times, ())
