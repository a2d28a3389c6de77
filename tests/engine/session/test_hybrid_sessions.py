"""A hybrid's replies, by the code that a user runs: with trees they are plain's, also where a chat goes on."""

import json
from collections.abc import Iterator

import pytest

from app.engine.session.session import Session, no_progress
from app.values.logits import Grammar, LogitsSettings
from app.values.messages import (
    DecoderName,
    Decoding,
    Finished,
    Message,
    ModelChoice,
    ModelFolder,
    Options,
    Piece,
    Request,
    Sampling,
)
from tests.support.hybrid_model import make_model
from tests.tiers import some

HYBRID = ModelChoice("hybrid", dtype="float32", device="cpu")
QUESTION = Message("user", "one two three one two three one two three")
SAMPLINGS = {
    "greedy": Sampling(),
    "sampled": Sampling(0.9, top_k=30, seed=4),
    "penalised": Sampling(0.7, repetition_penalty=1.2, seed=5),
}
COUNTS = {"type": "array", "items": {"enum": ["one", "two", "three"]}, "minItems": 4, "maxItems": 6}


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder = tmp_path_factory.mktemp("hybrid")
    make_model(folder, hidden=32, layers=4, spread=0.3)
    opened = Session(lambda name, _progress: ModelFolder(folder, name))
    yield opened
    opened.close()


def ask(
    session: Session,
    decoder: DecoderName,
    *chat: Message,
    sampling: Sampling = SAMPLINGS["greedy"],
    grammar: Grammar | None = None,
    is_cold: bool = False,
) -> tuple[str, Finished]:
    """The text, and how it ended."""
    options = Options(sampling, Decoding(decoder), max_new_tokens=24 if grammar else 12)
    logits = LogitsSettings(grammar=grammar)
    events = list(session.events(Request(HYBRID, chat, options, is_cold=is_cold, logits=logits), no_progress))
    finished = events[-1]
    assert isinstance(finished, Finished)
    return "".join(event.text for event in events if isinstance(event, Piece)), finished


def test_it_drafts_trees(session: Session) -> None:
    loaded = session.open(HYBRID, no_progress)
    assert (loaded.info.note("chains"), loaded.info.note("lookahead")) == ("", "")
    assert loaded.runner.max_branches > 1
    _, finished = ask(session, "lookahead", QUESTION)
    assert finished.decoder == "lookahead"


@pytest.mark.parametrize("sampling", some(SAMPLINGS, "sampled"))
def test_a_chat_that_goes_on_is_plains(session: Session, sampling: Sampling) -> None:
    """Asked, regenerated, asked again behind the reply, and continued: warm, against cold and plain."""
    first, _ = ask(session, "plain", QUESTION, sampling=sampling, is_cold=True)
    turn = (QUESTION, Message("assistant", first), Message("user", "four five four five"))
    begun = (QUESTION, Message("assistant", "one two"))
    chats = ((QUESTION,), (QUESTION,), turn, begun, turn)
    expected = [ask(session, "plain", *chat, sampling=sampling, is_cold=True)[0] for chat in chats]
    decoders: tuple[DecoderName, ...] = ("auto", "prompt-lookup", "lookahead")
    for decoder in decoders:
        session.forget()
        said = [ask(session, decoder, *chat, sampling=sampling) for chat in chats]
        assert [text for text, _ in said] == expected
        assert all(finished.statistics.reused_tokens for _, finished in said[1:3])


def test_a_reply_under_a_grammar_is_plains(session: Session) -> None:
    grammar = Grammar("json_schema", json.dumps(COUNTS))
    expected, _ = ask(session, "plain", QUESTION, grammar=grammar, is_cold=True)
    said, finished = ask(session, "lookahead", QUESTION, grammar=grammar, is_cold=True)
    assert said == expected
    assert finished.statistics.tokens_per_step > 1, "what the grammar forces is accepted"
