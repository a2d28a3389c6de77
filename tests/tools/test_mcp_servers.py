"""Servers of tools: kind ones of the `mcp` package, and hostile ones, each a real process."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from app.errors import ToolFailed
from app.system.child_process import ChildProcess, importing_environment
from app.tools.mcp_servers import ToolServers
from app.values.tools import ServerText, Tool, ToolServer
from tests.support.waiting import until

pytestmark = pytest.mark.usefixtures("forked_children")
HERE = Path(__file__).parent
KIND = ToolServer("kind", (sys.executable, str(HERE / "kind_mcp_server.py")))
Make = Callable[..., ToolServers]


def raw(mode: str = "", **more: str) -> ToolServer:
    return ToolServer("raw", (sys.executable, str(HERE / "raw_mcp_server.py"), mode), environment=more)


@pytest.fixture
def started_children(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.tools.mcp_servers.ChildProcess", ChildProcess)


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    made: list[ToolServers] = []

    def start(*servers: ToolServer, starting: float = 60, answering: float = 60) -> ToolServers:
        made.append(ToolServers(lambda: servers, tmp_path / "tools", starting, answering))
        return made[-1]

    yield start
    for servers in made:
        servers.close()


def called(servers: ToolServers, name: str, arguments: str = "{}", server: str = "raw") -> str:
    tool = next(tool for tool in servers.tools(server) if tool.name == name)
    return servers.call(tool, arguments, lambda: False)


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def check_kind(servers: ToolServers) -> None:
    add, *_ = listed = servers.tools("kind")
    assert [tool.name for tool in listed] == ["add", "paint", "weather", "fail"]
    assert (add.description, listed[1].description) == ("Adds two integers.", "")
    assert json.loads(add.schema)["required"] == ["a", "b"]
    assert called(servers, "add", '{"a": 2, "b": 3}', "kind") == "2 + 3 = 5"
    painted = called(servers, "paint", '{"colour": "red"}', "kind")
    assert painted == "All is red.\n\n[Not text: image image/png]"
    assert json.loads(called(servers, "weather", "", "kind")) == {"degrees": 20}
    with pytest.raises(ToolFailed, match=r"^fail failed: .*the disk is full"):
        called(servers, "fail", "{}", "kind")
    with pytest.raises(
        ToolFailed, match=r"^The arguments do not match the tool's schema: 'b' is a required property"
    ):
        called(servers, "add", '{"a": 2}', "kind")
    with pytest.raises(ToolFailed, match=r"schema: a: 'x' is not of type 'integer'\.$"):
        called(servers, "add", '{"a": "x", "b": 1}', "kind")
    status = servers.status("kind")
    assert (status.state, status.tools) == ("ready", listed)
    today, photo, greet = status.texts
    assert today == ServerText("kind", "today", "What is to be done.", "notes://today")
    assert greet == ServerText("kind", "greet", "A greeting.", arguments=("name",))
    assert (servers.text_of(today), servers.text_of(greet)) == ("Buy milk.", "Greet [name].")
    with pytest.raises(ToolFailed, match=r"^notes://photo is not a text, so it is not read\.$"):
        servers.text_of(photo)


@pytest.mark.usefixtures("started_children")
def test_a_program_lists_its_tools_and_answers(make: Make) -> None:
    servers = make(KIND)
    assert servers.status("kind").state == "off"
    check_kind(servers)


@pytest.fixture
def address() -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, str(HERE / "kind_mcp_server.py"), str(port)]
    with subprocess.Popen(command, env=importing_environment(), stderr=subprocess.DEVNULL) as process:

        def answers() -> bool:
            with socket.socket() as tried:
                return tried.connect_ex(("127.0.0.1", port)) == 0

        until(answers)
        yield f"http://127.0.0.1:{port}/mcp"
        process.kill()


@pytest.mark.usefixtures("started_children")
def test_an_address_lists_its_tools_and_answers(make: Make, address: str) -> None:
    check_kind(make(ToolServer("kind", address=address)))


@pytest.mark.parametrize("arguments", ["7", "[]", "{", '{"a": ' * 5000])
def test_arguments_that_are_not_an_object_are_refused(make: Make, arguments: str) -> None:
    with pytest.raises(ToolFailed, match=r"^The arguments are not"):
        make(KIND).call(Tool("kind", "add"), arguments, lambda: False)


def test_what_is_not_there_is_told(make: Make) -> None:
    off = ToolServer("off", ("x",), is_on=False)
    servers = make(
        off, ToolServer("missing", ("no-such-program",)), ToolServer("away", address="http://127.0.0.1:9/")
    )
    for name, words in {
        "off": "There is no tool server off, or it is off",
        "missing": "The program no-such-program of missing was not found",
        "away": r"Can't reach away \(.*\). Check the address, and that the server is running.",
    }.items():
        with pytest.raises(ToolFailed, match=f"^{words}"):
            servers.tools(name)
    assert servers.status("missing").state == "failed"
    with pytest.raises(ToolFailed, match="was not found"):  # never the current folder
        make(ToolServer("relative", ("./server.py",))).tools("relative")


def test_a_program_that_dies_at_its_start_is_told_with_its_log_and_not_started_again_at_once(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.tools.mcp_servers.RETRY_SECONDS", 3600.0)
    servers = make(raw("dies"))
    with pytest.raises(ToolFailed, match=r"^raw ended unexpectedly \(exit code 1\)") as failure:
        servers.tools("raw")
    assert str(failure.value).endswith("then restart it. Its log ends: “no configuration”.")
    assert servers.log("raw") == ("no configuration",)
    assert servers.status("raw").state == "failed"
    with pytest.raises(ToolFailed, match="exit code 1"):
        servers.tools("raw")
    assert servers.log("raw") == ("no configuration",), "another start would say it once more"


def test_a_program_that_does_not_answer_is_ended(make: Make) -> None:
    servers = make(raw("silent"), starting=3)
    with pytest.raises(ToolFailed, match=r"^raw did not answer within 3 seconds, so it was ended\.$"):
        servers.tools("raw")


@pytest.mark.parametrize(
    ("name", "words"),
    {
        "hang": "did not answer within 4 seconds",
        "die": r"ended unexpectedly \(exit code 3\)",
        "endless": "was stopped, because it sent a message of more than 32 MB",
        "lines": "writes messages that cannot be read",
        "huge": "was stopped, because it sent a message of more than 32 MB",
        "shapeless": "does not follow the protocol",
        "malformed": "writes messages that cannot be read",
    }.items(),
)
def test_a_call_that_fails_ends_in_a_sentence_and_the_server_is_started_again(
    make: Make, name: str, words: str
) -> None:
    servers = make(raw(), answering=4 if name == "hang" else 60)
    with pytest.raises(ToolFailed, match=f"^raw {words}"):
        called(servers, name)
    assert servers.status("raw").state == "failed"
    assert called(servers, "echo", '{"x": 1}').endswith(' {"x": 1}')
    assert servers.status("raw").state == "ready"


def test_a_long_result_is_cut(make: Make) -> None:
    text = called(make(raw()), "long")
    assert text == "y" * 2**18 + "\n\n[The text was cut here: it has 300,000 characters.]"


def test_a_flood_of_log_lines_leaves_the_newest(make: Make) -> None:
    servers = make(raw())
    assert called(servers, "logging") == "logged"
    until(lambda: "line 19999 " in "".join(servers.log("raw")[-1:]))
    assert len(servers.log("raw")) == 200


def test_what_a_program_prints_before_it_answers_is_logged(make: Make) -> None:
    servers = make(raw("noisy"))
    assert called(servers, "echo")
    until(lambda: servers.log("raw") == ("Not a message: Welcome!", "Not a message: Listening…"))


def test_a_change_of_the_tools_is_noticed(make: Make) -> None:
    servers = make(raw())
    before = servers.tools("raw")
    assert servers.tools("raw") is before
    called(servers, "changing")
    until(lambda: servers.tools("raw") is not before)
    assert servers.tools("raw") == before


def test_pages_without_end_have_an_end(make: Make) -> None:
    assert [tool.name for tool in make(raw("pages")).tools("raw")] == [f"t{number}" for number in range(32)]


def test_schemas_that_are_bombs_are_left_out_or_refused(make: Make) -> None:
    servers = make(raw("bombs"))
    names = [tool.name for tool in servers.tools("raw")]
    assert names == ["fine", "chain", "circle", "pattern", "elsewhere", "wrong"]
    assert [text.name for text in servers.status("raw").texts] == ["a   name"]  # without control characters
    left_out = [f"The tool {name} is left out" for name in ("large", "not a name", "deep")]
    until(lambda: [line.split(":")[0] for line in servers.log("raw")] == left_out)
    for name, arguments, words in (
        ("chain", "{}", "could not be checked within 5 seconds"),
        ("pattern", json.dumps({"x": "a" * 60 + "!"}), "could not be checked within 5 seconds"),
        ("circle", "{}", "The tool's schema cannot be used"),
        ("elsewhere", "{}", "The tool's schema cannot be used"),
        ("wrong", "{}", "The tool's schema cannot be used"),
    ):
        with pytest.raises(ToolFailed, match=words):
            called(servers, name, arguments)
    assert called(servers, "fine")


def test_a_stopped_call_returns_before_its_tool(make: Make) -> None:
    servers, stopping = make(raw()), threading.Event()
    tool = next(tool for tool in servers.tools("raw") if tool.name == "hang")
    timer = threading.Timer(1, stopping.set)
    timer.start()
    with pytest.raises(ToolFailed, match=r"^The call was stopped\.$"):  # the tool answers after ten minutes
        servers.call(tool, "{}", stopping.is_set)
    assert called(servers, "echo")


def test_a_server_runs_in_the_folder_of_tools_without_secrets(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIVEN_TOKEN", "secret")
    monkeypatch.setenv("GIVEN", "milk")
    servers = make(raw(MY_API_KEY="mine"))
    found = json.loads(called(servers, "environment"))
    assert (found.get("GIVEN_TOKEN"), found["GIVEN"], found["MY_API_KEY"]) == (None, "milk", "mine")
    assert "PYTHONSAFEPATH" not in found
    assert called(servers, "folder") == str(tmp_path / "tools")


@pytest.mark.parametrize("how", ["close", "restart", "changed", "call"])
def test_nothing_is_left_of_a_server_that_ignores_its_end(tmp_path: Path, how: str) -> None:
    known = [raw("stubborn")]
    servers = ToolServers(lambda: known, tmp_path / "tools", 60, 3)
    pids = [int(called(servers, "echo").split()[0]), int(called(servers, "child"))]
    assert all(map(is_alive, pids))
    if how == "call":
        with pytest.raises(ToolFailed, match="did not answer"):
            called(servers, "hang")
    elif how == "changed":
        known[:] = [ToolServer("other", raw().command)]
        servers.tools("other")
    else:
        {"close": servers.close, "restart": lambda: servers.restart("raw")}[how]()
    until(lambda: not any(map(is_alive, pids)))
    servers.close()


APP = """
import sys
from pathlib import Path
from app.tools.mcp_servers import ToolServers
from app.values.tools import ToolServer
servers = ToolServers(lambda: [ToolServer("raw", (sys.executable, SERVER, "stubborn"))], Path(FOLDER))
tools = {tool.name: tool for tool in servers.tools("raw")}
for name in ("echo", "child"):
    print(servers.call(tools[name], "{}", lambda: False).split()[0], flush=True)
input()
"""


def test_nothing_is_left_of_a_server_whose_app_was_killed(tmp_path: Path) -> None:
    script = APP.replace("SERVER", repr(str(HERE / "raw_mcp_server.py"))).replace(
        "FOLDER", repr(str(tmp_path))
    )
    with subprocess.Popen(
        [sys.executable, "-c", script],
        env=importing_environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as app:
        assert app.stdout
        pids = [int(app.stdout.readline()), int(app.stdout.readline())]
        assert all(map(is_alive, pids))
        os.kill(app.pid, signal.SIGKILL)
        until(lambda: not any(map(is_alive, pids)))
