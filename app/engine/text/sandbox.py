"""Runs untrusted tokenizers, chat templates, vocabularies of GGUF files and grammars in separate processes.

They are tried there before the app reads them itself, because a parser in C or Rust that overflows its stack ends
its process. An untrusted chat template is a program, and runs only there. Grammars have a process of their own,
so that other jobs do not wait for a slow grammar."""

import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from hashlib import sha256
from pathlib import Path
from time import monotonic
from typing import Any

from app.engine.text.call_format_detection import FIELDS
from app.errors import EngineClosed, GrammarRefused, ModelBroken, ProcessNotStarted, first_line
from app.system.child_process import ChildProcess, awaited, could_not_start
from app.values.chat_format import UNKNOWN_FORMAT, ChatFormat
from app.values.dataclass_json import parse_json, read
from app.values.logits import Grammar, GrammarKind
from app.values.messages import Message, ModelFolder, ToolCall

SECONDS = {"tokenizer": 10.0, "template": 5.0, "format": 10.0, "gguf": 300.0, "grammar": 5.0}
"""Time limits of jobs, far above what harmless jobs take: a tokenizer with 260,000 words is read in one or two
seconds, a chat is filled in hundredths of a second, a GGUF file is unpacked in a few seconds, and 20,000 rules of a
grammar are compiled in one second."""
LONGEST_GRAMMAR = 500_000
"""Maximum bytes of a grammar's source. llguidance has the same limit for a grammar's nodes."""
KEPT_VERDICTS = 1_000
"""Maximum number of grammars whose verdicts are cached."""
IMPORTING = 60.0
"""Maximum seconds for the imports of a kind of job."""
ENVIRONMENT = {"OPENBLAS_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
CRASHES = dict.fromkeys(SECONDS, "it crashes, or takes more than 2 GB of memory") | {
    "grammar": "it is nested or chained too deeply, or takes more than 2 GB of memory"
}
TRIAL = (Message("user", "Hello"),)
TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "added_tokens.json")


class SandboxRefusal(Exception):
    """The sandbox could not do a job. The message is the reason, as a part of a sentence."""


class SandboxTimeout(SandboxRefusal):
    """A job exceeded its limits of time, memory or stack, or crashed its process."""


class Sandbox:
    """The process for tokenizers, templates and GGUF files, and the process for grammars. Thread-safe."""

    def __init__(self, seconds: Mapping[str, float] = SECONDS) -> None:
        self._models = SandboxProcess(seconds)
        self._grammars = SandboxProcess(seconds)
        self._passed: set[str] = set()
        self._endless: tuple[str, tuple[Message, ...]] | None = None
        self._lock = threading.Lock()
        self._verdicts: dict[str, str] = {}
        """Why a grammar is refused, by its digest; "" for a good grammar."""

    def start(self) -> None:
        """Start the process for tokenizers, templates and GGUF files in the background."""
        threading.Thread(target=self._models.get_ready, name="sandbox", daemon=True).start()

    def check_tokenizer(self, folder: ModelFolder) -> None:
        """Raise ModelBroken for a tokenizer that fails when it is tried, or takes too much time or memory."""
        files = [folder.path / name for name in TOKENIZER_FILES]
        digest = sha256(b"\0".join(file.read_bytes() for file in files if file.is_file())).hexdigest()
        if digest in self._passed:
            return
        try:
            self._models.do("tokenizer", folder=str(folder.path.absolute()))
        except SandboxRefusal as refused:
            raise ModelBroken(
                f"The tokenizer of {folder.name} cannot be used ({refused}): get the model's own tokenizer.json "
                "again, or choose another model."
            ) from refused
        self._passed.add(digest)

    def check_template(self, name: str, template: str, tokens: Mapping[str, Any]) -> None:
        """Raise ModelBroken for a chat template that exceeds the limits. A template may refuse the trial's chat."""
        digest = sha256(template.encode("utf-8", "replace")).hexdigest()
        if digest in self._passed:
            return
        try:
            self.fill(template, TRIAL, tokens)
        except SandboxTimeout as endless:
            raise ModelBroken(
                f"The chat template of {name} cannot be used ({endless}): get the model's own "
                "chat_template.jinja again, or choose another model."
            ) from endless
        except SandboxRefusal:
            return
        self._passed.add(digest)

    def unpack(self, file: Path, target: Path, beat: Callable[[float], None]) -> None:
        """Write the tokenizer and the config of a GGUF file into the folder `target`, which must not exist yet.

        Meanwhile `beat` is called with the seconds so far; an error that it raises ends the job. Also raises
        SandboxRefusal."""

        def listen(seconds: float) -> None:
            try:
                beat(seconds)
            except Exception:
                self._models.interrupt("gguf")
                raise

        awaited(partial(self._models.do, "gguf", file=str(file), target=str(target)), listen)

    def check_grammar(self, grammar: Grammar) -> None:
        """Raise GrammarRefused for a grammar that cannot be compiled, or takes too much time, stack or memory."""
        source = grammar.source.encode("utf-8", "replace")
        if len(source) > LONGEST_GRAMMAR:
            raise refused_grammar(
                grammar.kind, f"it has {len(source):,} bytes, and at most {LONGEST_GRAMMAR:,} are read"
            )
        digest = sha256(grammar.kind.encode() + source).hexdigest()
        problem = self._verdicts.get(digest)
        if problem is None:
            try:
                self._grammars.do("grammar", kind=grammar.kind, source=grammar.source)
                problem = ""
            except SandboxTimeout as timeout:  # not cached, because the machine may have been busy
                raise refused_grammar(grammar.kind, str(timeout)) from timeout
            except SandboxRefusal as refused:
                problem = str(refused)
            with self._lock:
                self._verdicts[digest] = problem
                if len(self._verdicts) > KEPT_VERDICTS:
                    del self._verdicts[next(iter(self._verdicts))]  # the oldest verdict
        if problem:
            raise refused_grammar(grammar.kind, problem)

    def fill(
        self,
        template: str,
        messages: Sequence[Message],
        tokens: Mapping[str, Any],
        chat_format: ChatFormat = UNKNOWN_FORMAT,
    ) -> str:
        """Return the template, which has this format, filled with a chat. Raises SandboxRefusal."""
        if (template, tuple(messages)) == self._endless:  # a page asks for the same chat again and again
            raise SandboxTimeout(self._models.no_end("template"))
        try:
            return self._models.do(
                "template", template=template, messages=_turns(messages, chat_format), tokens=dict(tokens)
            )
        except SandboxTimeout:
            self._endless = template, tuple(messages)
            raise

    def chat_format(
        self, template: str, tokens: Mapping[str, Any], controls: Sequence[str] = ()
    ) -> ChatFormat:
        """Return the format of a chat template; UNKNOWN_FORMAT if it cannot be found."""
        with suppress(SandboxRefusal, ValueError):
            found = self._models.do("format", template=template, tokens=dict(tokens), controls=controls)
            return read(ChatFormat, parse_json(found))
        return UNKNOWN_FORMAT

    def close(self) -> None:
        """End the processes and their running jobs."""
        self._models.close()
        self._grammars.close()


