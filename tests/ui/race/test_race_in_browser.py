"""A remote lane as a person adds it: its box, its numbers, and its sentence when the server is gone."""

import json
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from typing import Any

import pytest

from app.conversation import Reply
from app.ui import Running, Services
from app.values.messages import Request
from app.values.trace import Margin
from tests.accessibility import grave_by_day_and_by_night
from tests.fakes import ScriptedEngine
from tests.page_driver import PageDriver
from tests.racing import LaneEngine
from tests.remote.fake_server import FakeServer
from tests.remote.fake_server import running as model_server

pytestmark = [pytest.mark.browser, pytest.mark.timeout(120)]


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


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with model_server(FakeServer(models=("org/far-away",))) as server:
        yield server


def test_a_remote_lane_is_added_races_and_fails_alone(
    browser: Any, running: Running, services: Services, server: FakeServer
) -> None:
    with PageDriver(browser, running.url) as person:
        page = person.page
        page.emulate_media(reduced_motion="reduce")
        page.click("#to-race")
        assert page.locator("#race-remote form").count() == 0, "there is nothing to choose"
        add_server(person, server.address)
        page.select_option("#race-remote select", label=f"org/far-away on {server.address.split('/')[2]}")
        page.wait_for_timeout(300)
        race(person)
        assert "All local lanes wrote the same text" in person.text("#race-status")
        assert "Remote: org/far-away wrote" in person.text("#race-status")
        lane = page.locator("#race .lane").nth(2)
        assert "7 of 7 tokens" in lane.inner_text() and "text may differ" in lane.inner_text()
        assert [one["name"] for one in json.loads(person.saved("#race-export-json"))["remote"]] == [
            "remote: org/far-away"
        ]
        server.status = 500
        race(person)
        assert "failed (500 Internal Server Error)" in person.text("#race .lane.failed .problem")
        identical = page.locator("#race .lane .badge >> text=identical text")
        identical.nth(1).wait_for()
        assert identical.count() == 2
        assert grave_by_day_and_by_night(page) == []
        assert "remote: org/far-away: no result" in person.text("#race-history .past li")
        services.servers.remove(server.address)
        page.wait_for_selector("#race-remote form", state="detached")
        assert (person.complaints, person.foreign) == ([], [])


def add_server(person: PageDriver, address: str) -> None:
    """Add a server under Models, and come back."""
    person.page.click("#to-models")
    person.page.click("#add-a-server button")
    person.page.fill("#server-address :is(input, textarea)", address)
    person.page.click("#add-server")
    person.page.wait_for_selector("#servers .server")
    person.page.click("#to-race")


def race(person: PageDriver) -> None:
    """Run a race to its end."""
    before = person.page.locator("#race-history .past li").count()
    person.page.click("#race-start")
    person.page.wait_for_function(
        "before => document.querySelectorAll('#race-history .past li').length > before", arg=before
    )
