"""The lookahead decoder on a model that is a rule, so that every number can be worked out by hand."""

import gc
import weakref
from collections.abc import Sequence
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.engine.decoders.lookahead_decoder import lay_out, make_lookahead
from app.engine.decoders.plain import plain
from app.engine.lookahead.jacobi_window import JacobiWindow
from app.engine.sampling.sampling import make_sampler
from app.engine.text.stopping_criteria import StoppingCriteria
from app.values.messages import Decoding, Sampling, Split
from tests.engine.lookahead.deciding import START, TEXT, Kept, decode, ends, fed, fixed, said
from tests.engine.lookahead.drafting import drawn, tree_of
from tests.engine.lookahead.scripted_pool import ScriptedPool
from tests.engine.lookahead.scripted_runner import Rule, ScriptedRunner, text_after, triple_plus_one

TREE = tree_of(7, [(8, 9), (5,)], "prompt")
WINDOW = JacobiWindow(2, 3, [7, 21, 22])


def test_drafts_come_first_then_the_windows_guesses() -> None:
    block, _ = lay_out(TREE, WINDOW, position=10)
    #                       current  drafts   window: row 0, row 1
    assert block.tokens == (7, 8, 9, 5, 21, 21, 22)
    assert block.positions == (10, 11, 12, 11, 11, 11, 12)


def test_the_two_branches_share_the_current_token_and_nothing_else() -> None:
    assert drawn(lay_out(TREE, WINDOW, position=10)[0].visible()) == [
        "1......",  # 7, the current token
        "11.....",  # 8
        "111....",  # 9
        "1..1...",  # 5
        "1...1..",  # row 0, column 1
        "1....1.",  # row 1, column 0
        "1...1.1",  # row 1, column 1
    ]


def test_logits_are_wanted_for_the_tree_and_the_top_row_alone() -> None:
    block, top = lay_out(TREE, WINDOW, position=10)
    assert (block.wanted, top) == ((0, 1, 2, 3, 5, 6), slice(4, 6))


def test_in_a_window_of_bigrams_the_current_token_is_read_for_both_branches() -> None:
    block, top = lay_out(TREE, JacobiWindow(2, 2, [7, 21]), position=10)
    assert block.tokens == (7, 8, 9, 5, 21)
    assert (block.wanted, top) == ((0, 1, 2, 3, 0, 4), slice(4, 6))


def test_three_steps_of_window_and_drafts_worked_out_by_hand() -> None:
    """The window's first guesses repeat the prompt: its first column is 4 40, its second 40 4."""
    runner, pool = ScriptedRunner([40]), ScriptedPool([(13, 40), (5,)])
    steps = decode(runner, fixed(window=2, ngram=3, guesses=2), pool)

    # Two of two guesses are right, and 24 is the model's own. The window says 24 behind 4 40 and 13 behind 40 4.
    first = next(steps)
    assert (first.tokens, first.origins) == ((13, 40, 24), ("prompt", "prompt", "model"))
    assert (first.rows, first.is_covered, first.split) == (7, True, Split(tree=4, window=3))
    assert fed(runner)[-1] == [4, 13, 40, 5, 40, 40, 4]
    assert list(runner.blocks[-1].positions) == [1, 2, 3, 2, 2, 2, 3]
    assert pool.lines("window") == [[4, 40, 24], [40, 4, 13]]
    assert runner.prefix == [40, 4, 13, 40]

    # However many tokens came, the rows move by one: row 0 is 24 4, where 24 stands for the 40; row 1 is 24 13.
    assert next(steps).tokens == (73,)
    assert fed(runner)[-1] == [24, 13, 40, 5, 4, 24, 13]
    assert pool.lines("window")[2:] == [[24, 24, 73], [4, 13, 40]]

    # Row 0 is 73 13 and row 1 is 73 40.
    assert next(steps).tokens == (26,)
    assert fed(runner)[-1] == [73, 13, 40, 5, 13, 73, 40]
    assert pool.lines("window")[4:] == [[73, 73, 26], [13, 40, 24]]


def test_a_right_draft_is_committed_whole_with_the_models_next_token() -> None:
    pool = ScriptedPool([(13, 40, 24)])
    step = next(decode(ScriptedRunner([40]), fixed(), pool))
    assert (step.tokens, step.origins) == ((13, 40, 24, 73), ("prompt", "prompt", "prompt", "model"))
    assert (step.rows, step.is_covered, step.is_hit, step.pool_size) == (4, True, True, len(pool))


def test_wrong_drafts_are_covered_steps_without_a_hit_and_cost_their_rows() -> None:
    step = next(decode(ScriptedRunner([40]), fixed(), ScriptedPool([(1, 2), (3, 4)])))
    assert (step.tokens, step.rows, step.is_covered, step.is_hit) == ((13,), 5, True, False)


def test_the_pool_learns_committed_tokens_alone_behind_the_whole_text() -> None:
    pool = ScriptedPool([(13, 40, 1)])
    steps = decode(ScriptedRunner([40]), fixed(), pool)
    next(steps), next(steps)
    assert pool.taught == [([*START, 13, 40, 24], 3, "output"), ([*START, 13, 40, 24, 73], 1, "output")]