class SandboxProcess:
    """A child process, which does one job at a time. Thread-safe."""

    def __init__(self, seconds: Mapping[str, float]) -> None:
        self._seconds = seconds
        self._lock = threading.Lock()
        self._process: ChildProcess | None = None
        self._imported: set[str] = set()
        self._doing = ""  # the kind of the newest job
        self._is_closed = False

    def get_ready(self) -> None:
        """Start the process and import the libraries for tokenizers, templates and GGUF files; failures are
        ignored."""
        with self._lock, suppress(ProcessNotStarted, EngineClosed):
            for what in ("tokenizer", "template", "gguf"):
                self._ready(what)

    def do(self, what: str, **values: Any) -> str:
        """Do a job and return its text. Raises SandboxRefusal, ProcessNotStarted, or EngineClosed after `close`."""
        with self._lock:
            self._doing = what
            self._ready(what)
            started = monotonic()
            answer = self._ask(self._seconds[what], do=what, **values)
            if not answer:
                self._end()
                is_late = monotonic() - started >= self._seconds[what]
                raise SandboxTimeout(self.no_end(what) if is_late else CRASHES[what])
        if "text" in answer:
            return str(answer["text"])
        raise (SandboxTimeout if answer["is_endless"] else SandboxRefusal)(answer["refused"])

    def no_end(self, what: str) -> str:
        return f"it takes more than {self._seconds[what]:g} seconds"

    def interrupt(self, what: str) -> None:
        """Kill the process if its job is of this kind. The next job starts another process."""
        if self._doing == what and (process := self._process):
            process.kill()

    def close(self) -> None:
        """End the process and its running job."""
        self._is_closed = True
        if process := self._process:
            process.kill()
        with self._lock:  # a call that waits for an answer releases the lock when its process is killed
            self._end()

    def _ready(self, what: str) -> None:
        """Start the process if it does not run, and import the libraries of this kind of job.

        Raises ProcessNotStarted, or EngineClosed after `close`."""
        self._require_open()
        if self._process is None or not self._process.is_running:
            self._end()
            self._process = ChildProcess("app.engine.text.sandbox_main", environment=ENVIRONMENT)
        if what in self._imported:
            return
        answer = self._ask(self._seconds.get("import", IMPORTING), do="import", what=what)
        if "text" not in answer:
            self._end()
            raise could_not_start(answer.get("refused") or "its libraries could not be imported in time")
        self._imported.add(what)

    def _ask(self, seconds: float, **job: Any) -> dict[str, Any]:
        """Return a job's answer; {} if the process took too long or ended. Raises EngineClosed after `close`."""
        assert self._process
        line = json.dumps({**job, "seconds": seconds + 1}).encode() + b"\n"
        self._require_open()  # `close` could not kill a process that was started in the meantime
        text, answer = self._process.ask(line, seconds), dict[str, Any]()
        with suppress(ValueError):  # an incomplete answer
            answer = parse_json(text or b"{}")
        self._require_open()
        has_all = isinstance(answer, dict) and (
            "text" in answer or {"refused", "is_endless"} <= answer.keys()
        )
        return answer if has_all else {}

    def _require_open(self) -> None:
        if self._is_closed:
            self._end()
            raise EngineClosed("Foresight is closing.")

    def _end(self) -> None:
        if self._process:
            self._process.close()
        self._process, self._imported = None, set()


