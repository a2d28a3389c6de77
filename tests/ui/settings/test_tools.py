"""Settings, Tools: servers are added, started, watched, turned off and removed, and secrets are not shown."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from app.conversation.chat_tools import DOCUMENTS, PAGES
from app.errors import ToolFailed
from app.settings import ToolSettings
from app.startup import explain_address, explained_servers
from app.system.network_log import NetworkLog
from app.ui import Services
from app.ui.settings.tools import BOX, LONGEST, ToolsActions, ToolsRenderer, with_server
from app.values.tools import ServerState, ServerStatus, ServerText, Tool, ToolServer
from tests.accessibility import grave_by_day_and_by_night
from tests.fakes import FakeToolServers
from tests.page_driver import PageDriver
from tests.support.waiting import until
from tests.ui.chat.people import pressed

COMMAND = "python -m weather --quiet"
JSON = json.dumps(
    {
        "mcpServers": {
            "files": {"command": "npx", "args": ["server", "/a b"], "env": {"TOKEN": "hidden-1"}},
            "far": {
                "url": "http://me:hidden-2@127.0.0.1:9/mcp?key=hidden-3",
                "headers": {"Authorization": "hidden-4"},
            },
        }
    }
)
FORECAST = "Tell the <weather>."


class WatchedServers(FakeToolServers):
    """Servers of which each has the same tool, resource and prompt; `failing` ones do not start."""

    def __init__(self) -> None:
        super().__init__()
        self.failing: set[str] = set()
        self.states: dict[str, ServerState] = {}
        self.ended: list[str] = []
        self.may_start = self.may_answer
        self.lines: tuple[str, ...] = ("It has started.",)
        self.why = ""

    def tools(self, name: str, _is_stopping: Callable[[], bool] = lambda: False) -> tuple[Tool, ...]:
        self.states[name] = "starting"
        self.may_start.wait()
        self.states[name] = "failed" if name in self.failing else "ready"
        if name in self.failing:
            raise ToolFailed(f"{name} ended unexpectedly.")
        return self.status(name).tools

    def status(self, name: str) -> ServerStatus:
        state = self.states.get(name, "off")
        problem = f"{name} ended unexpectedly. {self.why}" if state == "failed" else ""
        if state != "ready":
            return ServerStatus(state, problem)
        texts = (
            ServerText(name, "today", "The weather of today", "weather://today"),
            ServerText(name, "clothes", "What to wear"),
        )
        return ServerStatus(state, problem, (Tool(name, "forecast", FORECAST),), texts)

    def log(self, _name: str) -> tuple[str, ...]:
        return self.lines

    def restart(self, name: str) -> None:
        self.ended.append(name)
        self.states.pop(name, None)


class Person:
    """A person at the section, without the page."""

    def __init__(self, services: Services) -> None:
        self.told: list[str] = []
        self.logs: set[str] = set()
        self.actions = ToolsActions(services, self.told.append)
        self._renderer = ToolsRenderer(services, self.logs)

    def press(self, do: str, name: str, value: str = "") -> None:
        self.actions.act(self.logs, pressed(do, name, value))

    @property
    def shown(self) -> str:
        return str(self._renderer.render()["tool-servers"])

    @property
    def own(self) -> str:
        return str(self._renderer.render()["own-tools"])

    def parts(self) -> object:
        return self._renderer.render()


@pytest.fixture
def servers(services: Services) -> WatchedServers:
    watched = WatchedServers()
    services.conversations.tools.servers = watched  # type: ignore[assignment]
    services.conversations.tools._settings = lambda: services.settings.tools
    return watched


@pytest.fixture
def person(services: Services, servers: WatchedServers) -> Person:
    assert services.conversations.tools.servers is servers
    return Person(services)


def names(services: Services) -> list[str]:
    return [one.name for one in services.settings.tools.servers]


def test_the_apps_own_tools_are_off_until_they_are_turned_on(person: Person, services: Services) -> None:
    assert services.settings.tools.bundled == () and 'aria-checked="true"' not in person.own
    person.press("turn", DOCUMENTS, "on")
    person.press("turn", PAGES, "on")
    person.press("turn", PAGES, "on")
    assert services.settings.tools.bundled == (PAGES, DOCUMENTS)
    assert person.own.count('aria-checked="true"') == 2
    person.press("turn", PAGES)
    assert services.settings.tools.bundled == (DOCUMENTS,)


def test_a_command_is_added_started_and_its_state_is_shown(
    person: Person, services: Services, servers: WatchedServers
) -> None:
    servers.may_start.clear()
    text, faults = person.actions.add(COMMAND)
    [added] = services.settings.tools.servers
    assert (
        text == ""
        and added.command == ("python", "-m", "weather", "--quiet")
        and '""' in faults.replace("&quot;", '"')
    )
    until(lambda: "Starting…" in person.shown)
    servers.may_start.set()
    until(lambda: "1 tool<" in person.shown)
    assert COMMAND in person.shown and person.parts() is person.parts()


def test_what_a_server_offers_and_its_log_are_shown_in_folds(person: Person, servers: WatchedServers) -> None:
    person.actions.add(COMMAND)
    until(lambda: "1 tool<" in person.shown)
    [name] = servers.states
    assert "It has started." not in person.shown and "weather of today" in person.shown
    assert "Tell the &lt;weather&gt;." in person.shown and "What to wear" in person.shown
    drawn = person.parts()
    servers.lines = ("It has started.", "<b>More.")
    assert person.parts() is drawn, "what is not shown draws nothing"
    person.press("log", name)
    assert "&lt;b&gt;More." in person.shown
    person.press("log", name)
    assert "More" not in person.shown


def test_a_server_that_fails_says_why_and_can_be_restarted(person: Person, servers: WatchedServers) -> None:
    servers.failing.add("files")
    person.actions.add(JSON)
    until(lambda: "files ended unexpectedly." in person.shown and "1 tool<" in person.shown)
    servers.failing.clear()
    person.press("restart", "files")
    until(lambda: person.shown.count("1 tool<") == 2)
    assert "ended unexpectedly" not in person.shown and person.told == []


def test_secrets_are_stored_for_their_owner_alone_and_never_shown(
    person: Person, servers: WatchedServers, tmp_path: Path
) -> None:
    servers.failing.add("far")
    servers.why = "Can't reach http://me:hidden-2@127.0.0.1:9/mcp?key=hidden-3 (refused)."
    person.actions.add(JSON)
    until(lambda: "(refused)" in person.shown)
    assert "hidden" not in person.shown
    person.press("log", "far")
    assert "hidden" not in person.shown
    assert "http://127.0.0.1:9/mcp?…" in person.shown and "npx server &#39;/a b&#39;" in person.shown
    assert "gets TOKEN." in person.shown and "gets Authorization." in person.shown
    file = tmp_path / "settings.json"
    assert file.read_text(encoding="utf-8").count("hidden") == 4
    assert sys.platform == "win32" or file.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    "wrong",
    [
        "",
        "python 'a",
        "{",
        '{"mcpServers": 5}',
        '"mcpServers": {}',
        "[]",
        "http://[",
        "https://",
        "x" * (LONGEST + 1),
    ],
)
def test_wrong_input_is_told_at_the_box_and_kept(person: Person, services: Services, wrong: str) -> None:
    text, faults = person.actions.add(wrong)
    assert text == wrong and f"{BOX}&quot;: &quot;&quot;" not in faults and "bug" not in faults
    assert names(services) == [] and person.told == []


def test_a_file_is_imported_and_one_that_is_wrong_is_told_at_the_box(
    person: Person, services: Services, uploads: Path
) -> None:
    (uploads / "mcp.json").write_bytes(b"\xef\xbb\xbf" + JSON.encode())
    assert "&quot;: &quot;&quot;" in person.actions.add_file(str(uploads / "mcp.json"))
    assert names(services) == ["files", "far"]
    assert not (uploads / "mcp.json").exists()
    (uploads / "mcp.json").write_text(" " * (LONGEST + 1), encoding="utf-8")
    assert "1,000,000 characters" in person.actions.add_file(str(uploads / "mcp.json"))
    for path in (None, "/etc/passwd"):
        assert "not uploaded" in person.actions.add_file(path)
    (uploads / "notes.txt").write_text("rm notes", encoding="utf-8")  # a file is never run as a command
    assert "not valid JSON" in person.actions.add_file(str(uploads / "notes.txt"))
    assert names(services) == ["files", "far"]


def test_a_name_that_is_taken_gets_a_number_and_the_same_server_is_added_once(
    person: Person, services: Services
) -> None:
    person.actions.add(JSON)
    text, faults = person.actions.add(JSON)
    assert text == JSON and "in the list already" in faults
    person.actions.add('{"mcpServers": {"files": {"command": "other"}, "My documents": {"command": "x"}}}')
    assert names(services) == ["files", "far", "files 2", "My documents 2"]


def test_a_removed_server_is_ended_and_undo_puts_it_back_where_it_was(
    person: Person, services: Services, servers: WatchedServers
) -> None:
    person.actions.add(JSON)
    before = services.settings.tools.servers
    person.press("remove", "files")
    assert names(services) == ["far"] and servers.ended == ["files"]
    services.deletions.undo()
    assert services.settings.tools.servers == before and person.told == []


def test_a_server_that_is_off_is_ended_and_not_offered(
    person: Person, services: Services, servers: WatchedServers
) -> None:
    person.actions.add(JSON)
    person.press("turn", "files")
    assert servers.ended == ["files"] and ">Off<" in person.shown
    assert [one.is_on for one in services.settings.tools.servers] == [False, True]
    person.press("turn", "files", "on")
    assert ">Off<" not in person.shown


def test_a_server_is_put_back_behind_the_last_one_if_others_are_gone() -> None:
    assert with_server(ToolSettings(), ToolServer("a", ("x",)), 5).servers == (ToolServer("a", ("x",)),)


def test_the_log_of_contacts_names_the_servers_on_other_machines(person: Person, services: Services) -> None:
    person.actions.add(
        '{"mcpServers": {"far": {"url": "https://tools.example:8000/mcp"}, "here": {"command": "x"}}}'
    )
    log = NetworkLog({})
    assert explained_servers(services.settings.tools, log) == services.settings.tools.servers
    for address in ("http://[", "", "no address", "https://other.example/a"):
        explain_address(log, address, "a page")
    for host in ("tools.example", "other.example", "third.example"):
        log.audit("socket.getaddrinfo", (host, 443))
    assert [(one.host, one.why) for one in log.contacts()] == [
        ("other.example", "a page"), ("third.example", ""), ("tools.example", "the tool server far"),
    ]  # fmt: skip


@pytest.mark.browser
def test_a_server_is_added_read_turned_off_removed_and_put_back_in_the_browser(
    servers: WatchedServers, page_driver: PageDriver, services: Services
) -> None:
    page = page_driver.page
    page.click("#to-settings")
    page.click("#settings-nav [data-section=tools]")
    page.fill(f"#{BOX} textarea", "python 'a")
    page.click("#add-tool-server")
    page.wait_for_selector(f"#{BOX}-fault:not(:empty)")
    assert page.input_value(f"#{BOX} textarea") == "python 'a"
    servers.may_start.clear()
    page.fill(f"#{BOX} textarea", JSON)
    page.press(f"#{BOX} textarea", "Enter")
    page.wait_for_selector("#tool-servers .state >> text=Starting…")
    page.wait_for_function(f"document.querySelector('#{BOX} textarea').value === ''")
    servers.may_start.set()
    page.wait_for_selector("#tool-servers li:nth-child(2) .state.ready")
    page.focus("#tool-servers summary >> nth=0")
    page.keyboard.press("Enter")
    page.wait_for_selector(".unfolded >> text=weather of today")
    page.focus("#tool-servers [data-do=log] >> nth=0")
    page.keyboard.press("Enter")
    page.wait_for_selector(".log >> text=It has started.")
    assert page.evaluate("document.activeElement.dataset.do") == "log", "the keyboard stays where it is"
    assert page.is_visible(".unfolded >> text=weather of today"), "what is open stays open"
    assert grave_by_day_and_by_night(page) == []
    page.click("#own-tools [role=switch] >> nth=1")
    until(lambda: services.settings.tools.bundled == (DOCUMENTS,))
    page.click("#tool-servers [role=switch] >> nth=0")
    page.wait_for_selector("#tool-servers .state >> text=Off")
    page.click("#tool-servers [data-do=remove] >> nth=0")
    page.wait_for_selector("#tool-servers li:nth-child(2)", state="detached")
    page.click("#undo button >> text=Undo")
    page.wait_for_selector("#tool-servers li:nth-child(2)")
    assert names(services) == ["files", "far"]
