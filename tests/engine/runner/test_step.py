"""What a step and a reply add up to, and in which order the parts of steps run; the text is the same in each."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from typing import get_args

import pytest
from torch import Tensor

from app.engine.attention import Attend, BlockView, LayerCache, Scoring, sdpa
from app.engine.attention.backend_choice import Attention
from app.engine.decoders import make_decoder
from app.engine.runner.runner import compile_variants
from app.engine.runner.step import FirstToken, StatisticsMeter, Step, StepInParts, in_turn, overlapped
from app.engine.sampling.sampling import make_sampler
from app.engine.text.stopping_criteria import StoppingCriteria
from app.values.messages import DecoderName, Decoding, Origin, Sampling, Split
from tests.engine.architectures import LLAMA
from tests.engine.lookahead.scripted_runner import ScriptedRunner, text_after
from tests.engine.replies import load


def noting(name: str, calls: list[str]) -> Attend:
    """Attends, and notes that it was asked."""

    def attend(query: Tensor, cache: LayerCache, view: BlockView, scoring: Scoring) -> Tensor:
        calls.append(name)
        return sdpa.attend(query, cache, view, scoring)

    return attend


def test_every_variant_attends_once_in_every_layer() -> None:
    calls: list[str] = []
    spans, groups = noting("spans", calls), noting("groups", calls)
    model = LLAMA.make()
    load(model)
    compile_variants(model, Attention("triton", spans, spans, variants=(spans, groups)))
    layers = int(model.config.num_hidden_layers)
    assert calls == ["spans"] * layers + ["groups"] * layers


def test_a_step_with_a_drafted_token_is_a_hit() -> None:
    assert Step((1, 2), ("window", "model"), rows=4).is_hit
    assert not Step((2,), ("model",), rows=4).is_hit


@pytest.mark.parametrize(("tokens", "origins"), [((), ()), ((1, 2), ("model",))])
def test_a_step_commits_tokens_with_an_origin_each(
    tokens: tuple[int, ...], origins: tuple[Origin, ...]
) -> None:
    with pytest.raises(ValueError, match="a step needs tokens and one origin for each of them, not"):
        Step(tokens, origins, rows=1)


def test_the_numbers_add_up_and_the_first_token_counts_in_neither_tokens_nor_steps() -> None:
    meter = StatisticsMeter(prompt_tokens=9)
    first = meter.first_token(FirstToken(5, reused=4))
    assert (first.tokens, first.steps, first.prompt_tokens, first.reused_tokens) == (0, 0, 9, 4)
    meter.add(Step((1, 2, 3), ("window", "prompt", "model"), rows=10, is_covered=True, pool_size=7))
    meter.add(Step((4,), ("model",), rows=6, is_covered=True, pool_size=8))
    numbers = meter.add(Step((5,), ("model",), rows=2, pool_size=8))
    assert (numbers.tokens, numbers.steps, numbers.hits, numbers.covered) == (5, 3, 1, 2)
    assert (numbers.rows, numbers.pool_size) == (18, 8)
    assert (numbers.tokens_per_step, numbers.rows_per_step) == (5 / 3, 6.0)


def test_the_cost_of_steps_adds_up_in_plain_steps_and_says_how_much_time_was_saved() -> None:
    meter = StatisticsMeter(prompt_tokens=9, cost_of=lambda rows: 1 + rows / 8)
    meter.add(Step((1, 2, 3), ("window", "prompt", "model"), rows=10, split=Split(10, 0, 1.5)))
    numbers = replace(meter.add(Step((4, 5), ("output", "model"), rows=4)), seconds=2.0)
    assert (numbers.cost, numbers.speed_up, numbers.plain_seconds) == (3.0, 5 / 3, 10 / 3)
    unknown = StatisticsMeter(prompt_tokens=9).add(Step((1,), ("model",), rows=1))
    assert (unknown.cost, unknown.speed_up, unknown.plain_seconds) == (0.0, 0.0, 0.0)


def test_plain_decoding_is_exactly_one_token_per_step() -> None:
    meter = StatisticsMeter(prompt_tokens=1)
    meter.first_token(FirstToken(5, reused=0))
    for token in range(7):
        meter.add(Step((token,), ("model",), rows=1))
    assert meter.statistics.tokens_per_step == 1.0


def test_time_is_counted_from_the_first_token_on() -> None:
    meter = StatisticsMeter(prompt_tokens=1)
    first = meter.first_token(FirstToken(5, reused=0))
    numbers = meter.add(Step((1,), ("model",), rows=1))
    assert (first.seconds, first.time_to_first_token > 0) == (0.0, True)
    assert numbers.time_to_first_token == first.time_to_first_token
    assert numbers.seconds > 0


def noted_steps(notes: list[str], fails_at: int = 0) -> Callable[[], StepInParts]:
    """Two steps that note what is done with them; launching step `fails_at` fails."""
    numbers = count(1)

    def step() -> StepInParts:
        number = next(numbers)
        if number == fails_at:
            raise MemoryError
        notes.append(f"launch {number}")
        yield None
        notes.append(f"finish {number}")
        yield "eos" if number == 2 else None
        notes.append(f"report {number}")
        return Step((number,), ("model",), 1)

    return step


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        (in_turn, "launch 1, finish 1, report 1, show 1, launch 2, finish 2, report 2, show 2"),
        (overlapped, "launch 1, finish 1, launch 2, report 1, show 1, finish 2, report 2, show 2"),
    ],
    ids=["in turn", "overlapped"],
)
def test_a_step_is_shown_before_the_next_is_launched_or_while_it_is_computed(
    order: Callable[[Callable[[], StepInParts]], Iterator[Step]], expected: str
) -> None:
    notes: list[str] = []
    for step in order(noted_steps(notes)):
        notes.append(f"show {step.tokens[0]}")
    assert ", ".join(notes) == expected


def test_a_finished_step_is_shown_although_the_next_cannot_be_launched() -> None:
    made = overlapped(noted_steps([], fails_at=2))
    assert next(made).tokens == (1,)
    with pytest.raises(MemoryError):
        next(made)


@pytest.mark.parametrize("limit", [1, 2, 30])
@pytest.mark.parametrize("name", get_args(DecoderName))
def test_every_decoder_says_the_same_on_a_device_that_computes_beside_the_host(
    name: DecoderName, limit: int
) -> None:
    said = []
    for is_asynchronous in (False, True):
        runner = ScriptedRunner([40])
        runner.is_asynchronous = is_asynchronous
        stopper = StoppingCriteria(frozenset(), limit, 1000)
        steps = list(make_decoder(Decoding(name))(runner, [40, 4], make_sampler(Sampling()), stopper))
        said.append([token for step in steps for token in step.tokens])
        assert steps[-1].reason == "max_tokens"
    assert said == [text_after([40, 4], limit)] * 2


def test_of_a_stopped_reply_nothing_is_kept_that_was_not_shown() -> None:
    runner = ScriptedRunner([40])
    runner.is_asynchronous = True
    stopper = StoppingCriteria(frozenset(), 30, 1000)
    steps = make_decoder(Decoding())(runner, [40, 4], make_sampler(Sampling()), stopper)
    assert isinstance(steps, Iterator)
    shown = list(next(steps).tokens)
    steps.close()  # type: ignore[attr-defined]
    assert len(runner.blocks) == 2
    assert [*runner.prefix, *shown[-1:]] == [40, 4, *shown]
