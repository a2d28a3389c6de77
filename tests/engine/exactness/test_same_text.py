"""Padding changes no committed token, and in half precision it makes lookahead's text plain's."""

from dataclasses import replace
from pathlib import Path

import pytest

from app.engine.block.step_profile import Buckets
from app.engine.decoders.lookahead_decoder import make_lookahead
from app.engine.session.session import Session
from app.values.messages import (
    Decoding,
    DType,
    Finished,
    ModelChoice,
    ModelFolder,
    Options,
    Piece,
    Progress,
    Request,
    Sampling,
)
from app.values.quantisation_sizes import Quantisation
from tests.engine.architectures import LLAMA, WINDOW
from tests.engine.replies import GREEDY, Zoo, numbers, says_plainly, write
from tests.engine.tiny import DEMO, STORIES
from tests.tiers import named, numbered, some, tiered

PROMPT = numbers(WINDOW + 18)
SAMPLINGS = {"greedy": GREEDY, "sampled": Sampling(temperature=0.8, seed=3)}
QUESTIONS = ("Hello, who are you?", "How do I list the files of a folder?", "What can you do?")
BEGINNINGS = (
    "Once upon a time, there was a little girl named Lily.",
    "Tom and Sam were playing in the garden when",
    "One day, a small dog found a big red ball",
    "The old tree in the park was very sad because",
)
PROMPTS = [*(("demo", question) for question in QUESTIONS), *(("stories", begun) for begun in BEGINNINGS)]


@pytest.mark.parametrize("buckets", some(named([(40,), (1, 48), (2, 3, 5, 128)]), "(1, 48)"))
def test_any_buckets_will_do_that_hold_the_block(zoo: Zoo, buckets: Buckets) -> None:
    runner = zoo.runner(LLAMA)
    expected = says_plainly(runner, PROMPT)
    runner.forget()
    assert write(runner, PROMPT, make_lookahead(Decoding()), buckets=buckets).tokens == expected.tokens
    assert runner.max_rows == buckets[-1]


def locate(name: str, _progress: Progress) -> ModelFolder:
    """The models that have learned something."""
    return ModelFolder({"stories": STORIES, "demo": DEMO}[name], name)


def ids_of(
    session: Session, model: str, prompt: str, options: Options, quantisation: Quantisation = "none"
) -> list[int]:
    request = Request(ModelChoice(model, "bfloat16", "cpu", quantisation), prompt, options)
    events = list(session.events(request, lambda *_progress: None))
    assert isinstance(events[-1], Finished)
    return [token for event in events if isinstance(event, Piece) for token in event.token_ids]


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Session:
    return Session(locate, tmp_path_factory.mktemp("steps"))


@pytest.mark.shared
@tiered(
    lambda asked, sampling: (asked, sampling) == ("3", "sampled"), asked=numbered(PROMPTS), sampling=SAMPLINGS
)
def test_in_bfloat16_lookahead_writes_what_plain_writes(
    session: Session, asked: tuple[str, str], sampling: Sampling
) -> None:
    model, prompt = asked
    if model == "stories" and not STORIES.exists():
        pytest.skip("the trained model stories260K is not beside this checkout")
    options = Options(sampling, Decoding("lookahead"), max_new_tokens=80, ignore_eos=True)
    plain = replace(options, decoding=Decoding("plain"))
    session.forget()
    off = ids_of(session, model, prompt, plain)
    session.forget()
    assert ids_of(session, model, prompt, options) == off


@tiered(
    lambda *_: False, quantisation=named(("int8", "int4")), sampling=SAMPLINGS, prompt=numbered(QUESTIONS[:2])
)
def test_in_bfloat16_quantised_lookahead_writes_what_quantised_plain_writes(
    session: Session, quantisation: Quantisation, sampling: Sampling, prompt: str
) -> None:
    options = Options(sampling, Decoding("lookahead"), max_new_tokens=40, ignore_eos=True)
    plain = replace(options, decoding=Decoding("plain"))
    session.forget()
    off = ids_of(session, "demo", prompt, plain, quantisation)
    session.forget()
    assert ids_of(session, "demo", prompt, options, quantisation) == off


@pytest.mark.thorough
def test_with_same_text_off_nothing_is_padded(session: Session) -> None:
    options = Options(decoding=Decoding("plain", same_text=False), max_new_tokens=3)
    ids_of(session, "demo", "Hello", options)
    assert (
        session.open(ModelChoice("demo", "bfloat16", "cpu"), lambda *_: None).runner.same_text_buckets == ()
    )


@pytest.mark.thorough
@pytest.mark.parametrize("dtype", some(named(["float32", "bfloat16"]), "bfloat16"))
def test_what_was_measured_is_remembered_for_the_next_start(tmp_path: Path, dtype: DType) -> None:
    choice = ModelChoice("demo", dtype, "cpu")
    seen: list[str] = []

    def progress(what: str, _done: int, _total: int) -> None:
        seen.append(what)

    first = Session(locate, tmp_path).open(choice, progress)
    assert "Measuring the model's step" in seen
    if not first.profile.is_whole:
        pytest.skip("this machine was too busy to measure everything, so that it is measured again")
    seen.clear()
    again = Session(locate, tmp_path).open(choice, progress)
    assert "Measuring the model's step" not in seen
    assert again.profile == first.profile
    assert again.info.note("same-text") == first.info.note("same-text") != ""
