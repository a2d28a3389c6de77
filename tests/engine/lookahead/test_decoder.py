"""The lookahead decoder on a model that is a rule, so that every number can be worked out by hand."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.engine.lookahead import make_lookahead
from app.engine.lookahead.decoder import lookahead
from app.engine.lookahead.pool import Candidate, NGram, NGramPool, Pool
from app.engine.plain import plain
from app.engine.sampling import make_sampler
from app.engine.step import Step
from app.engine.stopping import Stopper
from app.messages import Decoding, Origin, Sampling
from tests.engine.lookahead.scripted_runner import Rule, ScriptedRunner, text_after, triple_plus_one

START = [40, 4]
TEXT = [13, 40, 24, 73, 26, 79, 44, 36]
"""What triple_plus_one says behind START."""

OFF = Decoding(window=0, ngram=4, guesses=0)
"""No window: what is drafted is the pool's affair alone."""


@dataclass
class ScriptedPool:
    """Drafts what it was told to, and remembers what it was taught."""

    drafts: list[NGram] = field(default_factory=list)
    taught: list[tuple[list[int], int, Origin]] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.taught)

    def learn(self, text: Sequence[int], new: int, origin: Origin) -> None:
        self.taught.append((list(text), new, origin))

    def candidates(self, context: Sequence[int]) -> list[Candidate]:
        del context
        return [Candidate(draft, "prompt") for draft in self.drafts]

    def continuation(self, context: Sequence[int], length: int) -> list[int]:
        del context
        return [0] * length

    def tokens(self, origin: Origin) -> list[int]:
        """Every new token that was taught from this source."""
        return [token for text, new, source in self.taught if source == origin for token in text[-new:]]


def ends(max_new_tokens: int = 1000, eos: Sequence[int] = (), stops: Sequence[str] = ()) -> Stopper:
    return Stopper(frozenset(eos), max_new_tokens, 1000, stops, decode=spelled)


def spelled(ids: list[int]) -> str:
    return "".join(f"<{token}>" for token in ids)


def decode(
    runner: ScriptedRunner, decoding: Decoding, stopper: Stopper, pool: Pool, tokens: Sequence[int] = START
) -> Iterator[Step]:
    sampler = make_sampler(Sampling())
    return lookahead(runner, list(tokens), sampler, stopper, decoding=decoding, pool=pool)


def said(steps: Sequence[Step]) -> list[int]:
    return [token for step in steps for token in step.tokens]


def test_four_steps_of_window_pool_and_accepted_tokens_worked_out_by_hand() -> None:
    """The window's first guesses repeat the prompt, 40 4. So its first column happens to run ahead of the text:
    40 -> 24 -> 73, while the text says 4 -> 13 -> 40. When the text comes to 40, the pool knows what follows."""
    runner = ScriptedRunner([40])
    pool = NGramPool(ngram=3, guesses=2)
    steps = decode(runner, Decoding(window=2, ngram=3, guesses=2), ends(), pool)

    # Window: row 0 is 4 40, row 1 is 40 4. It learns 4 40 24 and 40 4 13.
    assert next(steps) == Step((13,), ("model",), rows=4, is_covered=False, pool_size=6)
    assert newest_block(runner) == [4, 40, 40, 4]
    assert guesses(pool, 4, 40) == [(24,), (4, 13)]
    assert guesses(pool, 40) == [(4, 13), (24,)]

    # Row 0 is 13 4, row 1 is 24 13. It learns 13 24 73 and 4 13 40.
    assert next(steps) == Step((40,), ("model",), rows=4, is_covered=False, pool_size=11)
    assert newest_block(runner) == [13, 4, 24, 13]
    assert guesses(pool, 40) == [(4, 13), (24, 73)]

    # Both guesses behind 40 are tried. The second is right to its end and earns 26 as well.
    third = next(steps)
    assert third == Step((24, 73, 26), ("window", "window", "model"), rows=8, is_covered=True, pool_size=18)
    assert newest_block(runner) == [40, 4, 13, 24, 73, 13, 73, 40]
    assert list(runner.blocks[-1].positions) == [3, 4, 5, 4, 5, 4, 4, 5]
    assert runner.prefix == [40, 4, 13, 40, 24, 73]

    # Nothing is known behind 26. The window has moved by one row a step, however many tokens came.
    assert next(steps) == Step((79,), ("model",), rows=4, is_covered=False, pool_size=24)
    assert newest_block(runner) == [26, 40, 26, 24]


def newest_block(runner: ScriptedRunner) -> list[int]:
    return list(runner.blocks[-1].tokens)


def guesses(pool: NGramPool, *context: int) -> list[NGram]:
    return [candidate.tokens for candidate in pool.candidates(context)]


def test_a_right_draft_is_committed_whole_with_the_models_next_token() -> None:
    pool = ScriptedPool([(13, 40, 24)])
    step = next(decode(ScriptedRunner([40]), OFF, ends(), pool))
    assert step == Step((13, 40, 24, 73), ("prompt", "prompt", "prompt", "model"), 4, True, len(pool))
    assert step.is_hit


