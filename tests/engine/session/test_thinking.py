"""Thinking as the person's choice, and what a template tells of turns, through the whole engine."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from app.conversation import Reply
from app.engine import Engine
from app.values.chat_format import Thinking
from app.values.logits import Grammar, LogitsSettings
from app.values.messages import (
    DecoderName,
    Decoding,
    Finished,
    Message,
    Options,
    Piece,
    Prompt,
    Request,
    Sampling,
)
from tests.engine.asking import CPU, events_of
from tests.engine.places import Places
from tests.engine.scripted import write_scripted
from tests.tiers import some, tiered

TURNS = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{% if m.reasoning_content %}<think>\n{{ m.reasoning_content }}\n</think>\n\n{% endif %}"
    "{{ m.content }}<|im_end|>\n{% endfor %}<|im_start|>assistant\n"
)
SWITCHED = (
    TURNS + "{% if enable_thinking is defined and not enable_thinking %}<think>\n\n</think>\n\n{% endif %}"
)
THOUGHT = "<think>\nA person says hi. I may say hi as well, or say hello. So hello.\n</think>\n\nHello there!"
HI = (Message("user", "Hi"),)
GREETING = Grammar("regex", "Hello there!")
BUDGETS = (("thinks", 5), ("thinks", 0), ("thinks", 1_000), ("opened", 18))
FORCED = {f"{model}-{most}": (model, most) for model, most in product(("opened", "thinks"), (0, 8))}
ALL: tuple[DecoderName, ...] = ("plain", "auto", "lookahead", "prompt-lookup", "jacobi")


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory, measurements: Path) -> Iterator[Engine]:
    root = tmp_path_factory.mktemp("scripted")
    folders = [
        write_scripted(root / "thinks", THOUGHT, SWITCHED),
        write_scripted(root / "opened", THOUGHT.removeprefix("<think>\n"), TURNS + "<think>\n"),
        write_scripted(root / "unlisted", "Hello.", TURNS, eos="<|endoftext|>", more="user\nHi, hi.\n"),
    ]
    engine = Engine(Places({folder.name: folder.path for folder in folders}), measurements)
    yield engine
    engine.close()


def reply(
    engine: Engine,
    model: str,
    options: Options,
    prompt: Prompt = HI,
    variables: str = "",
    grammar: Grammar | None = None,
) -> tuple[str, Finished]:
    asked, logits = Reply(), LogitsSettings(grammar=grammar)
    engine.submit(
        Request(replace(CPU, name=model), prompt, options, logits=logits, variables=variables), asked
    )
    events = events_of(asked)
    assert isinstance(events[-1], Finished), events[-1]
    return "".join(event.text for event in events if isinstance(event, Piece)), events[-1]


def test_a_turn_ends_with_the_templates_control_token_though_no_file_names_it(engine: Engine) -> None:
    text, finished = reply(engine, "unlisted", Options())
    assert (text, finished.reason) == ("Hello.", "eos")


def test_the_model_tells_its_levels_of_thinking(engine: Engine) -> None:
    _, finished = reply(engine, "thinks", Options())
    assert [mode.level for mode in finished.model.chat_format.modes] == ["on", "off"]


@pytest.mark.parametrize("level", ["off", "minimal"])
def test_a_thought_that_is_switched_off_is_in_the_prompt(engine: Engine, level: str) -> None:
    usual = reply(engine, "thinks", Options())[1].statistics.prompt_tokens
    thinking = Thinking(level)  # type: ignore[arg-type]
    off = reply(engine, "thinks", Options(thinking=thinking))[1].statistics.prompt_tokens
    by_variable = reply(engine, "thinks", Options(), variables='{"enable_thinking": false}')[1]
    assert off == by_variable.statistics.prompt_tokens == usual + len("<think>\n\n</think>\n\n")
    reader = engine.reader()
    assert (reader.count(HI), reader.count(HI, thinking)) == (usual, off)


@tiered(
    lambda *ids: ids in {("thinks-0", "greedy"), ("thinks-5", "greedy"), ("opened-18", "sampled")},
    case={f"{model}-{most}": (model, most) for model, most in BUDGETS},
    sampling={"greedy": Sampling(), "sampled": Sampling(1.0, seed=7)},
)
def test_every_decoder_writes_the_same_text_under_a_budget(
    engine: Engine, case: tuple[str, int], sampling: Sampling
) -> None:
    model, budget = case
    options = Options(sampling, max_new_tokens=120, thinking=Thinking(budget=budget))
    texts = {reply(engine, model, replace(options, decoding=Decoding(decoder)))[0] for decoder in ALL}
    assert len(texts) == 1
    assert "</think>\n\n" in texts.pop()


def test_a_budget_closes_the_thought_in_the_models_own_way_and_the_reply_goes_on(engine: Engine) -> None:
    text, _ = reply(engine, "thinks", Options(thinking=Thinking(budget=9)))
    assert text.startswith("<think>\nA person\n</think>\n\n")
    assert text.endswith("Hello there!")
    opened, _ = reply(engine, "opened", Options(thinking=Thinking(budget=8)))
    assert opened.startswith("<think>\nA person\n</think>\n\n")


def test_a_thought_that_ends_by_itself_is_not_changed(engine: Engine) -> None:
    whole, _ = reply(engine, "thinks", Options())
    assert reply(engine, "thinks", Options(thinking=Thinking(budget=200)))[0] == whole == THOUGHT


def test_a_continued_thought_is_closed_by_the_budget_as_in_one_go(engine: Engine) -> None:
    options = Options(thinking=Thinking(budget=12))
    whole, _ = reply(engine, "thinks", options)
    begun, _ = reply(engine, "thinks", replace(options, max_new_tokens=15))
    rest, _ = reply(engine, "thinks", options, (*HI, Message("assistant", begun)))
    assert begun + rest == whole


@pytest.mark.parametrize("case", some(FORCED, "thinks-0", "opened-8"))
def test_every_decoder_thinks_before_an_answer_of_a_given_form(engine: Engine, case: tuple[str, int]) -> None:
    model, budget = case
    options = Options(max_new_tokens=120, thinking=Thinking(budget=budget))
    texts = {
        reply(engine, model, replace(options, decoding=Decoding(decoder)), grammar=GREETING)[0]
        for decoder in ALL
    }
    (text,) = texts
    thought = THOUGHT if not budget else "<think>\nA person\n</think>\n\nHello there!"
    assert text.split() == thought.split()


def test_an_answer_of_a_given_form_has_no_thought_if_thinking_is_off_or_the_prompt_has_no_template(
    engine: Engine,
) -> None:
    off = Options(thinking=Thinking("off"))
    assert reply(engine, "thinks", off, grammar=GREETING)[0] == "Hello there!"
    assert reply(engine, "thinks", Options(), "Hi", grammar=GREETING)[0] == "Hello there!"
