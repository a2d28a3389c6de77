"""What comes with a model and may run for ever runs in a process beside the app: its tokenizer, its chat template.

A tokenizer is tried there before it is read here. A chat template is a stranger's program: it is filled there and
nowhere else. Either gets so much time and memory; one that takes more is refused in words, and what comes next gets
a new process. The first use starts it, or `start`, while torch is imported.
"""

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from time import monotonic
from typing import Any

from app.child_process import ChildProcess
from app.errors import EngineClosed, ModelBroken
from app.messages import Message, ModelFolder, ToolCall

SECONDS = {"tokenizer": 10.0, "template": 5.0}
"""Far more than an honest one takes: 260,000 words are read in one or two, a chat is filled in hundredths."""
IMPORTING = 60.0
"""For what the process imports first."""
ENVIRONMENT = {"OPENBLAS_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
TRIAL = (Message("user", "Hello"),)
TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "added_tokens.json")


class TemplateRefused(Exception):
    """What the sandbox does not do, in words that stand in a sentence."""


class TemplateTimeout(TemplateRefused):
    """It took more time or memory than there is for it."""


class Sandbox:
    """The process. Safe to use from any thread; one job at a time."""

    def __init__(self, seconds: Mapping[str, float] = SECONDS) -> None:
        self._seconds = seconds
        self._lock = threading.Lock()
        self._process: ChildProcess | None = None
        self._imported: set[str] = set()
        self._passed: set[str] = set()
        self._endless: tuple[str, tuple[Message, ...]] | None = None
        self._is_closed = False

    def start(self) -> None:
        """Have the process ready soon; returns at once."""
        threading.Thread(target=self._get_ready, name="sandbox", daemon=True).start()

    def check_tokenizer(self, folder: ModelFolder) -> None:
        """Raise ModelBroken for a tokenizer that fails over a few texts, or takes too much time or memory."""
        digest = _digest(folder)
        if digest in self._passed:
            return
        try:
            self._do("tokenizer", folder=str(folder.path))
        except TemplateRefused as refused:
            raise ModelBroken(
                f"The tokenizer of {folder.name} cannot be used ({refused}): get the model's own tokenizer.json "
                "again, or choose another model."
            ) from refused
        self._passed.add(digest)

    def check_template(self, name: str, template: str, tokens: Mapping[str, Any]) -> None:
        """Raise ModelBroken for a chat template that does not come to an end. It may refuse the trial's chat."""
        digest = sha256(template.encode("utf-8", "replace")).hexdigest()
        if digest in self._passed:
            return
        try:
            self.fill(template, TRIAL, tokens)
        except TemplateTimeout as endless:
            raise ModelBroken(
                f"The chat template of {name} cannot be used ({endless}): get the model's own "
                "chat_template.jinja again, or choose another model."
            ) from endless
        except TemplateRefused:
            return
        self._passed.add(digest)

    def fill(self, template: str, messages: Sequence[Message], tokens: Mapping[str, Any]) -> str:
        """A chat as its template writes it. Raises TemplateRefused."""
        if (template, tuple(messages)) == self._endless:  # a page asks for the same chat again and again
            raise TemplateTimeout(self._no_end("template"))
        try:
            return self._do("template", template=template, messages=_turns(messages), tokens=dict(tokens))
        except TemplateTimeout:
            self._endless = template, tuple(messages)
            raise

    def close(self) -> None:
        """End the process, and whatever it is at."""
        self._is_closed = True
        if process := self._process:
            process.kill()
        with self._lock:  # whoever waits for an answer has none now
            self._end()

    def _get_ready(self) -> None:
        with self._lock:
            for what in ("tokenizer", "template"):
                self._ready(what)

    def _do(self, what: str, **values: Any) -> str:
        with self._lock:
            is_ready = bool(self._ready(what))
            started = monotonic()
            answer = self._ask(self._seconds[what], do=what, **values) if is_ready else {}
            if self._is_closed:
                self._end()
                raise EngineClosed("Foresight is closing.")
            if not answer:
                self._end()
                is_late = monotonic() - started >= self._seconds[what]
                raise TemplateTimeout(
                    self._no_end(what) if is_late else "it crashes, or takes more than 2 GB of memory"
                )
        if "text" in answer:
            return str(answer["text"])
        raise (TemplateTimeout if answer["is_endless"] else TemplateRefused)(answer["refused"])

    def _ready(self, what: str) -> dict[str, Any]:
        """Have a process that has imported what a job of this kind needs; {} where there is none."""
        if self._is_closed:
            return {}
        if self._process is None:
            self._process = ChildProcess("app.engine.sandbox_main", environment=ENVIRONMENT)
            self._imported = set()
        if self._is_closed:  # meanwhile: nobody else has seen this process
            return {}
        if what in self._imported:
            return {"text": ""}
        self._imported.add(what)
        return self._ask(IMPORTING, do="import", what=what)

    def _ask(self, seconds: float, **job: Any) -> dict[str, Any]:
        assert self._process
        line = json.dumps({**job, "seconds": seconds + 1}).encode() + b"\n"
        answer: dict[str, Any] = json.loads(self._process.ask(line, seconds) or b"{}")
        return answer

    def _no_end(self, what: str) -> str:
        return f"it does not come to an end within {self._seconds[what]:g} seconds"

    def _end(self) -> None:
        if self._process:
            self._process.close()
        self._process = None


def fill_here(template: str, messages: Sequence[Message], tokens: Mapping[str, Any]) -> str:
    """As a sandbox fills it, in this very process: for models that are trusted. Raises TemplateRefused."""
    from jinja2 import TemplateError

    from app.engine.sandbox_main import fill

    try:
        return fill(template, _turns(messages), dict(tokens))
    except TemplateError as error:
        raise TemplateRefused(str(error)) from error


def _turns(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Messages as templates expect them: a key is there only if it says something."""
    return [
        {"role": message.role, "content": message.content}
        | ({"tool_calls": [_call(call) for call in message.calls]} if message.calls else {})
        | ({"tool_call_id": message.call_id, "name": message.name} if message.role == "tool" else {})
        for message in messages
    ]


def _call(call: ToolCall) -> dict[str, Any]:
    arguments: Any = call.arguments
    if not call.arguments_as_text:
        with suppress(ValueError):
            arguments = json.loads(arguments)
    return {
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": arguments},
    }


def _digest(folder: ModelFolder) -> str:
    """Of all that a tokenizer is tried by."""
    files = (folder.path / name for name in TOKENIZER_FILES)
    return sha256(b"\0".join(file.read_bytes() for file in files if file.is_file())).hexdigest()


@contextmanager
def panics_as_errors() -> Iterator[None]:
    """Raise a panic of a Rust library as RuntimeError: by itself it is no Exception, and ends a thread."""
    try:
        yield
    except Exception:
        raise
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise RuntimeError(str(error)) from error