def refused_grammar(kind: GrammarKind, problem: str) -> GrammarRefused:
    """Return the error of a grammar that cannot be used, with the problem in one line."""
    what = {"json_schema": "JSON schema", "regex": "regular expression", "lark": "grammar"}[kind]
    _, is_of_schema, of_schema = problem.partition("failed to compile JSON schema: ")
    if is_of_schema:  # a schema within a grammar has the problem; lines of the grammar follow in the message
        what, problem = "JSON schema", of_schema.partition("\n")[0]
    if keywords := re.search(r"Unimplemented keys: \[(.*?)\]", problem):
        problem = f"{keywords[1]} cannot be enforced while an answer is written"
    reason = " ".join(problem.split())[:300].rstrip(".:")
    return GrammarRefused(f"The {what} cannot be used ({reason}): change it, or leave it out.")


def fill_here(
    template: str,
    messages: Sequence[Message],
    tokens: Mapping[str, Any],
    chat_format: ChatFormat = UNKNOWN_FORMAT,
) -> str:
    """Fill a trusted model's template in this process. Raises SandboxRefusal if it refuses the chat."""
    from jinja2 import TemplateError

    from app.engine.text.sandbox_main import fill

    try:
        return fill(template, _turns(messages, chat_format), dict(tokens))
    except TemplateError as error:
        raise SandboxRefusal(str(error)) from error


def chat_format_here(template: str, tokens: Mapping[str, Any], controls: Sequence[str] = ()) -> ChatFormat:
    """Return the format of a trusted model's chat template, found in this process."""
    from app.engine.text.sandbox_main import chat_format

    return read(ChatFormat, parse_json(chat_format(template, dict(tokens), list(controls))))


def unpack_here(file: Path, target: Path, _beat: Callable[[float], None]) -> None:
    """Unpack a trusted GGUF file in this process. Raises SandboxRefusal if the file cannot be read."""
    from app.engine.text.gguf_tokenizer import unpack

    try:
        with panics_as_errors():
            unpack(file, target)
    except Exception as error:  # libraries raise errors of their own types
        raise SandboxRefusal(first_line(error)) from error


def _turns(messages: Sequence[Message], chat_format: ChatFormat) -> list[dict[str, Any]]:
    """Return messages as templates expect them. Calls and thoughts are left out if there are none.

    A thought gets each of the names that templates use, but only the first name in a message with a call and an
    answer, because gpt-oss's template refuses such a message with the other names."""
    turns = []
    for message in messages:
        turn: dict[str, Any] = {"role": message.role, "content": _content(message, chat_format)}
        if message.calls:
            turn["tool_calls"] = [_call(call) for call in message.calls]
        if message.thought and not chat_format.takes_thought_part:
            names = FIELDS if not (message.calls and message.content) else FIELDS[:1]
            turn |= dict.fromkeys(names, message.thought)
        if message.role == "tool":
            turn |= {"tool_call_id": message.call_id, "name": message.name}
        turns.append(turn)
    return turns


def _content(message: Message, chat_format: ChatFormat) -> str | list[dict[str, str]] | None:
    """Return a message's content as this format's template takes it: a text, a list of parts, or None."""
    thought = message.thought if chat_format.takes_thought_part else ""
    if chat_format.takes_text and not thought:
        is_none = message.calls and not (message.content or chat_format.takes_empty_call)
        return None if is_none else message.content
    parts = [("thinking", thought)] if thought else []
    parts += [("text", message.content)] if message.content or not thought else []
    return [{"type": kind, kind: text} for kind, text in parts]


def _call(call: ToolCall) -> dict[str, Any]:
    arguments: Any = call.arguments
    if not call.arguments_as_text:
        with suppress(ValueError):
            arguments = parse_json(arguments)
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}


@contextmanager
def panics_as_errors() -> Iterator[None]:
    """Raise a Rust library's panic as RuntimeError, because a PanicException is a BaseException that `except
    Exception` does not catch."""
    try:
        yield
    except Exception:
        raise
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise RuntimeError(str(error)) from error
