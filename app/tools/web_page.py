"""Reads a web page in a separate process, which connects only to public addresses and to proxies."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from time import monotonic

from app.errors import ToolFailed
from app.system.child_process import ChildProcess, awaited
from app.values.validation import web_host

SECONDS = 20.0


def save_page(
    address: str, folder: Path, is_stopping: Callable[[], bool], seconds: float = SECONDS
) -> tuple[str, Path]:
    """Save a page of HTML or text in a folder. Return the page's address after all redirects, and its file.

    Raises ToolFailed if that fails, or if the user stops the reading."""
    host = web_host(address)
    if not host:
        raise ToolFailed(
            f"{address[:200]} is not the address of a page: it must begin with https:// or http://."
        )
    sys.audit("socket.getaddrinfo", host, None, 0, 0, 0)  # the log of contacts does not see other processes
    with ChildProcess("app.tools.web_page_main") as child:

        def beat(_seconds: float) -> None:
            if is_stopping():
                raise ToolFailed("Reading the page was stopped.")

        began = monotonic()
        line = awaited(lambda: child.ask(json.dumps([address, str(folder)]).encode() + b"\n", seconds), beat)
    if not line:
        is_late = monotonic() - began >= seconds
        late = f"{host} did not send the page within {seconds:.0f} seconds."
        ended = f"The page of {host} was not read: the process that reads it crashed, or was killed."
        raise ToolFailed(late if is_late else ended)
    answer = json.loads(line)
    if "problem" in answer:
        raise ToolFailed(answer["problem"])
    return answer["address"], Path(answer["file"])
