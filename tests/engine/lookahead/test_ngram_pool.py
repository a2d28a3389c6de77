"""The pool and the trees that grow from it, on texts small enough to follow by hand."""

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.engine.block.context_entries import LEADS
from app.engine.lookahead.acceptance_estimator import (
    FORCED,
    NUM_CELLS,
    NUM_FOLLOWER_CODES,
    AcceptanceEstimator,
    successor_code,
)
from app.engine.lookahead.draft_tree import DraftTree
from app.engine.lookahead.ngram_pool import Pool
from app.values.messages import Origin
from tests.engine.lookahead.drafting import pool_of, says

ALL = 10_000
TEXTS = st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=14), min_size=1, max_size=6)
GONE_ON = [1, 2, 3, 4, 5, 6, 7, 8]


def whole(pool: Pool, context: Sequence[int], rows: int = ALL, depth: int = 4) -> DraftTree:
    return pool.draft(context, rows, depth, 0.0)


def lines(tree: DraftTree) -> set[tuple[int, ...]]:
    """The path to every node."""
    paths: list[tuple[int, ...]] = [()]
    for node in range(1, len(tree)):
        paths.append((*paths[tree.parents[node]], tree.tokens[node]))
    return set(paths[1:])


def test_what_followed_before_is_drafted_to_its_end() -> None:
    tree = whole(pool_of(GONE_ON), [1, 2, 3], depth=10)
    assert tree.tokens == [3, 4, 5, 6, 7, 8]
    assert tree.parents == [-1, 0, 1, 2, 3, 4]
    assert tree.origins == ["model", *["document"] * 5]


def test_depth_and_rows_bound_a_tree() -> None:
    pool = pool_of(GONE_ON)
    assert whole(pool, [1, 2], depth=3).tokens == [2, 3, 4, 5]
    assert whole(pool, [1, 2], rows=3).tokens == [2, 3, 4]
    assert [len(whole(pool, [1, 2], rows=1)), len(whole(pool, [1, 2], depth=0))] == [1, 1]
    assert len(whole(pool, [1, 2], depth=-5)) == 1, "at a reply's end there may be no room at all"


def test_the_likeliest_guess_comes_first_and_brings_its_children_along() -> None:
    pool = pool_of()
    says(pool, [1], 2, 3, lead=10.0)
    says(pool, [1, 2], 4, lead=10.0)
    assert whole(pool, [1], rows=3).tokens == [1, 2, 4], "3, far behind 2, has to wait"


def test_the_longest_known_context_speaks() -> None:
    pool = pool_of([9, 1, 10], [8, 1, 11])
    assert lines(whole(pool, [9, 1], depth=1)) == {(10,)}
    assert lines(whole(pool, [8, 1], depth=1)) == {(11,)}
    assert lines(whole(pool, [7, 1], depth=1)) == {(10,), (11,)}


def test_tokens_of_a_text_and_of_the_model_meet_in_one_tree() -> None:
    pool = pool_of([1, 2, 3])
    says(pool, [1, 2], 4, 3)
    tree = whole(pool, [1, 2], depth=1)
    assert sorted(tree.tokens[1:]) == [3, 4]
    origins = dict(zip(tree.tokens, tree.origins, strict=True))
    assert (origins[3], origins[4]) == ("document", "successor")


def test_a_special_token_may_end_a_guess_and_is_never_followed() -> None:
    pool = pool_of([1, 2, 60, 3, 4], special={60})
    assert lines(whole(pool, [1], depth=9)) == {(2,), (2, 60)}
    assert lines(whole(pool, [1, 2, 60], depth=9)) == {(3,), (3, 4)}, "behind a committed one text goes on"


@pytest.mark.parametrize("origin", ["window", "prompt", "output", "document"])
def test_every_text_is_known_by_its_source(origin: Origin) -> None:
    pool = pool_of([1, 2, 3], origin=origin)
    assert whole(pool, [1], depth=2).origins == ["model", origin, origin]


