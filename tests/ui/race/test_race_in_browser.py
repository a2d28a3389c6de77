"""A race as a person runs it: its verdict, its history, and a page that everybody can read."""

import json
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

import pytest

from app.conversation import Reply
from app.ui import Running
from app.values.messages import Request
from app.values.reply_statistics import Margin
from tests.accessibility import grave_by_day_and_by_night
from tests.fakes import ScriptedEngine
from tests.page_driver import PageDriver
from tests.racing import LaneEngine

pytestmark = pytest.mark.browser


class RaceEngine(ScriptedEngine):
    """Has a model to show, and lanes that race."""

    def __init__(self) -> None:
        super().__init__()
        self.lanes = LaneEngine()

    def submit(self, request: Request, reply: Reply) -> None:
        self.lanes.submit(request, reply)

    def margin(self, request: Request, written: Sequence[int]) -> Future[Margin]:
        return self.lanes.margin(request, written)


@pytest.fixture
def engine() -> ScriptedEngine:
    return RaceEngine()


def test_lists_of_lanes_close_when_tab_leaves_them_and_a_race_is_run_read_and_exported(
    browser: Any, running: Running
) -> None:
    with PageDriver(browser, running.url) as person:
        page = person.page
        page.click("#to-race")
        page.focus("#race-lane-1 input")
        for lane in (1, 2, 3):
            page.wait_for_selector(f"#race-lane-{lane} [role=listbox]")
            page.keyboard.press("Tab")
            page.wait_for_selector(f"#race-lane-{lane} [role=listbox]", state="detached", timeout=5000)
        page.click("#race-start")
        page.wait_for_selector("#race-history .past li")
        assert "All lanes wrote the same text" in person.text("#race-status")
        assert page.locator("#race .lane .badge >> text=identical text").count() == 2
        assert "8 of 8 tokens" in page.locator("#race .lane").nth(1).inner_text()
        assert len(json.loads(person.saved("#race-export-json"))["lanes"]) == 2
        assert grave_by_day_and_by_night(page) == []
        assert (person.complaints, person.foreign) == ([], [])


def test_what_is_typed_chosen_and_opened_stays_when_the_page_is_reloaded(
    browser: Any, running: Running
) -> None:
    boxes = {
        "#race-text textarea": "My own prompt.",
        "#race-tokens input": "77",
        "#race-lane-2 input": "Lookahead, fixed sizes",
        "#race-lane-3 input": "Jacobi",
        "#race-W-2 input": "11",
        "#race-N-2 input": "0",
        "#race-G-2 input": "13",
        "#race-W-3 input": "14",
        "#filter-size input": "Up to 1 GB",
        "#paste textarea": "Pasted.",
        "#chat-search :is(input, textarea)": "a chat",
        "#search-text :is(input, textarea)": "a model",
        "#folder :is(input, textarea)": "/models",
    }
    with PageDriver(browser, running.url) as person:
        page = person.page
        page.click("#to-documents")
        page.fill("#paste textarea", "Pasted.")
        page.click("#to-models")
        page.click("#folders .label-wrap")
        page.fill("#folder :is(input, textarea)", "/models")
        page.click("#installed [data-more] >> nth=0")
        page.click("#models-tab-discover")
        page.fill("#search-text :is(input, textarea)", "a model")
        page.click("#filter-size input")
        page.click("[role=option] >> text=Up to 1 GB")
        page.click("#to-race")
        for lane in (2, 3):
            page.click(f"#race-lane-{lane} input")
            page.click(f"[role=option] >> text={boxes[f'#race-lane-{lane} input']}")
        for box in filter(lambda box: "race" in box and "lane" not in box, boxes):
            page.fill(box, boxes[box])
        page.wait_for_selector("#race-N-2-fault >> text=must be from 2")
        page.click("#to-chat")
        page.fill("#chat-search :is(input, textarea)", "a chat")
        person.reload()
        page.click("#to-race")
        page.wait_for_selector("#race-text textarea")
        for box, text in boxes.items():
            page.wait_for_function(
                "([box, text]) => document.querySelector(box)?.value === text", arg=[box, text], timeout=9000
            )
        page.wait_for_selector("#race-N-2-fault >> text=must be from 2")
        assert page.locator("#folders .label-wrap.open").count() == 1
        assert page.locator("#installed .model-detail:not([hidden])").count() == 1
        page.wait_for_selector("#race-kind label.selected >> text=Own text")
        page.click("#race-another")
        page.wait_for_function("document.querySelector('#race-text textarea').value === 'My own prompt.'")
        assert person.complaints == []