def test_a_reply_that_was_left_keeps_nothing_until_a_garbage_collection() -> None:
    """A reply under a grammar holds megabytes that Python does not count."""
    runner = ScriptedRunner([40])
    steps, gone = decode(runner, fixed(), ScriptedPool([(13, 40)])), weakref.ref(runner)
    next(steps), next(steps)
    gc.disable()
    try:
        del steps, runner
        assert gone() is None
    finally:
        gc.enable()


def test_the_pool_is_told_what_the_model_went_on_with_before_it_learns_it() -> None:
    pool = ScriptedPool([(13, 40, 1)])
    steps = decode(ScriptedRunner([40]), fixed(), pool)
    next(steps), next(steps)
    assert pool.observed == [(START, [13, 40, 24]), ([*START, 13, 40, 24], [73])]


def test_every_row_teaches_the_pool_what_the_model_held_likely_there() -> None:
    pool = ScriptedPool([(1, 2), (13,)])
    next(decode(ScriptedRunner([40]), fixed(), pool))
    assert {line: tokens[0] for line, tokens in pool.said[0].items()} == {
        (40, 4): 13,
        (40, 4, 1): triple_plus_one([1]),
        (40, 4, 1, 2): triple_plus_one([2]),
        (40, 4, 13): 40,
    }
    assert all(len(tokens) == 8 for tokens in pool.said[0].values())


def test_the_windows_top_row_teaches_successors_behind_its_own_lines() -> None:
    pool = ScriptedPool()
    next(decode(ScriptedRunner([40]), fixed(window=2, ngram=3), pool))
    assert {line: tokens[0] for line, tokens in pool.said[0].items()} == {(40, 4): 13, (4, 40): 24}, (
        "the second column's line, 40 4, is the text's own"
    )


@pytest.mark.parametrize(
    ("stopper", "reason"),
    [
        (ends(eos=[40]), "eos"),
        (ends(stops=["<40>"]), "stop_string"),
        (ends(stops=["3><40"]), "stop_string"),
        (ends(max_new_tokens=2), "max_tokens"),
    ],
)
def test_an_end_inside_an_accepted_run_cuts_cache_pool_and_text_alike(
    stopper: StoppingCriteria, reason: str
) -> None:
    pool, runner = ScriptedPool([(13, 40, 24, 73)]), ScriptedRunner([40])
    steps = list(decode(runner, fixed(ngram=5), pool, stopper))
    assert [step.reason for step in steps] == [reason]
    assert said(steps) == pool.tokens("output") == [13, 40]
    assert pool.observed == [(START, [13, 40])]
    # The last committed token is the next current one: its keys are not there yet.
    assert runner.prefix == [*START, 13]


def test_no_draft_reaches_beyond_the_token_limit() -> None:
    runner = ScriptedRunner([40])
    steps = list(decode(runner, fixed(), ScriptedPool([(13, 40, 24)]), ends(max_new_tokens=2)))
    assert [len(block) for block in runner.blocks] == [2]
    assert said(steps) == [13, 40]


def test_no_row_reaches_the_horizon() -> None:
    runner = ScriptedRunner([40], horizon=9)
    steps = decode(runner, fixed(window=3), ScriptedPool([(13, 40, 24)]), ends(12))
    assert said(list(steps)) == text_after(START, 12)
    reached = [(block.positions[0], max(block.positions)) for block in runner.blocks]
    assert all(last < 9 for first, last in reached if first < 9)
    assert all(last == first for first, last in reached if first >= 9)


def test_the_window_closes_where_it_would_reach_the_horizon_and_stays_closed() -> None:
    """Three columns and three levels reach four places behind the current token, which begins at place 1."""
    runner = ScriptedRunner([40], horizon=9)
    windows = [step.split.window for step in decode(runner, fixed(window=3), ScriptedPool(), ends(10))]
    assert windows == [8, 8, 8, 8, 0, 0, 0, 0, 0, 0]


@pytest.mark.parametrize(
    ("buckets", "tree", "window"), [((), 9, 5), ((8, 10), 5, 5), ((4,), 4, 0), ((1,), 1, 0)]
)
def test_a_block_fits_the_runners_limit_and_the_window_comes_first(
    buckets: tuple[int, ...], tree: int, window: int
) -> None:
    runner = ScriptedRunner([40])
    runner.same_text_buckets = buckets
    step = next(decode(runner, fixed(3, 3), ScriptedPool([(token,) for token in range(50, 58)])))
    assert (step.rows, step.split) == (tree + window, Split(tree, window))


def test_the_planner_says_what_is_drafted_and_what_is_kept_of_it() -> None:
    planner, pool = Kept(rows=3), ScriptedPool([(1, 2), (3, 4)])
    step = next(decode(ScriptedRunner([40]), planner, pool))
    assert pool.asked == [(100, 5, 0.25)]
    assert step.split.tree == 3


