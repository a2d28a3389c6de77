"""Hand-written stand-ins at the designed seams. They do as they are told and remember what was asked."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import accumulate
from math import inf
from time import sleep

from app.chats.chats import Chats
from app.conversation import ChatTools, Reply
from app.errors import DocumentNotFound, GrammarRefused, StoreFull, ToolFailed
from app.settings import ToolSettings
from app.values.chat import MessageContent
from app.values.chat_format import DEFAULT_THINKING, Thinking
from app.values.document import Citation, Collection, Document, Passage, PassageHit
from app.values.logits import Grammar
from app.values.messages import (
    EngineStatus,
    Event,
    Failed,
    Finished,
    Message,
    ModelChoice,
    ModelInfo,
    Origin,
    Piece,
    Prefilling,
    Request,
    Statistics,
    StopReason,
)
from app.values.tools import ServerStatus, ServerText, Tool, ToolServer

DEMO = ModelInfo(
    name="demo",
    label="demo",
    revision="",
    architecture="LlamaForCausalLM",
    parameters=7_300_000,
    context=1024,
    dtype="float32",
    device="cpu",
)
PLAIN_STEP: tuple[Origin, ...] = ("model",)
LOOKAHEAD_STEPS: tuple[tuple[Origin, ...], ...] = (
    ("window", "model"),
    ("model",),
    ("output", "output", "model"),
    ("prompt", "prompt", "window", "model"),
)


class WordReader:
    """Counts words, and two tokens for what a template puts around each message."""

    def __init__(self, context: int = 1024) -> None:
        self.context = context

    def count(
        self, prompt: Sequence[Message], _thinking: Thinking = DEFAULT_THINKING, tools: str = ""
    ) -> int:
        return sum(2 + len(message.content.split()) for message in prompt) + len(tools.split())

    def texts(self, ids: Sequence[int]) -> tuple[str, ...]:
        return tuple(f"t{token}" for token in ids)


class FakeDocumentSearch:
    """Documents that a test puts here, each one passage: one that shares a word with the question is found."""

    def __init__(self, *texts: str) -> None:
        self.texts = dict(enumerate(texts, 1))
        self.searched: list[str] = []
        self.unread: tuple[Document, ...] = ()

    def documents(self, _collection: int) -> tuple[Document, ...]:
        return self.unread

    def collections(self) -> tuple[Collection, ...]:
        return (Collection(1, "Texts", len(self.texts)), Collection(2, "Empty"))

    def search(self, collections: Sequence[int], question: str, limit: int = 8) -> tuple[PassageHit, ...]:
        self.searched.append(question)
        words = set(question.lower().split())
        found = [one for one in self._passages(collections) if words & set(one.text.lower().split())]
        return tuple(PassageHit(passage, 1 / rank, bm25=1 / rank) for rank, passage in enumerate(found, 1))[
            :limit
        ]

    def whole(self, collections: Sequence[int], most_characters: int) -> tuple[Passage, ...]:
        passages = self._passages(collections)
        return passages if sum(len(one.text) for one in passages) <= most_characters else ()

    def words(self, cited: Citation) -> str:
        if cited.document not in self.texts:
            raise DocumentNotFound(f"{cited.title} has been removed.")
        return self.texts[cited.document][cited.start : cited.end]

    def similarities(self, _texts: Sequence[str], _others: Sequence[str]) -> tuple[()]:
        return ()

    def _passages(self, collections: Sequence[int]) -> tuple[Passage, ...]:
        return tuple(
            Passage(number, number, f"Text {number}", 0, len(text), text)
            for number, text in self.texts.items()
            if 1 in collections
        )


class FakeToolServers:
    """Tools that a test puts here, by server, and what they answer; a call waits until `may_answer` is set."""

    def __init__(self, *tools: Tool) -> None:
        self.listed = tools
        self.texts: tuple[ServerText, ...] = ()
        self.answer: str | ToolFailed = "It is 12 degrees."
        self.calls: list[tuple[str, str]] = []
        self.may_answer = threading.Event()
        self.may_answer.set()

    def tools(self, name: str, _is_stopping: Callable[[], bool] = lambda: False) -> tuple[Tool, ...]:
        return tuple(tool for tool in self.listed if tool.server == name)

    def status(self, name: str) -> ServerStatus:
        return ServerStatus(
            "ready", "", tuple(tool for tool in self.listed if tool.server == name), self.texts
        )

    def log(self, _name: str) -> tuple[str, ...]:
        return ()

    def text_of(self, offered: ServerText) -> str:
        if isinstance(self.answer, ToolFailed):
            raise self.answer
        return f"The text of {offered.name}."

    def call(self, tool: Tool, arguments: str, is_stopping: Callable[[], bool]) -> str:
        self.calls.append((tool.name, arguments))
        while not self.may_answer.wait(0.01):
            if is_stopping():
                raise ToolFailed("Stopped.")
        if isinstance(self.answer, ToolFailed):
            raise self.answer
        return self.answer


def chat_tools(*tools: Tool, bundled: tuple[str, ...] = ()) -> ChatTools:
    """A chat's tools, from servers that are turned on."""
    servers: dict[str, ToolServer] = {tool.server: ToolServer(tool.server, ("x",)) for tool in tools}
    settings = ToolSettings(tuple(servers.values()), bundled)
    return ChatTools(FakeToolServers(*tools), FakeDocumentSearch(), lambda: settings)  # type: ignore[arg-type]


