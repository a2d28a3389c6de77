"""What a draft model is worth at first is what it says of a text that its target reads, too."""

import pytest
import torch
from app.engine.loading.draft_trial import CHUNKS, ROWS, USUAL, first_lessons, lessons_of_words, logits_along

from app.engine.drafters.draft_model import DraftModel, RunnerLineReader
from app.engine.drafters.model_drafter import Lessons
from app.engine.runner.runner import BlockRunner
from tests.engine.architectures import GEMMA3, LLAMA, VOCABULARY, Architecture
from tests.engine.replies import Zoo, numbers

TEXT = list(numbers(100, seed=3))


def runner_of(zoo: Zoo, architecture: Architecture = LLAMA) -> BlockRunner:
    runner = zoo.runner(architecture)
    assert isinstance(runner, BlockRunner)
    return runner


def test_a_copy_is_always_right(zoo: Zoo) -> None:
    runner = runner_of(zoo)
    lessons = first_lessons(runner, runner, TEXT, VOCABULARY)
    assert lessons.gain == pytest.approx(1 - USUAL)
    assert runner.length == 0, "the text is dropped"


def test_one_that_knows_nothing_of_the_target_brings_nothing(zoo: Zoo) -> None:
    lessons = first_lessons(runner_of(zoo), runner_of(zoo, GEMMA3), TEXT, VOCABULARY)
    assert lessons.gain == 0


def test_one_that_is_asked_place_by_place_is_judged_alike(zoo: Zoo) -> None:
    target = runner_of(zoo)
    for architecture, gain in ((LLAMA, 1 - USUAL), (GEMMA3, 0.0)):
        draft = DraftModel(RunnerLineReader(runner_of(zoo, architecture)), "draft", VOCABULARY)
        lessons, seconds = lessons_of_words(target, draft, TEXT)
        assert lessons.gain == pytest.approx(gain)
        assert seconds > 0


@pytest.mark.parametrize("text", [[], TEXT[:ROWS]], ids=["none", "short"])
def test_a_text_that_is_too_short_tells_nothing(zoo: Zoo, text: list[int]) -> None:
    runner = runner_of(zoo)
    assert first_lessons(runner, runner_of(zoo), text, VOCABULARY) == Lessons()
    draft = DraftModel(RunnerLineReader(runner), "draft", VOCABULARY)
    assert lessons_of_words(runner, draft, text) == (Lessons(), 0.0)


def test_logits_are_those_of_one_pass_after_another(zoo: Zoo) -> None:
    runner = runner_of(zoo)
    text = TEXT[: 1 + CHUNKS * ROWS]
    found = logits_along(runner, text)
    assert len(found) == len(text)
    again = logits_along(runner, text[: 1 + ROWS])
    assert torch.allclose(found[: 1 + ROWS], again, atol=1e-5)