def test_what_was_prompt_and_output_is_history_in_the_next_reply() -> None:
    pool = pool_of()
    pool.begin([1, 2, 3], AcceptanceEstimator())
    pool.learn([1, 2, 3, 4], 1, "output")
    assert whole(pool, [1], depth=3).origins == ["model", "prompt", "prompt", "output"]
    pool.begin([1, 2, 3, 4, 50, 51], AcceptanceEstimator())
    assert whole(pool, [1], depth=5).origins == ["model", *["history"] * 3, *["prompt"] * 2]
    assert whole(pool, [50], depth=1).origins == ["model", "prompt"]


def test_a_document_stays_a_document_in_the_next_reply() -> None:
    pool = pool_of()
    pool.begin([1, 2], AcceptanceEstimator())
    pool.learn([7, 8], 2, "document")
    pool.begin([1, 2, 3], AcceptanceEstimator())
    assert whole(pool, [7], depth=1).origins == ["model", "document"]


def test_a_chat_goes_on_with_all_that_was_its_prompt() -> None:
    pool = pool_of()
    assert pool.is_continued_by([1]), "nothing was said yet"
    pool.begin([1, 2, 3], AcceptanceEstimator())
    pool.learn([1, 2, 3, 4, 5], 2, "output")
    assert pool.is_continued_by([1, 2, 3])
    assert pool.is_continued_by([1, 2, 3, 9]), "the reply may be asked anew"
    assert pool.is_continued_by([1, 2, 3, 4, 5, 6])
    assert pool.is_continued_by([1, 2, 9]), "another first token of the reply is still the same chat"
    assert not pool.is_continued_by([1])
    assert not pool.is_continued_by([1, 9, 3, 4, 5])


def test_a_reply_that_is_asked_anew_learns_its_prompt_but_once() -> None:
    pool = pool_of()
    pool.begin([1, 2, 3], AcceptanceEstimator())
    size = len(pool)
    pool.learn([1, 2, 3, 4], 1, "output")
    pool.begin([1, 2, 3], AcceptanceEstimator())
    assert len(pool) == size + 1
    assert pool.is_continued_by([1, 2, 3])


def test_a_document_is_learned_but_once() -> None:
    pool, once = pool_of(), pool_of()
    for document in ([5, 6, 7], [7, 8]):
        once.learn_document(document)
    for document in ([5, 6, 7], [7, 8], [5, 6, 7]):
        pool.learn_document(document)
    assert pool.edges([5], 1) == once.edges([5], 1) != []


def test_a_continuation_follows_the_likeliest_guesses() -> None:
    assert pool_of(GONE_ON).continuation([1, 2], 4) == [3, 4, 5, 6]


def test_a_continuation_of_the_unknown_is_the_context_once_more() -> None:
    assert pool_of().continuation([7, 8, 9], 5) == [7, 8, 9, 7, 8]
    assert pool_of().continuation([7], 0) == []


@given(texts=TEXTS)
def test_a_text_is_learned_alike_at_once_and_token_by_token(texts: list[list[int]]) -> None:
    at_once, in_pieces = pool_of(*texts), pool_of()
    for text in texts:
        for end in range(1, len(text) + 1):
            in_pieces.learn(text[:end], 1, "document")
    assert len(at_once) == len(in_pieces)
    for text in texts:
        assert at_once.edges(text, 0) == in_pieces.edges(text, 0)


@given(texts=TEXTS, split=st.integers(0, 14))
def test_a_reply_in_steps_teaches_what_the_whole_reply_teaches(texts: list[list[int]], split: int) -> None:
    text = texts[0]
    at_once, in_steps = pool_of(), pool_of()
    at_once.learn(text, len(text), "output")
    in_steps.learn(text[:split], len(text[:split]), "output")
    in_steps.learn(text, len(text[split:]), "output")
    assert len(at_once) == len(in_steps)
    assert all(at_once.edges(text[:end], 0) == in_steps.edges(text[:end], 0) for end in range(1, len(text)))


