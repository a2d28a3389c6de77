"""Reads tool servers from the text that a user types, and from the JSON files of other programs."""

import json
import re
import shlex
import sys
from collections.abc import Mapping
from dataclasses import replace
from itertools import dropwhile
from typing import Any

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, ValidationError

from app.errors import BadOption, impossible_values
from app.system.answer_limits import plain_words
from app.values.dataclass_json import parse_json
from app.values.tools import ToolServer

EXAMPLE = 'such as {"mcpServers": {"time": {"command": "mcp-server-time"}}}'
KEYS = ("mcpServers", "servers", "context_servers", "mcp")
"""The keys under which the servers are in the JSON of most programs, of VS Code, of Zed and of opencode. VS Code's
settings have "mcp", too."""
LONGEST, LONGEST_NAME = 1_000_000, 128
"""Maximum number of characters that are read, and of a server's name."""
LAUNCHERS = frozenset((
    "npx", "bunx", "pnpm", "uvx", "uv", "pipx", "python", "python3", "node", "deno", "docker", "podman", "env",
    "run", "tool", "exec", "dlx", "x",
))  # fmt: skip
"""Programs that start the program that their arguments name, and the subcommands with which they do it."""
VARIABLE = re.compile(r"[A-Za-z_]\w*=")


def server_from(text: str) -> ToolServer:
    """Return the server at an address, or the server that a command line starts. Raises BadOption.

    Variables may precede the command, as in `TOKEN=abc npx -y a-server`."""
    typed = text.strip()
    if re.match(r"[a-z][\w+.-]*://", typed, re.IGNORECASE):
        with impossible_values():
            server = _server(typed, {"url": typed})
        return replace(server, name=server.host)
    try:
        words = shlex.split(typed, posix=sys.platform != "win32")
    except ValueError as error:
        raise BadOption(f"The command cannot be read ({error}). Check its quotation marks.") from error
    if sys.platform == "win32":
        words = [word.strip('"') for word in words]
    command = list(dropwhile(VARIABLE.match, words))
    if not command:
        raise BadOption("Enter the address of a server, or the command that starts it.")
    variables = (word.partition("=") for word in words[: -len(command)])
    return _server(_name(command), {"command": command, "env": {name: value for name, _, value in variables}})


def imported_servers(text: str) -> tuple[ToolServer, ...]:
    """Return the servers in the JSON of another program. Raises BadOption."""
    try:
        found = parse_json(text[:LONGEST])
    except ValueError as error:
        raise BadOption(f"This is not valid JSON ({error}). Paste the whole file.") from error
    for key in (*KEYS, *KEYS):  # VS Code's settings have "servers" in "mcp"
        if isinstance(found, dict) and isinstance(found.get(key), dict):
            found = found[key]
    if not isinstance(found, dict) or not any(isinstance(one, dict) for one in found.values()):
        raise BadOption(f"There are no servers in this JSON. Paste it with their names, {EXAMPLE}.")
    servers = list[ToolServer]()
    for name, described in found.items():
        try:
            servers.append(_server(name, described if isinstance(described, dict) else {}))
        except ValueError as error:
            server = f"the server {plain_words(name, LONGEST_NAME)} is invalid: {error}"
            raise BadOption(f"Nothing was imported, because {server}. Correct it, {EXAMPLE}.") from error
    return tuple(servers)


def _server(name: str, described: Mapping[str, Any]) -> ToolServer:
    """Return a server. Raises ValueError if its fields are invalid, and BadOption if they contain a variable."""
    name = plain_words(name, LONGEST_NAME)
    if found := re.search(r"\$\{[^}]*\}", json.dumps(described)):
        raise BadOption(
            f"The server {name} contains {found[0]}: write its value there, then import it again."
        )
    command = described.get("command")
    if isinstance(command, dict):  # the format of Zed
        described = {**described, "command": command.get("path"), "args": command.get("args")}
    try:
        fields = _Fields.model_validate({key: one for key, one in described.items() if one not in (None, "")})
    except ValidationError as error:
        raise ValueError(f"its field {error.errors()[0]['loc'][0]} has a wrong type") from error
    program = [fields.command] if isinstance(fields.command, str) else fields.command
    command = (*program, *fields.args) if any(program[:1]) and not fields.url else ()
    is_on = fields.enabled and not fields.disabled
    return ToolServer(name, command, fields.url, fields.env, fields.headers, is_on)


class _Fields(BaseModel):
    """A server in the JSON of another program."""

    model_config = ConfigDict(coerce_numbers_to_str=True)

    command: str | list[str] = ""
    args: list[str] = []
    url: str = Field("", validation_alias=AliasChoices("url", "serverUrl", "httpUrl"))
    env: dict[str, str] = Field({}, validation_alias=AliasChoices("env", "environment"))
    headers: dict[str, str] = {}
    disabled: bool = False
    enabled: bool = True


def _name(words: list[str]) -> str:
    """Return a name for a command: the name of its program, or of the program that a launcher starts."""
    names = (re.sub(r"(?<=.)\.(exe|cmd|py|js|ts)$", "", re.split(r"[\\/]", word)[-1]) for word in words)
    for word, name in zip(words, names, strict=True):
        if name and not word.startswith("-") and name not in LAUNCHERS and not VARIABLE.match(word):
            return re.sub(r"(?<=.)(@|==|:)[^@=:]*$", "", name)
    return re.split(r"[\\/]", words[0])[-1] or words[0]
