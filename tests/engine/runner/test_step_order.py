"""A step is reported and shown before the next one on a CPU, and beside it on a card; the text is the same."""

from collections.abc import Iterator
from typing import get_args

import pytest

from app.engine.runner.step import Step, in_turn, overlapped
from app.engine.sampling.sampling import make_sampler
from app.engine.session.decoders import make_decoder
from app.engine.text.stopping import StoppingCriteria
from app.values.messages import DecoderName, Decoding, Sampling, StopReason
from tests.engine.lookahead.scripted_runner import ScriptedRunner, text_after


class NotedSteps:
    """Two steps that note what is done with them."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self._launched = self._finished = 0

    def launch(self) -> None:
        self._launched += 1
        self.notes.append(f"launch {self._launched}")

    def finish(self) -> StopReason | None:
        self._finished += 1
        self.notes.append(f"finish {self._finished}")
        return "eos" if self._finished == 2 else None

    def report(self) -> Step:
        self.notes.append(f"report {self._finished}")
        return Step((self._finished,), ("model",), 1)


def test_in_turn_a_step_is_shown_before_the_next_is_launched() -> None:
    steps = NotedSteps()
    shown = shows(steps, in_turn(steps))
    assert shown == [1, 2]
    assert steps.notes == [
        *("launch 1", "finish 1", "report 1", "show 1"),
        *("launch 2", "finish 2", "report 2", "show 2"),
    ]


def test_overlapped_it_is_reported_and_shown_while_the_next_is_computed() -> None:
    steps = NotedSteps()
    shown = shows(steps, overlapped(steps))
    assert shown == [1, 2]
    assert steps.notes == [
        *("launch 1", "finish 1", "launch 2", "report 1", "show 1"),
        *("finish 2", "report 2", "show 2"),
    ]


def test_a_finished_step_is_shown_although_the_next_cannot_be_launched() -> None:
    class Failing(NotedSteps):
        def launch(self) -> None:
            if self._launched:
                raise MemoryError
            super().launch()

    made = overlapped(Failing())
    assert next(made).tokens == (1,)
    with pytest.raises(MemoryError):
        next(made)


def shows(steps: NotedSteps, made: Iterator[Step]) -> list[int]:
    shown = []
    for step in made:
        steps.notes.append(f"show {step.tokens[0]}")
        shown.append(step.tokens[0])
    return shown


@pytest.mark.parametrize("limit", [1, 2, 30])
@pytest.mark.parametrize("name", get_args(DecoderName))
def test_every_decoder_says_the_same_on_a_device_that_computes_beside_the_host(
    name: DecoderName, limit: int
) -> None:
    said = []
    for is_asynchronous in (False, True):
        runner = ScriptedRunner([40])
        runner.is_asynchronous = is_asynchronous
        stopper = StoppingCriteria(frozenset(), limit, 1000, (), decode=str)
        steps = list(make_decoder(Decoding(name))(runner, [40, 4], make_sampler(Sampling()), stopper))
        said.append([token for step in steps for token in step.tokens])
        assert steps[-1].reason == "max_tokens"
    assert said == [text_after([40, 4], limit)] * 2


def test_of_a_stopped_reply_nothing_is_kept_that_was_not_shown() -> None:
    runner = ScriptedRunner([40])
    runner.is_asynchronous = True
    stopper = StoppingCriteria(frozenset(), 30, 1000, (), decode=str)
    steps = make_decoder(Decoding())(runner, [40, 4], make_sampler(Sampling()), stopper)
    assert isinstance(steps, Iterator)
    shown = list(next(steps).tokens)
    steps.close()  # type: ignore[attr-defined]
    assert len(runner.blocks) == 2
    assert [*runner.prefix, *shown[-1:]] == [40, 4, *shown]
