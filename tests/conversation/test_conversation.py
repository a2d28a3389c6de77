"""A chat's turns, written by an engine that says what the test tells it to."""

import threading

import pytest

from app.conversation import Conversation, Reply
from app.errors import EngineClosed
from app.messages import (
    Failed,
    Finished,
    Message,
    ModelChoice,
    ModelInfo,
    Options,
    Piece,
    Request,
    Sampling,
    Statistics,
)

CHOICE = ModelChoice("demo")
MODEL = ModelInfo("demo", "demo", "", "Llama", 1, 64, "float32", "cpu")


class PatientEngine:
    """Keeps every request and its reply until the test says how it goes on."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.replies: list[Reply] = []

    def submit(self, request: Request, reply: Reply) -> None:
        self.requests.append(request)
        self.replies.append(reply)

    def say(self, text: str) -> None:
        self.replies[-1].append(Piece(text, (1,), ("model",), Statistics()))

    def finish(self) -> None:
        self.replies[-1].append(Finished("eos", Statistics(), MODEL, "lookahead"))

    def fail(self) -> None:
        self.replies[-1].append(Failed("Memory ran out: choose a smaller model."))


class ClosedEngine:
    def submit(self, request: Request, reply: Reply) -> None:  # noqa: ARG002 - the seam's signature
        raise EngineClosed("Foresight is closing: start it again.")


@pytest.fixture
def engine() -> PatientEngine:
    return PatientEngine()


@pytest.fixture
def chat(engine: PatientEngine) -> Conversation:
    return Conversation(engine)


def answer(chat: Conversation, engine: PatientEngine, question: str, text: str) -> None:
    chat.ask(question, CHOICE, Options())
    engine.say(text)
    engine.finish()


def prompt_of(request: Request) -> list[tuple[str, str]]:
    assert not isinstance(request.prompt, str)
    return [(message.role, message.content) for message in request.prompt]


def test_a_question_is_sent_with_all_turns_before_it(chat: Conversation, engine: PatientEngine) -> None:
    answer(chat, engine, "Hi", "Hello")
    chat.ask("How are you?", CHOICE, Options())
    assert prompt_of(engine.requests[-1]) == [
        ("user", "Hi"),
        ("assistant", "Hello"),
        ("user", "How are you?"),
    ]


def test_a_question_takes_its_own_model_and_options(chat: Conversation, engine: PatientEngine) -> None:
    options = Options(sampling=Sampling(seed=5), max_new_tokens=3)
    chat.ask("Hi", ModelChoice("org/name"), options)
    assert engine.requests == [Request(ModelChoice("org/name"), (Message("user", "Hi"),), options)]


def test_the_answer_can_be_read_while_it_is_written(chat: Conversation, engine: PatientEngine) -> None:
    chat.ask("Hi", CHOICE, Options())
    engine.say("Hel")
    engine.say("lo")
    (turn,) = chat.turns
    assert (turn.question, turn.answer().text, turn.answer().is_done) == ("Hi", "Hello", False)
    assert chat.is_busy
    engine.finish()
    assert turn.answer().is_done and not chat.is_busy


def test_a_question_while_a_reply_is_written_changes_nothing(
    chat: Conversation, engine: PatientEngine
) -> None:
    first = chat.ask("Hi", CHOICE, Options())
    assert chat.ask("Again", CHOICE, Options()) is first
    assert chat.regenerate(CHOICE, Options()) is first
    assert len(engine.requests) == len(chat.turns) == 1


def test_regenerating_replaces_the_last_answer_alone(chat: Conversation, engine: PatientEngine) -> None:
    answer(chat, engine, "Hi", "Hello")
    answer(chat, engine, "How are you?", "Bad")
    chat.regenerate(CHOICE, Options())
    engine.say("Well")
    assert prompt_of(engine.requests[-1]) == prompt_of(engine.requests[-2])
    assert [turn.answer().text for turn in chat.turns] == ["Hello", "Well"]


def test_regenerating_nothing_does_nothing(chat: Conversation, engine: PatientEngine) -> None:
    assert chat.regenerate(CHOICE, Options()) is None
    assert engine.requests == []


def test_a_failed_turn_without_text_is_not_sent_again(chat: Conversation, engine: PatientEngine) -> None:
    chat.ask("Hi", CHOICE, Options())
    engine.fail()
    answer(chat, engine, "Hello?", "Yes")
    assert prompt_of(engine.requests[-1]) == [("user", "Hello?")]
    assert [turn.question for turn in chat.turns] == ["Hi", "Hello?"]


def test_what_a_stopped_or_failed_reply_wrote_is_kept(chat: Conversation, engine: PatientEngine) -> None:
    chat.ask("Hi", CHOICE, Options())
    engine.say("Hel")
    engine.fail()
    chat.ask("Go on", CHOICE, Options())
    assert prompt_of(engine.requests[-1])[:2] == [("user", "Hi"), ("assistant", "Hel")]


def test_stopping_reaches_the_reply_that_is_written(chat: Conversation, engine: PatientEngine) -> None:
    chat.stop()
    answer(chat, engine, "Hi", "Hello")
    reply = chat.ask("More", CHOICE, Options())
    chat.stop()
    assert reply.is_stopping
    assert not engine.replies[0].is_stopping


def test_clearing_stops_and_forgets(chat: Conversation, engine: PatientEngine) -> None:
    reply = chat.ask("Hi", CHOICE, Options())
    chat.clear()
    assert reply.is_stopping and chat.turns == () and not chat.is_busy
    chat.ask("New", CHOICE, Options())
    assert prompt_of(engine.requests[-1]) == [("user", "New")]


def test_a_question_that_the_engine_refuses_leaves_the_chat_usable() -> None:
    closed = Conversation(ClosedEngine())
    with pytest.raises(EngineClosed):
        closed.ask("Hi", CHOICE, Options())
    assert closed.turns == () and not closed.is_busy


def test_two_tabs_that_ask_at_once_get_one_reply(chat: Conversation, engine: PatientEngine) -> None:
    together = threading.Barrier(8)
    replies: list[Reply] = []

    def ask() -> None:
        together.wait()
        replies.append(chat.ask("Hi", CHOICE, Options()))

    tabs = [threading.Thread(target=ask) for _ in range(8)]
    for tab in tabs:
        tab.start()
    for tab in tabs:
        tab.join()
    assert len(replies) == 8 and len(set(map(id, replies))) == 1
    assert len(engine.requests) == 1