def test_the_planner_is_told_what_a_step_took_and_gave() -> None:
    planner = Kept(rows=9)
    list(decode(ScriptedRunner([40]), planner, ScriptedPool([(13, 40)]), ends(5)))
    assert planner.observed == [(3, 3, True), (2, 1, True), (1, 1, True)]


def test_a_planner_that_backs_off_gets_plain_steps_which_teach_what_was_said_alone() -> None:
    planner, pool, runner = Kept(rows=9, rests=[0, 2]), ScriptedPool([(13, 40)]), ScriptedRunner([40])
    steps = list(islice(decode(runner, planner, pool), 4))
    assert said(steps) == TEXT[:6]
    assert [step.rows for step in steps] == [3, 1, 1, 3]
    assert planner.observed == [(3, 3, True), (1, 1, True), (1, 1, True), (3, 1, True)]
    assert [text[-new:] for text, new, _ in pool.taught] == [[13, 40, 24], [73], [26], [79]]
    assert (steps[2].pool_size, steps[2].split) == (3, Split(1, 0))
    assert (len(pool.asked), len(pool.said)) == (2, 2), "no draft in a plain step"


@pytest.mark.parametrize("limit", range(1, 9))
def test_a_reply_may_end_while_the_planner_backs_off(limit: int) -> None:
    planner, runner = Kept(rows=9, rests=[2] * 9), ScriptedRunner([40])
    steps = list(decode(runner, planner, ScriptedPool([(13, 40)]), ends(limit)))
    assert said(steps) == TEXT[:limit]
    assert [step.reason for step in steps] == [None] * (len(steps) - 1) + ["max_tokens"]
    assert runner.prefix == [*START, *TEXT[: limit - 1]]


def test_a_window_that_never_pays_loses_its_columns() -> None:
    planner = Kept(rows=9, columns=3, worth=0.5)
    steps = list(decode(ScriptedRunner([40]), planner, ScriptedPool(), ends(60)))
    widths = [step.split.window for step in steps]
    assert widths == [5] * 16 + [3] * 16 + [1] * 16 + [0] * 12
    assert planner.sizer.columns == 0


def test_each_decoder_keeps_what_it_learned_for_the_next_turn_of_the_chat() -> None:
    decoder, sampler = make_lookahead(Decoding("lookahead", window=0, ngram=6)), make_sampler(Sampling())
    first = list(decoder(ScriptedRunner([40]), list(START), sampler, ends(20)))
    again = list(decoder(ScriptedRunner([40]), list(START), sampler, ends(20)))
    assert said(first) == said(again) == text_after(START, 20)
    assert len(again) < len(first)
    assert {"history", "successor"} & set(again[0].origins)


def test_a_loop_in_the_text_is_soon_drafted_whole() -> None:
    runner = ScriptedRunner([1], rule=lambda line: (line[-1] + 1) % 5)
    decoder = make_lookahead(Decoding("auto", rows=16))
    steps = list(decoder(runner, [1, 2], make_sampler(Sampling()), ends(80)))
    assert said(steps) == text_after([1, 2], 80, lambda line: (line[-1] + 1) % 5)
    assert max(len(step.tokens) for step in steps) >= 8
    assert len(steps) < 30


def looks_far_back(line: Sequence[int]) -> int:
    """A rule that a wrong path, a missing row or a row too many would change."""
    return sum((place + 1) * token for place, token in enumerate(line)) % 7


@given(
    prompt=st.lists(st.integers(0, 6), min_size=1, max_size=8),
    window=st.integers(0, 6),
    ngram=st.integers(2, 6),
    guesses=st.integers(0, 6),
    rule=st.sampled_from([looks_far_back, triple_plus_one]),
)
def test_lookahead_says_what_plain_says_whatever_w_n_and_g(
    prompt: list[int], window: int, ngram: int, guesses: int, rule: Rule
) -> None:
    decoder = make_lookahead(Decoding("lookahead", window, ngram, guesses))
    sampler = make_sampler(Sampling())
    fast, slow = ScriptedRunner(prompt[:-1], rule), ScriptedRunner(prompt[:-1], rule)
    quick = list(decoder(fast, list(prompt), sampler, ends(25)))
    expected = list(plain(slow, list(prompt), sampler, ends(25)))
    assert said(quick) == said(expected)
    assert fast.prefix == slow.prefix
    assert all(step.rows <= 1 + guesses * (ngram - 1) + max(window * (ngram - 1) - 1, 0) for step in quick)
    assert all(step.rows == step.split.tree + step.split.window for step in quick)
    assert quick[-1].reason == expected[-1].reason == "max_tokens"


@given(prompt=st.lists(st.integers(0, 6), min_size=1, max_size=8), rows=st.integers(0, 256))
def test_auto_says_what_plain_says_at_any_budget(prompt: list[int], rows: int) -> None:
    fast, sampler = ScriptedRunner(prompt[:-1], looks_far_back), make_sampler(Sampling())
    decoder = make_lookahead(Decoding("auto", rows=rows))
    quick = list(decoder(fast, list(prompt), sampler, ends(25)))
    assert said(quick) == text_after(prompt, 25, looks_far_back)
    assert fast.prefix == [*prompt, *said(quick)[:-1]]
