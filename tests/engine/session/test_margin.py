"""How sure the model was of a token: asked beside replies, which stay as they are."""

from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from app.engine import Engine
from app.engine.session.jobs import MarginJob, fail_job
from app.engine.text.sandbox import Sandbox
from app.errors import BadOption, ModelNotFound, PromptTooLong
from app.values.messages import Prefilling, Request
from app.values.reply_statistics import Margin
from tests.engine.asking import CPU, PROMPT, SECONDS, SHORT, ask, events_of, ids_of
from tests.engine.places import Places

ASKED = Request(CPU, PROMPT, SHORT)


@pytest.fixture
def engine(model_folders: dict[str, Path], measurements: Path, sandbox: Sandbox) -> Iterator[Engine]:
    engine = Engine(Places(model_folders), measurements, sandbox)
    yield engine
    engine.close()


def test_it_is_that_of_the_two_largest_logits_behind_prompt_and_reply(
    engine: Engine, model_folders: dict[str, Path]
) -> None:
    written = ids_of(ask(engine))[:5]
    found = engine.margin(ASKED, written).result(SECONDS)
    tokenizer = AutoTokenizer.from_pretrained(model_folders["tiny"])
    model = AutoModelForCausalLM.from_pretrained(model_folders["tiny"], dtype=torch.float32)
    with torch.inference_mode():
        logits = model(torch.tensor([[*tokenizer(PROMPT).input_ids, *written]])).logits[0, -1]
    best = logits.topk(2)
    assert (found.first, found.second) == tuple(tokenizer.decode([token]) for token in best.indices.tolist())
    assert found.margin == pytest.approx(float(best.values[0] - best.values[1]), abs=1e-4)


def test_the_likeliest_token_is_the_one_that_a_greedy_reply_writes(engine: Engine) -> None:
    ids = ids_of(ask(engine))
    for place in (0, 1, 7):
        found = engine.margin(ASKED, ids[:place]).result(SECONDS)
        assert engine.reader().texts(ids[place : place + 1]) == (found.first,)


@pytest.mark.thorough
def test_replies_before_and_after_are_the_same(engine: Engine) -> None:
    before = ask(engine)
    engine.margin(ASKED, [5, 6, 7])
    after = ask(engine)
    assert ids_of(before) == ids_of(after)
    assert len(events_of(after)) > 3


def test_a_question_that_cannot_be_answered_says_why_and_the_next_is_answered(engine: Engine) -> None:
    lost = engine.margin(replace(ASKED, model=replace(CPU, name="lost")), [])
    long = engine.margin(replace(ASKED, prompt="word " * 2000), [])
    broken = engine.margin(ASKED, [99_999])
    assert isinstance(lost.exception(SECONDS), ModelNotFound)
    assert isinstance(long.exception(SECONDS), PromptTooLong)
    assert isinstance(broken.exception(SECONDS), BadOption)
    assert engine.margin(ASKED, []).result(SECONDS).margin > 0


class CancellingSession:
    """Yields the progress of a prompt. The caller cancels its question after the first part."""

    info, peak = None, 0

    def __init__(self, answer: Future[Margin]) -> None:
        self.answer, self.parts = answer, 0

    def margin(self, *_: object) -> Iterator[Prefilling | Margin]:
        for self.parts in (1, 2, 3):
            yield Prefilling(self.parts, 3)
            self.answer.cancel()
        yield Margin("a", "b", 1.0)


def test_a_question_that_is_cancelled_ends_its_work(engine: Engine) -> None:
    answer: Future[Margin] = Future()
    job, session = MarginJob(ASKED, (), answer), CancellingSession(answer)
    engine._answer_margin(session, job)  # type: ignore[arg-type]
    assert (session.parts, answer.cancelled()) == (2, True)
    session.parts = 0
    engine._answer_margin(session, job)  # type: ignore[arg-type]
    assert session.parts == 0, "a question that was cancelled in the queue is not begun"
    fail_job(job, BadOption("The model failed, too."))
    assert engine.margin(ASKED, []).result(SECONDS).margin > 0
