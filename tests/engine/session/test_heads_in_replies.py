"""A head that drafts changes how a reply is written, and never what it says: by the code that a user runs."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache

import pytest

from app.engine.session.session import Session, no_progress
from app.values.messages import Decoding, Finished, Message, ModelChoice, Options, Piece, Request, Sampling
from tests.engine.asking import tokens_and_end
from tests.engine.heads import CONFIGS, Taught, write_with_head
from tests.engine.places import Places
from tests.tiers import named, pairwise, some

DECODINGS = {"auto": Decoding(), "8 rows": Decoding(rows=8), "W5 N4 G5": Decoding("lookahead")}
SAMPLINGS = {
    "greedy": Sampling(),
    "sampled": Sampling(0.8, top_k=30, seed=4),
    "penalised": Sampling(0.7, top_p=0.9, repetition_penalty=1.2, seed=5),
}
HEADS: dict[str, Taught] = {"random": "", "taught": "state"}
ATTENDING_AND_RECURRENT = ("deepseek-v3", "qwen3.5")
QUESTION = (Message("user", "Once upon a time there was a fox"),)
PLAIN = Decoding("plain")
SAID = Options(Sampling(0.8, top_k=30, seed=3), Decoding(rows=12), 24, ignore_eos=True)

Open = Callable[[str, Taught], Session]
"""(kind of model, what its head is taught) -> a session that has it."""


@pytest.fixture(scope="module")
def open_model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Open]:
    """Each model is made when it is first asked for."""
    base, sessions = tmp_path_factory.mktemp("heads"), list[Session]()

    @cache
    def opened(kind: str, head: Taught) -> Session:
        folder = write_with_head(base / f"{kind}-{head}", kind, head)
        sessions.append(Session(Places({"model": folder.path})))
        return sessions[-1]

    yield opened
    for session in sessions:
        session.close()


def request(options: Options, *chat: Message) -> Request:
    return Request(ModelChoice("model", dtype="float32", device="cpu"), chat or QUESTION, options)


def ask(session: Session, options: Options, *chat: Message) -> tuple[list[int], Finished]:
    return tokens_and_end(session, request(options, *chat))


@pairwise(
    kind=named(CONFIGS),
    head=HEADS,
    sampling=SAMPLINGS,
    decoding=DECODINGS,
    stops=named(((), (" t",))),
    deep=(),
)
def test_the_text_is_plains(
    open_model: Open, kind: str, head: Taught, sampling: Sampling, decoding: Decoding, stops: tuple[str, ...]
) -> None:
    session = open_model(kind, head)
    options = Options(sampling, decoding, 24, stop=stops)
    expected, ended = ask(session, replace(options, decoding=PLAIN))
    for _ in ("written", "regenerated, with all that was learned"):
        found, finished = ask(session, options)
        assert (found, finished.reason) == (expected, ended.reason)
    assert finished.model.heads


@pytest.mark.parametrize("kind", ATTENDING_AND_RECURRENT)
@pytest.mark.parametrize("head", some(HEADS, "taught"))
def test_a_chat_that_goes_on_and_goes_back_says_what_plain_says(
    open_model: Open, kind: str, head: Taught
) -> None:
    session = open_model(kind, head)
    said = "".join(
        event.text for event in session.events(request(SAID), no_progress) if isinstance(event, Piece)
    )
    for turn in (
        (*QUESTION, Message("assistant", said), Message("user", "And then?")),
        (*QUESTION, Message("assistant", said[: len(said) // 2])),
        (Message("user", "Once upon"),),
        QUESTION,
    ):
        found, _ = ask(session, SAID, *turn)
        assert found == ask(session, replace(SAID, decoding=PLAIN), *turn)[0]


def test_a_reply_that_was_stopped_leaves_the_head_as_good_as_new(open_model: Open) -> None:
    session = open_model("deepseek-v3", "state")
    whole = ask(session, replace(SAID, decoding=PLAIN))[0]
    for events in (2, 3, 5):
        replying = session.events(request(SAID), no_progress)
        for _ in range(events):
            next(replying)
        replying.close()
        assert ask(session, SAID)[0] == whole


@pytest.mark.parametrize("kind", ATTENDING_AND_RECURRENT)
def test_another_conversation_that_was_kept_brings_its_states_back(open_model: Open, kind: str) -> None:
    session = open_model(kind, "state")
    long = Message(
        "user", "Once upon a time there was a fox who lived in a wood with many other animals. " * 2
    )
    options = replace(SAID, sampling=Sampling())
    first, _ = ask(session, options, long)
    ask(session, options, Message("user", "Something else, which is quite another text than that one was."))
    again, finished = ask(session, options, long)
    assert again == first
    assert finished.statistics.reused_tokens > 32
    assert finished.statistics.tokens_per_step > 1