def test_wrong_drafts_are_covered_steps_without_a_hit_and_cost_their_rows() -> None:
    pool = ScriptedPool([(1, 2), (3, 4)])
    step = next(decode(ScriptedRunner([40]), OFF, ends(), pool))
    assert (step.tokens, step.rows, step.is_covered, step.is_hit) == ((13,), 5, True, False)


def test_without_drafts_a_step_is_neither_covered_nor_a_hit() -> None:
    step = next(decode(ScriptedRunner([40]), OFF, ends(), ScriptedPool()))
    assert (step.rows, step.is_covered, step.is_hit) == (1, False, False)


def test_the_pool_learns_the_prompt_and_then_committed_tokens_alone() -> None:
    pool = ScriptedPool([(13, 40, 1)])
    runner = ScriptedRunner([40])
    steps = decode(runner, OFF, ends(), pool)
    next(steps), next(steps)
    assert pool.tokens("prompt") == START
    assert pool.tokens("output") == TEXT[: len(pool.tokens("output"))] == [13, 40, 24, 73]


def test_what_the_model_says_behind_a_rejected_guess_is_learned() -> None:
    pool = ScriptedPool([(1, 2), (13,)])
    next(decode(ScriptedRunner([40]), OFF, ends(), pool))
    taught = [(text, new) for text, new, origin in pool.taught if origin == "successor"]
    assert taught == [([4, 1, triple_plus_one([1])], 1), ([1, 2, triple_plus_one([2])], 1)]


@pytest.mark.parametrize(
    ("stopper", "reason"),
    [
        (ends(eos=[40]), "eos"),
        (ends(stops=["<40>"]), "stop_string"),
        (ends(stops=["3><40"]), "stop_string"),
        (ends(max_new_tokens=2), "max_tokens"),
    ],
)
def test_an_end_inside_an_accepted_run_cuts_cache_pool_and_text_alike(stopper: Stopper, reason: str) -> None:
    pool, runner = ScriptedPool([(13, 40, 24, 73)]), ScriptedRunner([40])
    steps = list(decode(runner, OFF, stopper, pool))
    assert [step.reason for step in steps] == [reason]
    assert said(steps) == pool.tokens("output") == [13, 40]
    # The last committed token is the next current one: its keys are not there yet.
    assert runner.prefix == [*START, 13]


def test_no_draft_reaches_beyond_the_token_limit() -> None:
    runner = ScriptedRunner([40])
    steps = list(decode(runner, OFF, ends(max_new_tokens=2), ScriptedPool([(13, 40, 24)])))
    assert [len(block) for block in runner.blocks] == [2]
    assert said(steps) == [13, 40]


def test_no_row_reaches_the_horizon() -> None:
    runner = ScriptedRunner([40], horizon=9)
    decoding = Decoding(window=3, ngram=4, guesses=4)
    steps = decode(runner, decoding, ends(12), ScriptedPool([(13, 40, 24)]))
    assert said(list(steps)) == text_after(START, 12)
    reached = [(block.positions[0], max(block.positions)) for block in runner.blocks]
    assert all(last < 9 for first, last in reached if first < 9)
    assert all(last == first for first, last in reached if first >= 9)


def test_each_reply_has_a_pool_of_its_own() -> None:
    decoder = make_lookahead(Decoding(window=0, ngram=3, guesses=4))
    sampler = make_sampler(Sampling())
    sizes = [
        [step.pool_size for step in decoder(ScriptedRunner([40]), list(START), sampler, ends(5))]
        for _ in range(2)
    ]
    assert sizes[0] == sizes[1]


def test_a_loop_in_the_text_is_soon_drafted_whole() -> None:
    runner = ScriptedRunner([1], rule=lambda line: (line[-1] + 1) % 5)
    steps = list(decode(runner, Decoding(window=0, ngram=4), ends(60), NGramPool(4, 8), [1, 2]))
    assert said(steps) == text_after([1, 2], 60, lambda line: (line[-1] + 1) % 5)
    assert len(steps[-2].tokens) == 4
    assert len(steps) < 25


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
    decoder = make_lookahead(Decoding(window=window, ngram=ngram, guesses=guesses))
    sampler = make_sampler(Sampling())
    fast, slow = ScriptedRunner(prompt[:-1], rule), ScriptedRunner(prompt[:-1], rule)
    quick = list(decoder(fast, list(prompt), sampler, ends(25)))
    expected = list(plain(slow, list(prompt), sampler, ends(25)))
    assert said(quick) == said(expected)
    assert fast.prefix == slow.prefix
    assert all(step.rows <= 1 + guesses * (ngram - 1) + max(window * (ngram - 1) - 1, 0) for step in quick)
    assert quick[-1].reason == expected[-1].reason == "max_tokens"
