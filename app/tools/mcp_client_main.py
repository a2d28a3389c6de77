"""A program that communicates with one tool server through the client of the `mcp` package.

The first request describes the server, and each further request is a job. The answer is the job's result, the job's
problem, or the reason why the session is over. The standard error is the server's log. The server's processes are
in this program's process group. The program ends the group when its own standard input closes, which also happens
if the app is killed.
"""

import asyncio
import json
import logging
import signal
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from time import sleep
from typing import Any, BinaryIO

import anyio
import httpx2
from anyio.streams.buffered import BufferedByteReceiveStream
from jsonschema.exceptions import best_match
from jsonschema.validators import Draft202012Validator, validator_for
from mcp import Client, MCPError, types
from mcp.os.win32.utilities import create_windows_process
from mcp.shared.message import SessionMessage
from referencing import Registry

from app import __version__
from app.errors import AppError, ArgumentsRefused, SessionLost, ToolFailed, first_line
from app.system.answer_limits import AnswerRefused, plain_words
from app.system.child_process import Say, end_group, limit_memory, serve_until_closed
from app.tools.mcp_address import connected

MEMORY = 2 * 2**30
"""Bytes of address space that this process may use. The memory of the server's program is not limited."""
LONGEST_MESSAGE = 32 * 2**20
"""Maximum number of bytes of a server's message."""
LONGEST_RESULT = 2**18
"""Maximum number of characters of a result; the rest is cut."""
MOST_LISTED, MOST_PAGES = 128, 32
LONGEST_SCHEMA, DEEPEST_SCHEMA, LONGEST_SCHEMAS = 50_000, 64, 500_000
"""Maximum number of characters and depth of a tool's schema, and maximum number of characters of all schemas."""
LONGEST_NAME, LONGEST_DESCRIPTION, LONGEST_WORDS, LONGEST_ERROR = 128, 8_000, 500, 4_000
MOST_NOISE = 1_000
"""Maximum number of lines of a server's output that are not messages. They are logged."""
CHECK_SECONDS = 5
CLOSED = "Connection closed"
"""The error of the `mcp` package if a request cannot be sent, because the session is over."""
SECONDS_TO_END, SECONDS_TO_KILL = 1.0, 2.0
Job = dict[str, Any]
CHANGES = (
    types.ToolListChangedNotification
    | types.ResourceListChangedNotification
    | types.PromptListChangedNotification
)


def serve(requests: BinaryIO, say: Say) -> None:
    logging.disable()  # because standard error is the server's log
    asyncio.run(_Session(say).run(requests))


class _Session:
    def __init__(self, say: Say) -> None:
        self._say = say
        self._jobs: asyncio.Queue[bytes] = asyncio.Queue()
        self._has_changed = False

    async def run(self, requests: BinaryIO) -> None:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task

        def read_requests() -> None:
            for line in requests:
                loop.call_soon_threadsafe(self._jobs.put_nowait, line)
            loop.call_soon_threadsafe(task.cancel)
            sleep(SECONDS_TO_KILL)
            end_group()

        threading.Thread(target=read_requests, daemon=True).start()
        server = json.loads(await self._jobs.get())
        try:
            await self._serve(server)
        except Exception as error:  # a server may fail in any way, and the user needs a sentence
            cause = _cause(error)
            self.tell(over=_sentence(cause, server), is_lost=isinstance(cause, SessionLost))

    async def _serve(self, server: Job) -> None:
        if server["address"]:
            limit_memory(MEMORY)
        transport = connected(server, LONGEST_MESSAGE) if server["address"] else _started(server)
        information = types.Implementation(name="Foresight", version=__version__)
        async with Client(transport, client_info=information, message_handler=self._hear) as client:
            self.tell(result=await _offered(client))
            while True:
                job = json.loads(await self._jobs.get())
                do = DOING.get(job.pop("do"), self._changed)
                try:
                    self.tell(result=await do(client, **job))
                except ToolFailed as error:
                    self.tell(problem=str(error), is_refused=isinstance(error, ArgumentsRefused))
                except MCPError as error:
                    if _reason(error) == CLOSED:
                        raise
                    self.tell(problem=_sentence(error, server), is_refused=False)

    def tell(self, **message: Any) -> None:
        self._say(json.dumps(message).encode() + b"\n")

    async def _hear(self, message: Any) -> None:
        self._has_changed |= isinstance(message, CHANGES)

    async def _changed(self, client: Client) -> Job | None:
        """Return what the server offers; None if it has announced no change since the last time."""
        if not self._has_changed:
            return None
        self._has_changed = False
        return await _offered(client)


def _log(words: str) -> None:
    sys.stderr.write(f"{plain_words(words, LONGEST_WORDS)}\n")
    sys.stderr.flush()


