"""The X-ray in a real Chromium, on a page of its own that follows a reply of two steps."""

import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fastapi
import gradio as gr
import pytest
import uvicorn

from app.conversation import Reply, ReplySettings, StartedReply
from app.ui.chat.reply_progress import ReplyProgress
from app.ui.chat.state import ChatState
from app.ui.frame.event_handlers import PageEvents
from app.ui.frame.page_connections import Pages, PageSession, PageValue, add_page_socket
from app.ui.frame.page_updates import ACTIVE_SECONDS, PolledRenderer
from app.ui.frame.theme import head, make_theme
from app.ui.live.step_history import TracedStep
from app.ui.live.view import XrayRenderer, build_live_panel, build_xray
from app.values.messages import ModelChoice, Options, Piece, Statistics
from tests.fakes import WordReader
from tests.ui.live.traces import ESSAY, PLAIN, texts

pytestmark = pytest.mark.browser


class EssayReader(WordReader):
    """Reads the tokens of these steps."""

    texts = staticmethod(texts)


class FollowedReply:
    """A reply that every page follows; `begin` starts it anew."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        self._log, self._steps = Reply(), 0
        writing = StartedReply(2, ReplySettings(ModelChoice("demo"), Options()), self._log)
        self.progress = ReplyProgress(writing, EssayReader)
        self.write(ESSAY)
        self.write(PLAIN)

    def write(self, step: TracedStep) -> None:
        self._steps += 1
        origins = ("model",) * len(step.token_ids)
        self._log.append(Piece("x", step.token_ids, origins, Statistics(steps=self._steps), (1,), step.trace))
        self.progress.read()


@pytest.fixture(scope="module")
def reply() -> FollowedReply:
    return FollowedReply()


@pytest.fixture(scope="module")
def address(reply: FollowedReply) -> Iterator[str]:
    """A page with nothing but the live view."""
    pages, chat = Pages(), PageValue(ChatState)
    with gr.Blocks(analytics_enabled=False) as blocks:
        session = gr.HTML(elem_id="session", js_on_load="foresight.connect(element)")
        build_live_panel()
        xray = build_xray(chat, lambda state: state.reply, PageEvents(pages, print))

        def begin(request: gr.Request) -> str:
            page = pages.open(request.session_hash or "")
            page.get(chat).reply = reply.progress
            return page.session

        blocks.load(begin, outputs=session)

    def views(page: PageSession) -> list[PolledRenderer]:
        renderer = XrayRenderer(page.get(xray), lambda: page.get(chat).reply)
        return [PolledRenderer(renderer.render, lambda: False, ACTIVE_SECONDS)]

    app = fastapi.FastAPI()
    add_page_socket(app, pages, views, lambda: None)
    gr.mount_gradio_app(
        app, blocks, path="/", theme=make_theme(), head=head({}), ssr_mode=False, footer_links=[]
    )
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", ws="websockets-sansio"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [place]})
        thread.start()
        yield f"http://127.0.0.1:{place.getsockname()[1]}"
        server.should_exit = True
        thread.join()


@pytest.fixture
def page(browser: Any, address: str, reply: FollowedReply) -> Iterator[Any]:
    """The page with the X-ray open and live; nothing may be said on its console."""
    reply.begin()
    context = browser.new_context(viewport={"width": 1366, "height": 768}, accept_downloads=True)
    opened, complaints = context.new_page(), []
    opened.on("console", lambda said: said.type in ("error", "warning") and complaints.append(said.text))
    opened.on("pageerror", lambda error: complaints.append(str(error)))
    opened.goto(address)
    opened.click("#open-xray")
    wait_for_step(opened, 2)
    yield opened
    context.close()
    assert complaints == []


def wait_for_step(page: Any, number: int, live: str | None = None) -> None:
    selector = f'.xray[data-shown="{number}"]' + (f'[data-live="{live}"]' if live else "")
    page.wait_for_selector(selector, timeout=300_000)
    page.wait_for_function(f"document.querySelector('#xray output').textContent.startsWith('Step {number} ')")


def test_live_follows_the_reply_and_pause_holds_it(page: Any, reply: FollowedReply) -> None:
    reply.write(ESSAY)
    wait_for_step(page, 3, live="yes")
    page.click("text=Pause")
    wait_for_step(page, 3, live="no")
    reply.write(PLAIN)
    page.click("#xray [data-move=live]")
    wait_for_step(page, 4, live="yes")


def test_steps_are_walked_with_buttons_keys_and_the_slider(page: Any) -> None:
    page.click("[data-move=back]")
    wait_for_step(page, 1, live="no")
    assert page.is_disabled("[data-move=back]")
    page.focus("[data-move=live]")
    page.keyboard.press("ArrowRight")
    wait_for_step(page, 2)
    page.fill("#xray input", "1")
    wait_for_step(page, 1)
    page.click("[data-move=last]")
    wait_for_step(page, 2)
    # The button that had the focus is switched off now: keys go on working.
    page.keyboard.press("ArrowLeft")
    wait_for_step(page, 1)


@pytest.mark.thorough
def test_escape_closes_it_and_gives_the_focus_back(page: Any) -> None:
    page.keyboard.press("Escape")
    assert not page.is_visible("#xray")
    assert page.evaluate("document.activeElement.id") == "open-xray"


@pytest.mark.thorough
def test_the_focus_stays_inside_while_it_is_open(page: Any) -> None:
    for _ in range(12):
        page.keyboard.press("Tab")
        assert page.evaluate("!!document.activeElement.closest('#xray')")


@pytest.mark.thorough
def test_the_export_is_saved_as_a_file(page: Any, tmp_path: Path) -> None:
    with page.expect_download() as download:
        page.click("text=Export JSON")
    download.value.save_as(tmp_path / "steps.json")
    document = json.loads((tmp_path / "steps.json").read_text(encoding="utf-8"))
    assert len(document["steps"]) == 2
    assert document["texts"]["9"] == "nine\n"
