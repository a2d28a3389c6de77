"""Gradio still has what it does not promise and the page leans on: a failing test names what a release changed."""

import asyncio
import inspect
from pathlib import Path

import gradio as gr
import pytest
from gradio import blocks, processing_utils, queueing, route_utils, routes, state_holder, utils

from app.errors import NotUploaded
from app.ui.frame.gradio_internals import SESSIONS, UPLOAD, PageBlocks, Press, QueuePace, pressed
from app.ui.frame.uploads import check_uploads

USED = (
    (
        blocks.Blocks.process_api,
        "await self.preprocess_data(block_fn,",
        "events are checked in preprocess_data",
    ),
    (
        routes.mount_gradio_app,
        "blocks.config = blocks.get_config_file()",
        "the page's configuration is made when it is mounted",
    ),
    (processing_utils, "not blocks.has_launched", "a file's folder is checked once has_launched is set"),
    (state_holder, "blocks.state_session_capacity", "sessions are kept up to state_session_capacity"),
    (queueing.Queue, "asyncio.sleep(self.sleep_when_free)", "the queue waits for sleep_when_free"),
    (queueing.Queue, "asyncio.sleep(self.progress_update_sleep_when_free)", "progress is looked for seldom"),
    (queueing.Queue, "> self.ANALYTICS_MAX_EVENTS", "so many events are kept for the monitoring page"),
    (queueing.Queue, "self.ANAYLTICS_CACHE_FREQUENCY", "events are summed up once for so many"),
    (routes, '"/upload"', f"files are sent to {UPLOAD}"),
    (routes, '"/queue/join"', "events are sent to the queue"),
    (routes, '"/queue/data"', "events are answered by the queue"),
    (routes, '"/cancel"', "a page that is left cancels its events"),
)
"""Code of Gradio's, what must be in it, and what that means."""


@pytest.mark.parametrize(("code", "words", "meaning"), USED, ids=[use[2] for use in USED])
def test_gradio_still_uses_what_is_set_or_overridden(code: object, words: str, meaning: str) -> None:
    assert words in inspect.getsource(code), f"Gradio {gr.__version__} changed this: {meaning}"  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (blocks.Blocks.preprocess_data, ["self", "block_fn", "inputs", "state", "explicit_call"]),
        (route_utils.upload_fn, ["request", "upload_dir", "max_file_size", "upload_id"]),
        (utils.get_upload_folder, []),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_functions_of_gradios_take_what_they_are_given(function: object, arguments: list[str]) -> None:
    assert list(inspect.signature(function).parameters)[: len(arguments)] == arguments  # type: ignore[arg-type]


def test_an_event_has_what_the_page_sent() -> None:
    sent = {"do": "open", "value": 3, "name": None}
    assert pressed(gr.EventData(None, sent)) == Press("open", "", "3")


def test_a_queue_is_looked_into_seldom_until_the_page_is_used() -> None:
    page = PageBlocks(check_uploads, analytics_enabled=False)
    queue = page._queue
    before = set(vars(queue))
    QueuePace(page)
    assert queue.sleep_when_free < queue.progress_update_sleep_when_free
    assert set(vars(queue)) == before, "a name that the queue does not have"
    assert page.state_session_capacity == SESSIONS


async def sent_to(page: PageBlocks, path: Path) -> None:
    [event] = page.fns.values()
    await page.preprocess_data(event, [{"path": str(path)}], None)


def test_a_file_that_was_not_uploaded_ends_an_event_with_a_sentence(tmp_path: Path) -> None:
    with PageBlocks(check_uploads, analytics_enabled=False) as page:
        box = gr.Textbox()
        box.change(print, box)
    with pytest.raises(gr.Error, match=str(NotUploaded())):
        asyncio.run(sent_to(page, tmp_path / "secret"))