@asynccontextmanager
async def _started(server: Job) -> AsyncIterator[tuple[Any, Any]]:
    """Start the program of a server, and exchange messages through its standard input and output."""
    program, *arguments = server["command"]
    process: Any
    if sys.platform == "win32":  # with a job object, which also ends the processes that the server starts
        process = await create_windows_process(
            program, arguments, server["environment"], sys.stderr, server["folder"]
        )
    else:
        process = await anyio.open_process(
            [program, *arguments], env=server["environment"], stderr=None, cwd=server["folder"]
        )
    limit_memory(MEMORY)  # set after the start, because the server would inherit the limit
    received, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outgoing, sent = anyio.create_memory_object_stream[SessionMessage](0)
    async with anyio.create_task_group() as group:
        group.start_soon(_receive, process, received, server["name"])
        group.start_soon(_send, process, sent)
        try:
            yield incoming, outgoing
        finally:
            group.cancel_scope.cancel()
            with (
                anyio.move_on_after(SECONDS_TO_END, shield=True),
                suppress(OSError, anyio.BrokenResourceError),
            ):
                await process.stdin.aclose()
                await process.wait()
            if process.returncode is None:
                process.terminate()  # if it does not end, it is killed with this process's group
                sleep(0.2)


async def _receive(process: Any, received: Any, name: str) -> None:
    """Read the server's messages. Raises ToolFailed when the output ends or breaks the protocol."""
    stream, noise = BufferedByteReceiveStream(process.stdout), 0
    while True:
        try:
            line = await stream.receive_until(b"\n", LONGEST_MESSAGE)
        except anyio.DelimiterNotFound as error:
            raise ToolFailed(
                f"{name} was stopped, because it sent a message of more than {LONGEST_MESSAGE // 2**20} MB."
            ) from error
        except (anyio.IncompleteRead, anyio.EndOfStream, anyio.BrokenResourceError, OSError) as error:
            with anyio.move_on_after(SECONDS_TO_END):
                await process.wait()
            code = "" if process.returncode is None else f" (exit code {process.returncode})"
            raise ToolFailed(f"{name} ended unexpectedly{code}. Look at its log, then restart it.") from error
        try:
            message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValueError as error:
            noise += bool(line.strip())
            if b'"jsonrpc"' in line[:200] or noise > MOST_NOISE:
                raise ToolFailed(f"{name} writes messages that cannot be read, so it was ended.") from error
            if line.strip():
                _log(f"Not a message: {line[:LONGEST_WORDS].decode(errors='replace')}")
        else:
            await received.send(SessionMessage(message))


async def _send(process: Any, sent: Any) -> None:
    # If the server has ended, `_receive` reports it.
    with suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
        async for message in sent:
            text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
            await process.stdin.send(text.encode() + b"\n")


async def _offered(client: Client) -> Job:
    """List the tools, resources and prompts, up to MOST_LISTED of each. Logs why unusable tools are left out."""
    session, has = client.session, client.server_capabilities
    tools: list[Job] = []
    left = LONGEST_SCHEMAS
    async for tool in _listed(session.list_tools, "tools", has.tools):
        schema = json.dumps(tool.input_schema)
        if problem := _problem(tool, schema, left):
            _log(f"The tool {tool.name[:LONGEST_NAME]} is left out: {problem}.")
            continue
        left -= len(schema)
        description = (tool.description or tool.title or "")[:LONGEST_DESCRIPTION]
        tools.append({"name": tool.name, "description": description, "schema": schema})
    texts: list[Job] = []
    try:
        async for one in _listed(session.list_resources, "resources", has.resources):
            texts.append({**_about(one), "uri": str(one.uri)})
        async for one in _listed(session.list_prompts, "prompts", has.prompts):
            texts.append({**_about(one), "arguments": [each.name for each in one.arguments or ()]})
    except MCPError as error:  # the tools can still be used
        _log(f"Its resources and prompts cannot be listed: {_reason(error)}.")
    return {"tools": tools, "texts": texts}


def _about(one: Any) -> Job:
    description = plain_words(one.description or one.title or "", LONGEST_WORDS)
    return {"name": plain_words(one.name, LONGEST_NAME), "description": description}


def _problem(tool: types.Tool, schema: str, left: int) -> str:
    """Return why a tool cannot be used; "" for a usable tool."""
    name = tool.name
    if not name or len(name) > LONGEST_NAME or not name.isprintable() or any(map(str.isspace, name)):
        return "its name is empty or too long, or has spaces or unprintable characters"
    if len(schema) > LONGEST_SCHEMA:
        return f"the schema of its arguments has more than {LONGEST_SCHEMA:,} characters"
    if len(schema) > left:
        return f"the schemas of all tools have more than {LONGEST_SCHEMAS:,} characters"
    if _depth(tool.input_schema) > DEEPEST_SCHEMA:
        return f"the schema of its arguments is nested more than {DEEPEST_SCHEMA} levels deep"
    return ""


