"""A model's folder may want to hang, exhaust or fool the app: it ends in a sentence, and the app goes on."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from time import monotonic, process_time

import pytest

from app.conversation import Reply
from app.engine import Engine
from app.engine.text.sandbox import SECONDS as LIMITS
from app.errors import ModelError
from app.models_registry.files.fit_estimate import judge_folder
from app.models_registry.locate import locate
from app.system.machine import memories
from app.values.messages import Message, ModelChoice, Options, Request
from tests.engine.asking import events_of, failure, ids_of
from tests.engine.hostile import HARMLESS, REFUSED, Spoil, template
from tests.support.waiting import PATIENCE, until

CHEAP = (
    "no sizes at all", "a config of 500 MB", "a generation config that is a pipe", "code of its own",
    "a template that calls itself", "a tokenizer that panics when it is read", "offsets that overlap",
)  # fmt: skip
"""The default suite's; the others are tried with --thorough."""
"""For a machine that does much else; by itself it takes a fifth of that."""
GROWTH = 2 * 2**30


def each(names: dict[str, object]) -> list[object]:
    return [
        pytest.param(name, marks=[] if name in CHEAP else pytest.mark.thorough, id=name) for name in names
    ]


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """One for all of them: it survives each."""
    engine = Engine(locate, tmp_path_factory.mktemp("steps"))
    yield engine
    engine.close()


@pytest.fixture
def folder(model_folders: dict[str, Path], tmp_path: Path) -> Path:
    """A copy of a tiny model, to be spoilt."""
    return Path(shutil.copytree(model_folders["tiny"], tmp_path / "tiny"))


def ask(engine: Engine, folder: Path, text: str = "hi") -> Reply:
    reply = Reply()
    choice = ModelChoice(str(folder), "float32", "cpu")
    engine.submit(Request(choice, (Message("user", text),), Options(max_new_tokens=3)), reply)
    return reply


def address_space() -> int:
    """Bytes of this process's address space; 0 where nobody counts them."""
    counted = Path("/proc/self/statm")
    return int(counted.read_text().split()[0]) * 4096 if counted.exists() else 0


def assert_one_sentence(sentence: str, named: str) -> None:
    assert named in sentence
    assert sentence.endswith(".")
    assert ": " in sentence or ". " in sentence, "what to do stands behind what is wrong"
    assert "\n" not in sentence
    assert "Something went wrong" not in sentence
    assert len(sentence) < 700


@pytest.mark.parametrize("name", each(dict(REFUSED)))
def test_a_hostile_folder_ends_in_a_sentence_and_the_model_before_it_answers_on(
    engine: Engine, folder: Path, model_folders: dict[str, Path], name: str
) -> None:
    before = ids_of(ask(engine, model_folders["other"]))
    named, spoil = REFUSED[name]
    spoil(folder)
    space, begun = address_space(), monotonic()
    sentence = failure(ask(engine, folder))
    assert monotonic() - begun < PATIENCE
    assert address_space() - space < GROWTH
    assert_one_sentence(sentence, named)
    assert engine.status().phase == "ready"
    assert ids_of(ask(engine, model_folders["other"])) == before


@pytest.mark.parametrize("name", each(dict(HARMLESS)))
def test_what_is_only_odd_loads_and_never_runs_code(engine: Engine, folder: Path, name: str) -> None:
    HARMLESS[name](folder)
    choice = ModelChoice(str(folder), "float32", "cpu")
    reply = Reply()
    engine.submit(Request(choice, "Once upon a time", Options(max_new_tokens=3)), reply)
    assert ids_of(reply)
    events_of(ask(engine, folder))  # a template may refuse the chat, in words


@pytest.mark.thorough
@pytest.mark.parametrize("name", list(REFUSED))
def test_looking_at_a_hostile_folder_takes_a_moment(folder: Path, name: str) -> None:
    REFUSED[name][1](folder)
    begun = process_time()
    try:
        judge_folder(folder, "tiny", memories()[0], "bfloat16", 4096)
    except ModelError as error:
        assert_one_sentence(str(error), "")
    assert process_time() - begun < 5


LOOPS = (
    "{% if messages[0].content == 'loop' %}{% for i in range(99999) %}{% for j in range(99999) %}"
    "{% endfor %}{% endfor %}{% endif %}hi"
)
LATER: dict[str, Spoil] = {
    "loops": template(LOOPS),
    "grows": template("{{ 'a' * (10 ** 10 if messages[0].content == 'loop' else 1) }}"),
}


@pytest.mark.parametrize("name", [pytest.param("loops", marks=pytest.mark.thorough), "grows"])
def test_a_template_that_hangs_over_one_chat_fails_that_chat_alone(
    engine: Engine, folder: Path, name: str
) -> None:
    LATER[name](folder)
    whole = ids_of(ask(engine, folder))
    assert_one_sentence(failure(ask(engine, folder, "loop")), "chat template refuses this chat")
    begun = monotonic()
    with pytest.raises(Exception, match="chat template refuses this chat"):
        engine.reader().count((Message("user", "loop"),))
    assert monotonic() - begun < LIMITS["template"], "a page asks again and again"
    assert ids_of(ask(engine, folder)) == whole


def test_closing_does_not_wait_for_a_template_that_hangs(folder: Path) -> None:
    LATER["loops"](folder)
    engine = Engine(locate)
    events_of(ask(engine, folder))
    reply = ask(engine, folder, "loop")
    until(lambda: engine._queue._waiting.empty())  # it is at it
    begun = monotonic()
    engine.close()
    assert monotonic() - begun < LIMITS["template"], "it does not wait for the template's limit"
    assert engine.status().phase == "closed"
    failure(reply)
