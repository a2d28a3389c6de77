"""Reads servers of tools from what a person types, and from the JSON files of other programs."""

import re
import shlex
import sys
from collections.abc import Mapping
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any
from urllib.parse import urlsplit

from app.errors import BadOption, impossible_values
from app.values.dataclass_json import parse_json
from app.values.tools import ToolServer

EXAMPLE = 'such as {"mcpServers": {"time": {"command": "mcp-server-time"}}}'
KEYS = ("mcpServers", "servers", "context_servers", "mcp")
"""Where programs keep their servers: most, VS Code, Zed; VS Code's settings and opencode."""
ADDRESSES = ("url", "serverUrl", "httpUrl")
LONGEST = 1_000_000
"""Maximum number of characters that are read."""
LAUNCHERS = frozenset((
    "npx", "bunx", "pnpm", "uvx", "uv", "pipx", "python", "python3", "node", "deno", "docker", "podman", "env",
))  # fmt: skip
"""Programs that start the one that their arguments name."""
VERBS = frozenset(("run", "tool", "exec", "dlx", "x"))
VARIABLE = re.compile(r"[A-Za-z_]\w*=")


def server_from(text: str) -> ToolServer:
    """Return the server at an address, or that a command line starts. Raises BadOption.

    Variables may stand before the command: `TOKEN=abc npx -y a-server`."""
    typed = text.strip()
    if typed.lower().startswith(("http://", "https://")):
        return _server(_host(typed), {"url": typed})
    try:
        words = shlex.split(typed, posix=sys.platform != "win32")
    except ValueError as error:
        raise BadOption(f"The command cannot be read ({error}). Check its quotation marks.") from error
    if sys.platform == "win32":
        words = [word.strip('"') for word in words]
    environment = {}
    while words and VARIABLE.match(words[0]):
        name, _, value = words.pop(0).partition("=")
        environment[name] = value
    if not words:
        raise BadOption("Enter the address of a server, or the command that starts it.")
    return _server(_name(words), {"command": words, "env": environment})


def imported_servers(text: str) -> tuple[ToolServer, ...]:
    """Return the servers in the JSON of another program. Raises BadOption."""
    try:
        found = parse_json(text[:LONGEST])
    except ValueError as error:
        raise BadOption(f"This is not valid JSON ({error}). Paste the whole file.") from error
    for key in (*KEYS, *KEYS):  # VS Code's settings have "servers" in "mcp"
        if isinstance(found, dict) and isinstance(found.get(key), dict):
            found = found[key]
    if not isinstance(found, dict) or not found or not all(isinstance(one, dict) for one in found.values()):
        raise BadOption(f"There are no servers in this JSON. Paste it with their names, {EXAMPLE}.")
    return tuple(_server(str(name), one) for name, one in found.items())


def _server(name: str, described: Mapping[str, Any]) -> ToolServer:
    address = next((described[key] for key in ADDRESSES if described.get(key)), "")
    command, arguments = described.get("command", ""), described.get("args") or []
    if isinstance(command, dict):  # as Zed has it
        command, arguments = command.get("path", ""), command.get("args") or []
    whole = [*(command if isinstance(command, list) else [command] if command else []), *_list(arguments)]
    environment = described.get("env") or described.get("environment") or {}
    headers = described.get("headers") or {}
    texts = [address, *whole, *_values(environment), *_values(headers)]
    if not all(isinstance(one, str | int | float) for one in texts):
        raise BadOption(f"The server {name} is not described by texts. Correct it, {EXAMPLE}.")
    if variable := next(filter(None, (re.search(r"\$\{[^}]*\}", str(one)) for one in texts)), None):
        raise BadOption(
            f"The server {name} has {variable[0]} in it: write its value there, then import it again."
        )
    if address:
        _host(str(address))
    with impossible_values():
        return ToolServer(
            name.strip(),
            () if address else tuple(map(str, whole)),
            str(address),
            {str(key): str(value) for key, value in environment.items()},
            {str(key): str(value) for key, value in headers.items()},
            not described.get("disabled") and described.get("enabled") is not False,
        )


def _list(found: Any) -> list[Any]:
    return found if isinstance(found, list) else [None]  # None is refused as a word


def _values(found: Any) -> list[Any]:
    return [*found.values()] if isinstance(found, dict) else [None]


def _host(address: str) -> str:
    """Return the host of an address, without a port. Raises BadOption."""
    try:
        parts = urlsplit(address)
        host, _ = parts.hostname if parts.scheme in ("http", "https") else "", parts.port
    except ValueError:
        host = ""
    if not host or any(map(str.isspace, address)):
        raise BadOption(f"{address} is not an address. Enter one like https://example.org/mcp.")
    return host


def _name(words: list[str]) -> str:
    """Return a name for a command: that of the program which a launcher starts."""
    path = PureWindowsPath if sys.platform == "win32" else PurePosixPath
    for word in words:
        name = (
            path(word).stem if path(word).suffix in (".exe", ".cmd", ".py", ".js", ".ts") else path(word).name
        )
        if name and not word.startswith("-") and name not in LAUNCHERS | VERBS and not VARIABLE.match(word):
            return re.sub(r"(?<=.)(@|==|:)[^@=:]*$", "", name)
    return path(words[0]).name or words[0]