def _depth(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + max(map(_depth, inner), default=0)


async def _listed(ask: Callable[..., Awaitable[Any]], field: str, is_offered: object) -> AsyncIterator[Any]:
    """Yield the entries of a server's list, page by page; none if the server does not have this kind of list."""
    cursor, found = None, 0
    for _ in range(MOST_PAGES if is_offered else 0):
        page = await ask(params=types.PaginatedRequestParams(cursor=cursor))
        for one in getattr(page, field)[: MOST_LISTED - found]:
            found += 1
            yield one
        cursor = page.next_cursor
        if not cursor or found >= MOST_LISTED:
            return


async def _resource(client: Client, uri: str) -> str:
    found = (await client.session.read_resource(uri)).contents
    if not any(isinstance(one, types.TextResourceContents) for one in found):
        raise ToolFailed(f"{plain_words(uri, LONGEST_WORDS)} is not a text, so it is not read.")
    return _cut("\n\n".join(map(_text, found)))


async def _prompt(client: Client, name: str, arguments: dict[str, str]) -> str:
    messages = (await client.session.get_prompt(name, arguments)).messages
    return _cut("\n\n".join(_text(message.content) for message in messages))


async def _call(client: Client, name: str, schema: str, arguments: Job) -> str:
    """Call a tool. The result is not compared with the `outputSchema`, because the model only reads the text.

    Raises ToolFailed, also for an error that the server reports."""
    _check(json.loads(schema), arguments)
    params = types.CallToolRequestParams(name=name, arguments=arguments)
    result = await client.session.send_request(types.CallToolRequest(params=params), types.CallToolResult)
    text = "\n\n".join(filter(None, map(_text, result.content)))
    if not text and result.structured_content is not None:
        text = json.dumps(result.structured_content, ensure_ascii=False)
    if result.is_error:
        raise ToolFailed(f"{name} failed: {_cut(text, LONGEST_ERROR) or 'the server gave no reason.'}")
    return _cut(text)


def _check(schema: Any, arguments: Job) -> None:
    """Raise ArgumentsRefused if the arguments do not match the schema, ToolFailed if they cannot be checked."""
    kind = validator_for(schema, default=Draft202012Validator)

    def give_up(*_: object) -> None:
        raise TimeoutError

    if has_timer := hasattr(signal, "SIGALRM"):  # the signal interrupts regular expressions, too
        signal.signal(signal.SIGALRM, give_up)
        signal.alarm(CHECK_SECONDS)
    try:
        kind.check_schema(schema)
        error = best_match(kind(schema, registry=Registry()).iter_errors(arguments))
    except TimeoutError as late:
        raise ToolFailed(
            f"The arguments could not be checked within {CHECK_SECONDS} seconds: the tool's schema is too complex."
        ) from late
    except Exception as wrong:  # a schema may be invalid in many ways, or endlessly recursive
        raise ToolFailed(f"The tool's schema cannot be used ({_reason(wrong)}).") from wrong
    finally:
        if has_timer:
            signal.alarm(0)
    if error:
        place = error.json_path.removeprefix("$").lstrip(".")
        raise ArgumentsRefused(
            f"The arguments do not match the tool's schema: {f'{place}: ' if place else ''}{_reason(error)}."
        )


def _text(part: Any) -> str:
    """Return a part of a result as text; for an image, a sound, a link or a file, a note in brackets."""
    part = getattr(part, "resource", part)
    if hasattr(part, "text"):
        return str(part.text)
    about = (str(getattr(part, name, None) or "") for name in ("type", "name", "uri", "mime_type"))
    return f"[Not text: {plain_words(' '.join(about), LONGEST_WORDS)}]"


def _cut(text: str, most: int = LONGEST_RESULT) -> str:
    """Return a text, or its first `most` characters and a note that it was cut."""
    if len(text) <= most:
        return text
    return f"{text[:most]}\n\n[The text was cut here: it has {len(text):,} characters.]"


def _sentence(error: BaseException, server: Job) -> str:
    name, reason = server["name"], _reason(error)
    # Two of the library's errors have no codes of their own, so they are recognised by their messages.
    is_unreadable = isinstance(error, MCPError) and reason.startswith("Failed to parse")
    is_broken_off = isinstance(error, MCPError) and reason.startswith(("SSE stream", CLOSED))
    if is_broken_off or isinstance(error, anyio.ClosedResourceError | anyio.BrokenResourceError):
        return f"{name} broke off its answer, or sent more than {LONGEST_MESSAGE // 2**20} MB."
    if is_unreadable:
        return f"{name} sent a message that cannot be read."
    match error:
        case AppError():
            return str(error)
        case AnswerRefused():
            return f"{name} {error}."
        case MCPError():
            return f"{name} answered with an error: {reason}."
        case httpx2.ProtocolError():
            return f"{name} did not answer as HTTP requires ({reason}). Try again, or check the address."
        case httpx2.TransportError():
            return f"Can't reach {name} ({reason}). Check the address, and that the server is running."
        case OSError():
            return f"{name} could not be started ({error.strerror}). Check its command."
        case MemoryError():
            return f"{name} sent more than fits in {MEMORY // 2**30} GB of memory, so it was ended."
    return f"{name} does not follow the protocol ({type(error).__name__}: {reason})."


def _cause(error: BaseException) -> BaseException:
    return _cause(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error


def _reason(error: BaseException) -> str:
    return plain_words(getattr(error, "message", "") or first_line(error), LONGEST_WORDS).rstrip(".:")


DOING: dict[str, Callable[..., Awaitable[Any]]] = {"resource": _resource, "prompt": _prompt, "call": _call}

if __name__ == "__main__":
    serve_until_closed(serve)
