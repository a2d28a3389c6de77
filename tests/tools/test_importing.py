"""Servers of tools, as people type them and as other programs write them."""

import json

import pytest

from app.errors import BadOption
from app.tools.importing import imported_servers, server_from
from app.values.tools import ToolServer


@pytest.mark.parametrize(
    ("typed", "server"),
    [
        ("https://mcp.example.org:8443/mcp", ToolServer("mcp.example.org", address="https://mcp.example.org:8443/mcp")),
        (
            "npx -y @modelcontextprotocol/server-everything@1.2",
            ToolServer("server-everything", ("npx", "-y", "@modelcontextprotocol/server-everything@1.2")),
        ),
        ("uvx mcp-server-time", ToolServer("mcp-server-time", ("uvx", "mcp-server-time"))),
        ("python -m mcp_server_git", ToolServer("mcp_server_git", ("python", "-m", "mcp_server_git"))),
        ("/opt/my\\ tools/server.py --x", ToolServer("server", ("/opt/my tools/server.py", "--x"))),
        ("docker run -i --rm mcp/time:2", ToolServer("time", ("docker", "run", "-i", "--rm", "mcp/time:2"))),
        ("A='x y' node dist/index.js", ToolServer("index", ("node", "dist/index.js"), environment={"A": "x y"})),
        ("npx", ToolServer("npx", ("npx",))),
    ],
)  # fmt: skip
def test_an_address_or_a_command_becomes_a_server(typed: str, server: ToolServer) -> None:
    assert server_from(f" {typed}\n") == server


@pytest.mark.parametrize(
    "typed", ["", "  ", "A=b", "npx 'x", "http://", "https://a b/", "http://a:99999/", "ftp://a/b"]
)
def test_what_is_neither_is_refused(typed: str) -> None:
    with pytest.raises(BadOption):
        server_from(typed)


TIME = {"command": "uvx", "args": ["mcp-server-time"], "env": {"TZ": "UTC"}}
WEB = {"url": "https://example.org/mcp", "headers": {"Authorization": "Bearer x"}}
OF_TIME = ToolServer("time", ("uvx", "mcp-server-time"), environment={"TZ": "UTC"})
OF_WEB = ToolServer("web", address="https://example.org/mcp", headers={"Authorization": "Bearer x"})


@pytest.mark.parametrize(
    ("found", "servers"),
    [
        ({"mcpServers": {"time": TIME, "web": WEB}}, (OF_TIME, OF_WEB)),  # Claude Desktop, Cursor, LM Studio
        ({"servers": {"time": {"type": "stdio", **TIME}}, "inputs": []}, (OF_TIME,)),  # VS Code
        ({"editor.fontSize": 12, "mcp": {"servers": {"web": {"type": "http", **WEB}}}}, (OF_WEB,)),
        ({"mcpServers": {"w": {"serverUrl": "http://a/"}}}, (ToolServer("w", address="http://a/"),)),  # Windsurf
        ({"time": TIME}, (OF_TIME,)),
        ({"mcpServers": {"t": {"command": "x", "disabled": True}}}, (ToolServer("t", ("x",), is_on=False),)),
        ({"mcp": {"t": {"type": "local", "command": ["a", "b"]}}}, (ToolServer("t", ("a", "b")),)),  # opencode
        ({"context_servers": {"t": {"command": {"path": "a", "args": ["b"]}}}}, (ToolServer("t", ("a", "b")),)),
        ({"mcpServers": {"t": {"command": "x", "args": [8], "env": None}}}, (ToolServer("t", ("x", "8")),)),
    ],
)  # fmt: skip
def test_servers_of_other_programs_are_read(found: object, servers: tuple[ToolServer, ...]) -> None:
    assert imported_servers(json.dumps(found)) == servers


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "not valid JSON"),
        ("{", "not valid JSON"),
        ("[" * 100_000, "nested too deeply"),
        ("[]", "no servers in this JSON"),
        ("7", "no servers in this JSON"),
        ("{}", "no servers in this JSON"),
        ('{"mcpServers": {}}', "no servers in this JSON"),
        ('{"mcpServers": {"a": 7}}', "no servers in this JSON"),
        ('{"mcpServers": {"": {"command": "x"}}}', "must have a name"),
        ('{"mcpServers": {"a": {"command": "x", "args": "y"}}}', "server a is invalid: its field args has"),
        ('{"mcpServers": {"a": {"command": "x", "env": ["y"]}}}', "its field env has a wrong type"),
        ('{"mcpServers": {"a": {"command": "x", "env": {"K": {"v": 1}}}}}', "its field env has a wrong type"),
        ('{"mcpServers": {"a": {"url": "ftp://x"}}}', "server a is invalid: .*; it is “ftp://x”"),
        ('{"mcpServers": {"a": {"serverUrl": 7.5, "env": []}}}', "server a is invalid: "),
        ('{"servers": {"a": {"command": "x", "env": {"K": "${input:key}"}}}}', r"contains \$\{input:key\}:"),
    ],
)
def test_what_holds_no_servers_is_refused_with_a_sentence(text: str, words: str) -> None:
    with pytest.raises(BadOption, match=words) as raised:
        imported_servers(text)
    assert str(raised.value).endswith(".")


@pytest.mark.parametrize("broken", [{}, None, 7, "npx x", {"args": ["-x"]}, {"command": "", "args": ["x"]}])
def test_a_broken_server_among_others_is_named(broken: object) -> None:
    with pytest.raises(BadOption, match=r"^Nothing was imported, because the server b is invalid: a tool"):
        imported_servers(json.dumps({"mcpServers": {"a": TIME, "b": broken}}))


def test_the_name_of_a_command_has_no_control_characters_and_is_short() -> None:
    assert server_from(f"npx a\u202e{'b' * 500}").name == "a " + "b" * 126


def test_an_empty_argument_is_kept() -> None:
    [server] = imported_servers('{"mcpServers": {"a": {"command": "x", "args": ["--prefix", "", "y"]}}}')
    assert server.command == ("x", "--prefix", "", "y")


def test_a_name_has_no_control_characters() -> None:
    [server] = imported_servers('{"mcpServers": {" e\u202evil\\n ": {"command": "x"}}}')
    assert server.name == "e vil"
