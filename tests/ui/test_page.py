"""The page as it is built, and what its server takes from a program that has the key: no file of the person's."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import Request, urlopen

import gradio as gr
import pytest

from app.errors import NotUploaded
from app.settings import assets_dir
from app.ui import AppContext, Running, Services
from app.ui.frame.page_connections import Pages
from app.ui.frame.services import Endpoint
from app.ui.layout import build_blocks
from tests.fake_documents import ScriptedDocuments
from tests.ui.conftest import key_of

SECONDS = 300.0
UPLOAD = b'--b\r\nContent-Disposition: form-data; name="files"; filename="a.txt"\r\n\r\nhello\r\n--b--\r\n'
CLOSED = (
    ("GET", "/gradio_api/file=/etc/passwd"), ("GET", "/gradio_api/file/etc/passwd"),
    ("GET", "/gradio_api/proxy=http://127.0.0.1:9/"),
    ("POST", "/gradio_api/run/add_files"), ("POST", "/gradio_api/api/add_files"),
    ("POST", "/gradio_api/call/add_files"), ("POST", "/gradio_api/component_server"),
    ("POST", "/gradio_api/process_recording"), ("POST", "/gradio_api/reset"), ("POST", "/gradio_api/vibe-edit"),
    ("GET", "/gradio_api/info"), ("GET", "/gradio_api/openapi.json"),
    ("GET", "/gradio_api/deep_link?session_hash=x"),
    ("GET", "/gradio_api/stream/a/0/1/playlist-file"),
    ("GET", "/gradio_api/token"), ("GET", "/gradio_api/runs"),
    ("GET", "/gradio_api/custom_component/1/client/component/index.js"),
    ("GET", "/monitoring/summary"), ("GET", "/openapi.json"), ("POST", "/login"), ("GET", "/manifest.json"),
)  # fmt: skip
"""Routes of Gradio's that the page does not ask for."""
TALKATIVE = {
    "file", "image", "video", "audio", "gallery", "dataframe", "multimodaltextbox", "fileexplorer",
}  # fmt: skip
"""Components of Gradio's that write words on the page."""


def test_ids_are_of_one_element_and_gradio_adds_no_words_and_no_connection(
    services: Services, app_context: AppContext
) -> None:
    blocks, _ = build_blocks(services, app_context, Endpoint("127.0.0.1", 0), Pages())
    ids = Counter(block.elem_id for block in blocks.blocks.values() if block.elem_id)
    assert len(ids) > 50
    assert [name for name, times in ids.items() if times > 1] == []
    assert [block for block in blocks.blocks.values() if isinstance(block, gr.State)] == []
    assert blocks.config == {}, "it is made when the page is mounted"
    blocks.is_whole = True
    config = blocks.get_config_file()
    assert config["connect_heartbeat"] is False
    kinds = {one["type"] for one in config["components"]}
    assert len(kinds) > 5 and not kinds & TALKATIVE, "“Drop File Here”"
    assert {one["show_progress"] for one in config["dependencies"]} == {"hidden"}, "“processing | 0.9/3.7s”"


def ask(running: Running, path: str, body: bytes | None = None, kind: str = "application/json") -> Any:
    """The open answer to a request with the page's key."""
    headers = {**key_of(running), "Content-Type": kind}
    return urlopen(Request(running.endpoint.origin + path, body, headers), timeout=SECONDS)


def outcomes(
    running: Running, data: dict[int, list[Any]], session: str = "page"
) -> dict[int, dict[str, Any]]:
    """What the page's queue says of each of these events once they are through."""
    names, found = dict[str, int](), dict[int, dict[str, Any]]()
    for event, values in data.items():
        sent = json.dumps({"fn_index": event, "data": values, "session_hash": session}).encode()
        with ask(running, "/gradio_api/queue/join", sent) as answer:
            names[json.load(answer)["event_id"]] = event
    with ask(running, f"/gradio_api/queue/data?session_hash={session}") as lines:
        for line in lines:
            if line.startswith(b"data:"):
                message = json.loads(line.removeprefix(b"data:"))
                if message["msg"] == "process_completed":
                    found[names[message["event_id"]]] = dict(message["output"])
                    if len(found) == len(data):
                        return found
    raise AssertionError("an event never ended")


def events(running: Running) -> list[tuple[int, list[str]]]:
    """Every event that a page may send something with, and the kinds of its inputs."""
    with ask(running, "/config") as answer:
        config = json.load(answer)
    kinds = {component["id"]: component["type"] for component in config["components"]}
    found = [(one["id"], [kinds[name] for name in one["inputs"]]) for one in config["dependencies"]]
    return [(event, inputs) for event, inputs in found if inputs]


