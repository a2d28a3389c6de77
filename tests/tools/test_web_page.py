"""Pages of the web: read from a real server, which is reached as a proxy, because private addresses are refused."""

import gzip
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from app.conversation.chat_tools import page_text
from app.errors import ToolFailed
from app.system.child_process import importing_environment
from app.tools.web_page import SECONDS, save_page
from app.tools.web_page_main import is_public

PAGE = b"<html><title>A page</title><p>Hello</p></html>"


class Web(BaseHTTPRequestHandler):
    """Answers every absolute address, as a proxy does."""

    def do_GET(self) -> None:  # noqa: C901 - a list of answers
        path = self.path.removeprefix("http://page.example")
        match path.strip("/").split("/"):
            case ["loop", number]:
                self.answer(b"", 302, Location=f"/loop/{int(number) + 1}")
            case ["to", *rest]:
                self.answer(b"", 302, Location="/".join(rest))
            case ["huge"]:
                self.answer(b"x" * 6_000_000)
            case ["bomb"]:
                self.answer(gzip.compress(bytes(100_000_000), 1), **{"Content-Encoding": "gzip"})
            case ["gzip"]:
                self.answer(gzip.compress(PAGE), **{"Content-Encoding": "gzip"})
            case ["brotli"]:
                self.answer(PAGE, **{"Content-Encoding": "br"})
            case ["image"]:
                self.answer(PAGE, **{"Content-Type": "image/png"})
            case ["missing"]:
                self.answer(b"", 404)
            case ["slow"]:
                time.sleep(30)
            case ["drops"]:
                self.answer(PAGE, **{"Content-Type": "text/html", "Content-Length": "100000"})
            case _:
                self.answer(PAGE)

    def answer(self, body: bytes, status: int = 200, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": "text/html; charset=utf-8", **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        return


@pytest.fixture
def proxy(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Web)
    server.daemon_threads, server.block_on_close = True, False
    threading.Thread(target=server.serve_forever, daemon=True).start()
    for name in (
        "no_proxy",
        "NO_PROXY",
        "all_proxy",
        "ALL_PROXY",
        "https_proxy",
        "HTTPS_PROXY",
        "HTTP_PROXY",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{server.server_port}")
    yield
    server.shutdown()
    server.server_close()


def never() -> bool:
    return False


def read_page(address: str, is_stopping: Callable[[], bool], seconds: float = SECONDS) -> tuple[str, bytes]:
    """Return a page's address after redirects, and its body."""
    with TemporaryDirectory() as folder:
        found, file = save_page(address, Path(folder), is_stopping, seconds)
        assert file.name == "page.html"
        return found, file.read_bytes()


@pytest.mark.usefixtures("proxy")
def test_a_page_is_read() -> None:
    assert read_page("http://page.example/", never) == ("http://page.example/", PAGE)
    assert read_page("http://page.example/gzip", never)[1] == PAGE
    assert page_text("http://page.example/", never).startswith("http://page.example/\n\n")


@pytest.mark.usefixtures("proxy")
def test_a_redirect_is_followed() -> None:
    there = "http://page.example/there"
    assert read_page(f"http://page.example/to/{there}", never)[0] == there


@pytest.mark.usefixtures("proxy")
@pytest.mark.parametrize(
    ("path", "words"),
    {
        "loop/0": "redirects more than 5 times",
        "huge": "has more than 5 MB",
        "bomb": "has more than 5 MB",
        "brotli": "in a compression that it was not asked for",
        "image": "is image/png, not a page of text",
        "missing": "page.example answered 404 Not Found",
        "drops": "cannot be read",
        "to/http://127.0.0.1/": "is in a private network, or on this machine",
        "to/http://localhost:1/": "is in a private network, or on this machine",
        "to/file:///etc/passwd": "^The page .* cannot be read",
        "to/http://0177.0.0.1/": "^The page .* cannot be read",
    }.items(),
)
def test_what_is_not_a_page_ends_in_a_sentence(path: str, words: str) -> None:
    with pytest.raises(ToolFailed, match=words):
        read_page(f"http://page.example/{path}", never, 60)


@pytest.mark.usefixtures("proxy")
def test_a_slow_page_is_given_up_and_can_be_stopped() -> None:
    with pytest.raises(ToolFailed, match=r"^page\.example did not send the page within 3 seconds\.$"):
        read_page("http://page.example/slow", never, 3)
    before = time.monotonic()
    with pytest.raises(ToolFailed, match=r"^Reading the page was stopped\.$"):  # it comes after 30 seconds
        read_page("http://page.example/slow", lambda: time.monotonic() > before + 1)
    assert time.monotonic() - before < 30


@pytest.mark.usefixtures("proxy")
def test_a_process_that_was_killed_is_not_a_slow_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "httpx2.py").write_text("import os\nos.abort()", encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(ToolFailed, match=r"^The page of page\.example was not read: .* crashed"):
        read_page("http://page.example/", never)


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1:1", "localhost:1", "2130706433", "0x7f.1", "0.0.0.0", "10.1.2.3", "192.168.0.1",
     "169.254.169.254", "224.0.0.1", "100.64.0.1", "[::1]", "[::ffff:127.0.0.1]", "[fe80::1]", "[fd00::1]"],
)  # fmt: skip
def test_private_addresses_are_refused(host: str) -> None:
    with pytest.raises(ToolFailed, match=r"^\S+ is in a private network, or on this machine"):
        read_page(f"http://{host}/", never, 60)


@pytest.mark.parametrize(
    "address", ["", "file:///etc/passwd", "ftp://a/b", "page.example", "http://", "http://[x"]
)
def test_what_is_not_an_address_is_refused(address: str) -> None:
    with pytest.raises(ToolFailed, match="is not the address of a page"):
        read_page(address, never)


@pytest.mark.parametrize(
    ("address", "is_so"),
    {
        "8.8.8.8": True, "2606:4700::1111": True, "::ffff:8.8.8.8": True, "64:ff9b::808:808": True,
        "64:ff9b::7f00:1": False, "2002:7f00:1::": False, "::ffff:10.0.0.1": False, "::": False, "ff02::1": False,
        "fe80::1%eth0": False, "240.0.0.1": False, "255.255.255.255": False, "198.18.0.1": False, "/socket": False,
    }.items(),
)  # fmt: skip
def test_public_addresses_are_known(address: str, is_so: bool) -> None:
    assert is_public(address) == is_so


REBINDING = """
from app.tools import web_page_main
web_page_main._addresses = lambda host: {"8.8.8.8"}  # what the name is when it is checked
web_page_main.fetch(b'["http://localhost:1/", "."]', lambda line: print(line.decode()))
"""


def test_a_name_that_changes_after_its_check_is_refused_at_the_connection() -> None:
    environment = {**importing_environment(), "no_proxy": "*", "NO_PROXY": "*"}
    command = [sys.executable, "-c", REBINDING]
    told = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    assert "is an address of a private network, or of this machine" in told