class ScriptedEngine:
    """Says what it was told to say, word by word, and notices when it is stopped.

    A reply is written before `submit` returns. With a `step_limit` it is written on a thread of its own, as by the
    real worker, and waits after that many steps until a test raises the limit or the reply is stopped."""

    def __init__(self, text: str = "Hello there, friend.", step_limit: float = inf) -> None:
        self.text = text
        self.step_limit = step_limit
        self.failure = ""
        self.requests: list[Request] = []
        self.loads: list[ModelChoice] = []
        self.unloads = self.cancelled = 0
        self.end_loading: Callable[[bool], None] = lambda _is_loaded: None
        self.now = EngineStatus("ready", model=DEMO)
        self.words = WordReader()
        self.grammars: list[Grammar] = []
        self.grammar_problem = ""
        self.is_closed = False
        self._writers: list[threading.Thread] = []

    def close(self) -> None:
        """End the replies that are being written, and each later one at once."""
        self.is_closed = True
        for writer in self._writers:
            writer.join()

    def reader(self) -> WordReader:
        return self.words

    def check_grammar(self, grammar: Grammar) -> None:
        self.grammars.append(grammar)
        if self.grammar_problem:
            raise GrammarRefused(self.grammar_problem)

    def submit(self, request: Request, reply: Reply) -> None:
        self.requests.append(request)
        if self.step_limit < inf:
            writer = threading.Thread(target=self._write, args=(request, reply), daemon=True)
            self._writers.append(writer)
            writer.start()
        else:
            self._write(request, reply)

    def load(self, choice: ModelChoice, ended: Callable[[bool], None]) -> None:
        """`ended` is called by `end_loading`, as the worker does it later on."""
        self.loads.append(choice)
        self.now = EngineStatus("loading", f"Loading {choice.name}…")
        self.end_loading = ended

    def cancel_load(self) -> None:
        self.cancelled += 1

    def unload(self) -> None:
        self.unloads += 1
        self.now = EngineStatus("ready", "No model is loaded.")

    def status(self) -> EngineStatus:
        return self.now

    def _write(self, request: Request, reply: Reply) -> None:
        reply.append(Prefilling(9, 9))
        statistics = Statistics(prompt_tokens=9, time_to_first_token=0.05)
        for number, step in enumerate(steps(self.text, request.options.decoding.decoder != "plain")):
            if self._is_stopped_before(number, reply):
                return reply.append(_end(request, "stopped", statistics))
            statistics = after_step(statistics, step.origins)
            reply.append(replace(step, statistics=statistics))
        reply.append(Failed(self.failure) if self.failure else _end(request, "eos", statistics))
        return None

    def _is_stopped_before(self, step: int, reply: Reply) -> bool:
        """Wait until the step may be written; return whether the reply is to end instead."""
        while not (is_over := reply.is_stopping or self.is_closed) and step >= self.step_limit:
            sleep(0.005)
        return is_over


def _end(request: Request, reason: StopReason, statistics: Statistics) -> Finished:
    return Finished(reason, statistics, DEMO, request.options.decoding.decoder)


def steps(text: str, lookahead: bool) -> list[Piece]:
    """The text as steps, one token a word: [("Hello",), ("there", "friend")] and so on."""
    words = text.split(" ")
    words = [word + " " for word in words[:-1]] + words[-1:]
    pieces: list[Piece] = []
    while words:
        origins = LOOKAHEAD_STEPS[len(pieces) % len(LOOKAHEAD_STEPS)] if lookahead else PLAIN_STEP
        taken, words = words[: len(origins)], words[len(origins) :]
        ids = tuple(range(len(taken)))
        ends = tuple(accumulate(map(len, taken)))
        pieces.append(Piece("".join(taken), ids, origins[-len(taken) :], Statistics(), ends))
    return pieces


def after_step(before: Statistics, origins: Sequence[Origin]) -> Statistics:
    drafted = len(origins) > 1
    return replace(
        before,
        tokens=before.tokens + len(origins),
        steps=before.steps + 1,
        hits=before.hits + drafted,
        covered=before.covered + drafted,
        rows=before.rows + (21 if drafted else 1),
        pool_size=before.pool_size + 3 * drafted,
        seconds=before.seconds + 0.02,
        cost=before.cost + 1.0,
    )


def written(*events: Event) -> Reply:
    """A reply whose log already holds these events."""
    reply = Reply()
    for event in events:
        reply.append(event)
    return reply


class NarrowChats(Chats):
    """A store whose disk takes no reply while it is full."""

    is_full = True

    def write(self, message: int, written: MessageContent) -> None:
        if self.is_full:
            raise StoreFull("The disk is full: free some space.")
        super().write(message, written)
