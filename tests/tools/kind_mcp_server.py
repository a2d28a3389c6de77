"""A server of tools by the server side of the `mcp` package: `python kind_mcp_server.py [port]`."""

import sys
from typing import Literal

from mcp.server.mcpserver import Image, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations
from pydantic import BaseModel

server = MCPServer("kind")
PIXEL = b"\x89PNG\r\n\x1a\n" + bytes(40)


class Weather(BaseModel):
    degrees: int


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def add(a: int, b: int) -> str:
    """Adds two integers."""
    return f"{a} + {b} = {a + b}"


@server.tool()
def paint(colour: Literal["red", "blue"]) -> list[str | Image]:
    return [f"All is {colour}.", Image(data=PIXEL, format="png")]


@server.tool()
def weather() -> Weather:
    return Weather(degrees=20)


@server.tool()
def fail() -> str:
    raise ToolError("the disk is full")


@server.resource("notes://today")
def today() -> str:
    """What is to be done."""
    return "Buy milk."


@server.resource("notes://photo", mime_type="image/png")
def photo() -> bytes:
    return PIXEL


@server.prompt()
def greet(name: str) -> str:
    """A greeting."""
    return f"Greet {name}."


if __name__ == "__main__":
    if len(sys.argv) > 1:
        server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
    else:
        server.run("stdio")
