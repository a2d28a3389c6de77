"""A server of tools that is written by hand, without the `mcp` package, so that it can break every rule.

python raw_mcp_server.py [silent | pages | bombs | stubborn | dies | noisy]
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

MODE = sys.argv[1] if len(sys.argv) > 1 else ""
OUTPUT = sys.stdout.buffer
ANY = {"type": "object"}
DOUBLED = {f"a{i}": {"allOf": [{"$ref": f"#/$defs/a{i + 1}"}] * 2} for i in range(40)} | {
    "a40": {"type": "object"}
}
BOMBS: dict[str, Any] = {
    "large": {"type": "object", "description": "x" * 10_000_000},
    "fine": ANY,
    "chain": {**ANY, "$ref": "#/$defs/a0", "$defs": DOUBLED},
    "circle": {**ANY, "$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}},
    "pattern": {"type": "object", "properties": {"x": {"type": "string", "pattern": "^(a+)+$"}}},
    "elsewhere": {**ANY, "$ref": "http://127.0.0.1:9/schema.json"},
    "wrong": {"type": "object", "properties": {"x": {"type": 7}}},
    "not a name": ANY,
}


def nested(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object"}
    for _ in range(depth):
        schema = {"type": "object", "properties": {"x": schema}}
    return schema


def write(message: dict[str, Any]) -> None:
    OUTPUT.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
    OUTPUT.flush()


def text(words: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": words}]}


def forever(piece: bytes) -> None:
    while True:
        OUTPUT.write(piece)
        OUTPUT.flush()


def call(name: str, arguments: dict[str, Any]) -> dict[str, Any]:  # noqa: C901 - a list of evils
    match name:
        case "hang":
            time.sleep(600)
        case "die":
            sys.stderr.write("I cannot go on\n")
            os._exit(3)
        case "endless":
            forever(b'{"jsonrpc": "2.0", "id": 9, "result": "' + b"x" * 65536)
        case "lines":
            forever(b"hello\n" * 1000)
        case "huge":
            return text("x" * 100_000_000)
        case "long":
            return text("y" * 300_000)
        case "environment":
            return text(json.dumps(dict(os.environ)))
        case "folder":
            return text(str(Path.cwd()))
        case "child":
            script = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
            return text(str(subprocess.Popen([sys.executable, "-c", script]).pid))
        case "shapeless":
            return {"content": 7}
        case "logging":
            for number in range(20_000):
                sys.stderr.write(f"line {number} {'z' * 300}\n")
            return text("logged")
        case "malformed":
            OUTPUT.write(b'{"jsonrpc": "2.0", "id": 1, "result": {{{\n')
            OUTPUT.flush()
            time.sleep(600)
        case "changing":
            write({"method": "notifications/tools/list_changed"})
    return text(f"{os.getpid()} {json.dumps(arguments)}")


def tools(cursor: str | None) -> dict[str, Any]:
    if MODE == "pages":
        number = int(cursor or 0)
        return {"tools": [{"name": f"t{number}", "inputSchema": ANY}], "nextCursor": str(number + 1)}
    if MODE == "bombs":
        bombs = {**BOMBS, "deep": nested(60)}
        return {"tools": [{"name": name, "inputSchema": schema} for name, schema in bombs.items()]}
    names = (
        "hang", "die", "endless", "lines", "huge", "long", "environment", "folder", "child", "shapeless", "logging",
        "malformed", "changing", "echo",
    )  # fmt: skip
    return {"tools": [{"name": name, "inputSchema": ANY} for name in names]}


def answer(method: str, parameters: dict[str, Any]) -> dict[str, Any] | None:
    match method:
        case "initialize":
            version = parameters["protocolVersion"]
            information = {"name": "raw", "version": "1"}
            kinds: dict[str, Any] = {"tools": {}, **({"resources": {}} if MODE == "bombs" else {})}
            return {"protocolVersion": version, "capabilities": kinds, "serverInfo": information}
        case "resources/list":
            return {"resources": [{"name": "a\u202e\x07\nname", "uri": "notes://1"}]}
        case "tools/list":
            return tools(parameters.get("cursor"))
        case "tools/call":
            return call(parameters["name"], parameters.get("arguments") or {})
    return None


def main() -> None:
    if MODE == "silent":
        time.sleep(600)
    if MODE == "dies":
        sys.exit("no configuration")
    if MODE == "noisy":
        OUTPUT.write("Welcome!\n\nListening…\n".encode())
        OUTPUT.flush()
    if MODE == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    for line in sys.stdin:
        request = json.loads(line)
        if "id" in request and "method" in request:
            found = answer(request["method"], request.get("params") or {})
            unknown = {"error": {"code": -32601, "message": "not found"}}
            write({"id": request["id"], **({"result": found} if found else unknown)})
    if MODE == "stubborn":
        time.sleep(600)


if __name__ == "__main__":
    main()
