"""Prompt lookup: where the copy comes from, and what a step makes of it."""

from collections.abc import Sequence

import pytest

from app.engine.decoders.prompt_lookup import Occurrences, prompt_lookup
from app.engine.runner.step import Step
from app.engine.sampling.sampling import make_sampler
from app.engine.text.stopping_criteria import StoppingCriteria
from app.values.largest_step import PROMPT_LOOKUP_DRAFTS
from app.values.messages import Sampling
from tests.engine.lookahead.scripted_runner import Rule, ScriptedRunner, text_after

LOOP: Rule = lambda line: (line[-1] + 1) % 5  # noqa: E731


def drafted(text: Sequence[int], length: int) -> list[int]:
    occurrences = Occurrences()
    occurrences.read(text)
    return [text[place] for place in occurrences.next_positions(text, length)]


def decode(runner: ScriptedRunner, tokens: list[int], limit: int) -> list[Step]:
    stopper = StoppingCriteria(frozenset(), limit, 1000)
    return list(prompt_lookup(runner, tokens, make_sampler(Sampling()), stopper))


@pytest.mark.parametrize(
    ("text", "copy"),
    [
        ([1, 2, 3, 9, 1, 2, 3], [9, 1, 2, 3, 9, 1]),
        ([5, 6, 7, 8, 6], [7, 8, 6, 7, 8, 6]),
        ([4, 4], [4, 4, 4, 4, 4, 4]),
        ([1, 2, 3], []),
        ([1], []),
    ],
)
def test_the_draft_is_a_copy_that_may_run_into_itself(text: list[int], copy: list[int]) -> None:
    assert drafted(text, 6) == copy


def test_a_longer_context_beats_a_newer_place() -> None:
    assert drafted([1, 2, 3, 50, 9, 3, 60, 1, 2, 3], 1) == [50]


def test_of_equal_contexts_the_newest_place_counts() -> None:
    assert drafted([3, 50, 3, 60, 3], 1) == [60]


def test_a_text_read_in_parts_is_the_text_read_whole() -> None:
    text = [1, 2, 1, 2, 3, 1, 2, 3, 4, 1, 2]
    parts, whole = Occurrences(), Occurrences()
    for end in range(1, len(text) + 1):
        parts.read(text[:end])
    whole.read(text)
    assert parts.next_positions(text, 5) == whole.next_positions(text, 5)
    assert len(parts) == len(whole)


def test_tokens_of_the_prompt_and_of_the_output_are_told_apart() -> None:
    # The prompt is 0 1 2 3 4 0; the reply's first token, 1, is here already. The copy leaves the prompt at 1.
    step = decode(ScriptedRunner([0, 1, 2, 3, 4, 0], LOOP), [0, 1, 2, 3, 4, 0, 1], limit=8)[0]
    assert step.tokens == (2, 3, 4, 0, 1, 2, 3, 4)
    assert step.origins == ("prompt",) * 4 + ("output",) + ("prompt",) * 2 + ("model",)
    assert (step.rows, step.is_covered, step.pool_size > 0) == (8, True, True)


def test_a_loop_is_drafted_whole_once_it_has_been_seen() -> None:
    runner = ScriptedRunner([0], LOOP)
    steps = decode(runner, [0, 1], limit=60)
    assert [token for step in steps for token in step.tokens] == text_after([0, 1], 60, LOOP)
    assert [len(step.tokens) for step in steps[:6]] == [
        1,
        1,
        1,
        1,
        1 + PROMPT_LOOKUP_DRAFTS,
        1 + PROMPT_LOOKUP_DRAFTS,
    ]


def test_no_row_reaches_the_horizon_or_the_limit() -> None:
    runner = ScriptedRunner([0, 1, 2, 3, 4, 0], LOOP, horizon=12)
    decode(runner, [0, 1, 2, 3, 4, 0, 1], limit=9)
    assert max(runner.blocks[0].positions) == 11
    assert max(runner.blocks[-1].positions) <= 6 + 9 - 1
