"""A person at a chat, and an engine that says what the test tells it to."""

from collections.abc import Sequence

from app.conversation import Conversations, NewChat, NewQuestion, Reply, ReplySettings
from app.values.chat import ChatVersion, StoredMessage
from app.values.logits import Grammar
from app.values.messages import EngineStatus, Finished, ModelChoice, Options, Piece, Request, Statistics
from tests.fakes import DEMO, WordReader
from tests.support.waiting import until

ASKED = ReplySettings(ModelChoice("demo"), Options(max_new_tokens=20))


class PatientEngine:
    """Keeps every request and its reply until the test says how it goes on."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.replies: list[Reply] = []
        self.words = WordReader(context=100)

    def submit(self, request: Request, reply: Reply) -> None:
        self.requests.append(request)
        self.replies.append(reply)

    def reader(self) -> WordReader:
        return self.words

    def status(self) -> EngineStatus:
        return EngineStatus("ready", model=DEMO)

    def check_grammar(self, grammar: Grammar) -> None:
        """Every grammar is good."""

    def say(self, text: str) -> None:
        self.replies[-1].append(Piece(text, (1,), ("model",), Statistics(), (len(text),)))

    def end(self) -> None:
        self.replies[-1].append(Finished("eos", Statistics(), DEMO, "auto"))

    def read(self) -> Sequence[tuple[str, str]]:
        """What the model was given to read last."""
        prompt = self.requests[-1].prompt
        assert not isinstance(prompt, str)
        return [(message.role, message.content) for message in prompt]


class Person:
    """Somebody at one page: knows the chat as it was when they last looked."""

    def __init__(self, chats: Conversations, engine: PatientEngine) -> None:
        self.chats = chats
        self.engine = engine
        self.place = ChatVersion()

    def ask(self, question: str, answer: str = "") -> None:
        """Ask, and get this answer if there is one."""
        if self.place.chat:
            self.place = self.chats.start(NewQuestion(self.place, ASKED, question))
        else:
            self.place = self.chats.start(NewChat(ChatVersion(), ASKED, question))
        if answer:
            self.get(answer)

    def get(self, answer: str) -> None:
        self.engine.say(answer)
        self.engine.end()
        self.wait()

    def wait(self) -> None:
        """Until the reply is stored."""
        until(lambda: not self.chats.is_writing(self.place.chat))

    @property
    def messages(self) -> tuple[StoredMessage, ...]:
        return self.chats.thread(self.place.chat, 50).messages

    @property
    def texts(self) -> list[str]:
        return [message.text for message in self.messages]
