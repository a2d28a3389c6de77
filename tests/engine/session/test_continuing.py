"""A reply that was cut and is continued is the reply that nobody cut."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from app.engine.session.session import Session, no_progress
from app.engine.text.detokenizer import Detokenizer
from app.engine.text.prompt import RequestTokenizer, encode
from app.errors import BadOption, GrammarRefused
from app.values.logits import Grammar, LogitsSettings
from app.values.messages import (
    DecoderName,
    Decoding,
    Event,
    Message,
    ModelChoice,
    Options,
    Piece,
    Request,
    Sampling,
)
from tests.engine.places import Places
from tests.engine.tiny import DEMO
from tests.tiers import named, pairwise

DEMO_CPU = ModelChoice("demo", dtype="float32", device="cpu")
PERSON = {
    "type": "object",
    "properties": {
        "word": {"enum": ["one", "two"]},
        "count": {"type": "integer", "maximum": 99, "minimum": 0},
    },
    "required": ["word", "count"],
    "additionalProperties": False,
}
QUESTION = Message("user", "Write a Python function that counts the words of a text.")
HALF = "\N{REPLACEMENT CHARACTER}"


@pytest.fixture(scope="module")
def session(model_folders: dict[str, Path], measurements: Path) -> Session:
    return Session(Places({**model_folders, "demo": DEMO}), measurements)


@pytest.fixture
def tokenizer() -> PreTrainedTokenizerBase:
    found: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(DEMO)
    return found


def ask(
    session: Session, options: Options, *messages: Message, grammar: Grammar | None = None
) -> list[Piece]:
    logits = LogitsSettings(grammar=grammar)
    asked = Request(DEMO_CPU, messages, options, is_cold=True, logits=logits)
    events: Sequence[Event] = list(session.events(asked, no_progress))
    return [event for event in events if isinstance(event, Piece)]


def ids_of(pieces: Sequence[Piece]) -> list[int]:
    return [token for piece in pieces for token in piece.token_ids]


def text_of(pieces: Sequence[Piece]) -> str:
    return "".join(piece.text for piece in pieces)


@pairwise(
    decoder=named(["plain", "auto"]),
    sampling={"greedy": Sampling(), "drawn": Sampling(temperature=0.8, seed=5)},
    deep=(),
)
def test_from_any_tokens_end_on_the_same_tokens_follow(
    session: Session, decoder: str, sampling: Sampling
) -> None:
    options = Options(sampling, Decoding(decoder), max_new_tokens=32)  # type: ignore[arg-type]
    whole = ids_of(ask(session, options, QUESTION))
    assert len(whole) > 20
    loaded = session.open(DEMO_CPU, no_progress)
    for cut in (1, 16):
        written = loaded.decode(whole[:cut])
        left = replace(options, max_new_tokens=32 - cut)
        rest = ask(session, left, QUESTION, Message("assistant", written))
        assert ids_of(rest) == whole[cut:]
        assert written + text_of(rest) == loaded.decode(whole)


def test_a_text_that_was_cut_inside_a_word_goes_on_behind_it(session: Session) -> None:
    options = Options(max_new_tokens=12)
    rest = text_of(ask(session, options, QUESTION, Message("assistant", "Here is a Python func")))
    assert rest
    assert not rest.startswith(("Here", " Here"))


def test_a_begun_reply_follows_the_question_for_one(tokenizer: PreTrainedTokenizerBase) -> None:
    answer = Message("assistant", "  So it  was,\n")
    ids = encode(tokenizer, (QUESTION, answer), 1024)
    asked = encode(tokenizer, (QUESTION,), 1024)
    assert ids == asked + RequestTokenizer(tokenizer, 1024).encoded((QUESTION, answer)).begun
    assert tokenizer.decode(ids[len(asked) :]) == answer.content


def test_an_empty_reply_is_begun_like_any(tokenizer: PreTrainedTokenizerBase) -> None:
    chat = (QUESTION, Message("assistant", ""))
    assert encode(tokenizer, chat, 1024) == encode(tokenizer, chat[:1], 1024)
    assert (
        RequestTokenizer(tokenizer, 1024).encoded(chat).begun
        == RequestTokenizer(tokenizer, 1024).encoded(chat[:1]).begun
        == RequestTokenizer(tokenizer, 1024).encoded("raw").begun
        == []
    )


def test_a_template_cannot_take_out_what_the_reply_has_begun_with(tokenizer: PreTrainedTokenizerBase) -> None:
    tokenizer.chat_template = (
        "{% for m in messages %}[{{ m.role }}]{{ m.content.split('</think>')[-1] | trim }}{% endfor %}"
        "{% if add_generation_prompt %}[assistant]{% endif %}"
    )
    ids = encode(tokenizer, (QUESTION, Message("assistant", "<think>Hm.</think> So ")), 1024)
    assert tokenizer.decode(ids).endswith("of a text.[assistant]<think>Hm.</think> So ")


@pytest.mark.parametrize("template", [None, "{{ messages[0]['content'] }}"])
def test_a_reply_to_nothing_is_refused_in_words(
    tokenizer: PreTrainedTokenizerBase, template: str | None
) -> None:
    tokenizer.chat_template = template
    with pytest.raises(BadOption, match="There is no question before the reply"):
        encode(tokenizer, (Message("assistant", "So "),), 1024)


def test_a_model_without_a_template_continues_the_written_dialogue(
    tokenizer: PreTrainedTokenizerBase,
) -> None:
    tokenizer.chat_template = None
    ids = encode(tokenizer, (Message("user", "Hi"), Message("assistant", " Hel")), 1024)
    assert tokenizer.decode(ids) == "User: Hi\nAssistant: Hel"


def without_first_space(ids: list[int]) -> str:
    """A tokenizer that leaves out the space where a text begins, as those of Llama 2 do."""
    return "".join(f" {token}" for token in ids).removeprefix(" ")


@pytest.mark.parametrize("before", [[1], list(range(20))])
def test_the_space_between_what_was_written_and_what_comes_is_kept(before: list[int]) -> None:
    detokenizer = Detokenizer(without_first_space, before)
    assert [detokenizer.push(7), detokenizer.push(8), detokenizer.flush()] == [" 7", " 8", ""]


@pytest.mark.parametrize("decoder", ["plain", "lookahead"])
@pytest.mark.parametrize("cut", [1, 4, 9])
def test_json_that_was_cut_goes_on_as_json(session: Session, decoder: DecoderName, cut: int) -> None:
    options = Options(Sampling(), Decoding(decoder), max_new_tokens=40)
    grammar = Grammar("json_schema", json.dumps(PERSON))
    whole = ask(session, options, QUESTION, grammar=grammar)
    tokenizer = session.open(DEMO_CPU, no_progress).tokenizer
    begun_text = str(tokenizer.decode(ids_of(whole)[:cut], clean_up_tokenization_spaces=False))
    rest = ask(session, options, QUESTION, Message("assistant", begun_text), grammar=grammar)
    assert begun_text + text_of(rest) == text_of(whole)
    jsonschema.validate(json.loads(text_of(whole)), PERSON)


def test_what_is_no_beginning_of_json_is_refused_in_one_sentence(session: Session) -> None:
    grammar = Grammar("json_schema", json.dumps(PERSON))
    with pytest.raises(GrammarRefused, match="regenerate"):
        ask(session, Options(), QUESTION, Message("assistant", "Hello"), grammar=grammar)