def loads(running: Running) -> list[int]:
    with ask(running, "/config") as answer:
        dependencies = json.load(answer)["dependencies"]
    return [one["id"] for one in dependencies if [target[1] for target in one["targets"]] == ["load"]]


def naming(path: str, inputs: list[str]) -> list[Any]:
    """The data of an event that names this file in every input, as Gradio's components write it."""
    file = {"path": path, "orig_name": "notes.txt", "meta": {"_type": "gradio.FileData"}}
    return [file for _ in inputs]


def copies(secret: str) -> list[Path]:
    """The files in the folder of uploads that hold this text."""
    from gradio.utils import get_upload_folder

    files = [path for path in Path(get_upload_folder()).rglob("*") if path.is_file()]
    return [path for path in files if secret in path.read_text(errors="replace")]


def test_no_event_takes_a_file_that_was_not_uploaded(
    shared: Running, shared_documents: ScriptedDocuments, tmp_path: Path
) -> None:
    before = list(shared_documents.uploads)
    own = tmp_path / "own.txt"
    own.write_text("My secret of this test")
    asked = events(shared)
    assert {"uploadbutton", "textbox", "dropdown"} <= {kind for _, inputs in asked for kind in inputs}
    ends = outcomes(shared, {event: naming(str(own), inputs) for event, inputs in asked}, "files")
    assert {event: end.get("error") for event, end in ends.items()} == {
        event: str(NotUploaded()) for event in ends
    }
    assert (shared_documents.uploads, own.exists()) == (before, True)
    assert copies("My secret of this test") == []


@pytest.fixture
def other_server() -> Iterator[tuple[str, list[str]]]:
    """A server of this machine, and the paths that it was asked for."""
    asked: list[str] = []

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(404)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Nothing."""

    with HTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", asked
        server.shutdown()
        thread.join(SECONDS)


def test_no_event_fetches_an_address(shared: Running, other_server: tuple[str, list[str]]) -> None:
    address, asked = other_server
    takers = [one for one in events(shared) if {"uploadbutton", "textbox"} & set(one[1])]
    ends = outcomes(shared, {event: naming(f"{address}/a", inputs) for event, inputs in takers}, "address")
    assert {end.get("error") for end in ends.values()} == {str(NotUploaded())}
    with pytest.raises(HTTPError, match="404"):
        ask(shared, f"/gradio_api/proxy={address}/b")
    assert asked == []


def test_an_upload_reaches_its_event_which_removes_it(shared: Running) -> None:
    (event, inputs), *_ = [one for one in events(shared) if one[1] == ["uploadbutton"]]
    for loading in loads(shared):
        outcomes(shared, {loading: []})
    with ask(shared, "/gradio_api/upload", UPLOAD, "multipart/form-data; boundary=b") as answer:
        [path] = json.load(answer)
    assert "error" not in outcomes(shared, {event: [naming(path, inputs)]})[event]
    assert not Path(path).exists()


def test_what_the_page_does_not_ask_for_is_not_found(shared: Running) -> None:
    found = {(method, path): status(shared, method, path) for method, path in CLOSED}
    assert [route for route, code in found.items() if code != 404] == []


def test_a_page_that_lost_its_connection_learns_that_its_key_is_known(shared: Running) -> None:
    """The browser would report an error if the app found nothing there."""
    assert status(shared, "GET", "/foresight/page") == 204


def status(running: Running, method: str, path: str) -> int:
    try:
        with ask(running, path, b"{}" if method == "POST" else None) as answer:
            return int(answer.status)
    except HTTPError as error:
        return error.code


def test_an_upload_cannot_be_fetched_again(shared: Running) -> None:
    with ask(shared, "/gradio_api/upload", UPLOAD, "multipart/form-data; boundary=b") as answer:
        [path] = json.load(answer)
    with pytest.raises(HTTPError, match="404"):
        ask(shared, f"/gradio_api/file={quote(path)}")


def test_no_rule_of_the_page_depends_on_all_that_is_drawn() -> None:
    """Such a rule restyles all messages whenever a part is drawn, which costs milliseconds a key."""
    rule = re.compile(r"(body|html|:root|[.]gradio-container)[^\s,{]*:has[(]")
    styles = [path.read_text(encoding="utf-8") for path in (assets_dir() / "ui").glob("*.css")]
    assert styles and not any(map(rule.search, styles))