def test_every_guess_behind_an_accepted_token_counts_whether_it_had_a_row_or_not() -> None:
    estimator = AcceptanceEstimator()
    pool = pool_of([1, 2], [1, 3], [2, 4], estimator=estimator)
    tried = [cell for _, _, cell in (*pool.edges([1], 0), *pool.edges([1, 2], 0))]
    accepted = [cell for _, token, cell in pool.edges([1], 0) if token == 2]
    pool.observe([1], [2, 9])
    assert sum(total for _, total in estimator.counts.values()) == len(tried) == 3
    assert {cell: right for cell, (right, _) in estimator.counts.items() if right} == dict.fromkeys(
        accepted, 1.0
    )


def test_a_kind_of_guess_that_is_always_right_is_soon_drafted_before_others() -> None:
    estimator = AcceptanceEstimator()
    pool = pool_of([1, 2], estimator=estimator)
    says(pool, [1], 3, lead=10.0)
    assert pool.edges([1], 0)[0][1] == 3
    for _ in range(60):
        pool.observe([1], [2])
    assert pool.edges([1], 0)[0][1] == 2


def test_where_guesses_fail_all_reaches_shrink() -> None:
    estimator = AcceptanceEstimator()
    pool = pool_of(GONE_ON, estimator=estimator)
    before = whole(pool, [5]).reaches[1]
    for _ in range(30):
        pool.observe([1], [60])
    assert whole(pool, [5]).reaches[1] < before


def test_the_chances_of_a_reply_are_those_that_it_began_with() -> None:
    doubtful = AcceptanceEstimator()
    doubtful.rates = array("d", [0.01]) * NUM_CELLS
    pool = pool_of(GONE_ON)
    pool.begin([1], doubtful)
    assert whole(pool, [1]).reaches[1] == pytest.approx(0.01)


def test_a_cell_says_what_is_known_of_both_kinds() -> None:
    pool = pool_of()
    says(pool, [1, 2], 3, 4, lead=3.0)
    (_, first, cell), (_, second, other) = pool.edges([1, 2], 0)
    assert (first, second) == (3, 4)
    assert cell == successor_code(2, LEADS + 4) * NUM_FOLLOWER_CODES
    assert other == successor_code(2, 4) * NUM_FOLLOWER_CODES


@dataclass(frozen=True)
class Only:
    """Allows these tokens."""

    tokens: tuple[int, ...]
    forced: list[int]

    def __contains__(self, token: int) -> bool:
        return token in self.tokens


def constrained(pool: Pool, text: Sequence[int], estimator: AcceptanceEstimator | None = None) -> Pool:
    """A reply begins whose grammar wants 9 8 and then anything but 5."""

    def constraint(found: Sequence[int], added: Callable[[], Sequence[int]]) -> Only:
        place = len(found) - len(text) + len(added())
        return Only((9, 8), [(9, 8)[place]]) if place < 2 else Only((1, 2, 3, 4, 6), [])

    pool.begin(text, estimator or AcceptanceEstimator(), constraint=constraint)
    return pool


def test_what_a_grammar_forces_is_drafted_first_and_what_it_refuses_is_not() -> None:
    pool = pool_of([9, 8, 3, 5, 4], [9, 8, 5, 1], [2, 7])
    tree = whole(constrained(pool, [1, 2]), [1, 2])
    assert tree.tokens[:4] == [2, 9, 8, 3] and tree.origins[1:3] == ["grammar", "grammar"]
    assert {(9, 8, 3)} == {line for line in lines(tree) if len(line) == 3}
    assert not {5, 7} & set(tree.tokens)


def test_how_guesses_go_is_no_matter_to_what_a_grammar_forces() -> None:
    sure = constrained(pool_of(), [1, 2])
    unsure = constrained(pool_of(), [1, 2], AcceptanceEstimator(first_trust=0.1))
    assert whole(unsure, [1, 2]).reaches[1] == pytest.approx(whole(sure, [1, 2]).reaches[1])


def test_what_a_grammar_forces_is_counted_in_a_cell_of_its_own() -> None:
    estimator = AcceptanceEstimator()
    pool = constrained(pool_of([2, 9, 8]), [1, 2], estimator)
    before = estimator.rates[FORCED]
    pool.observe([1, 2], [9, 7])
    assert set(estimator.counts) == {FORCED} and estimator.counts[FORCED] == (1, 2)
    assert estimator.rates[FORCED] < before and estimator.trust == 1
