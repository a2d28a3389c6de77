"""Which engine is asked: this machine's, or the one of a server."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.conversation import Reply
from app.conversation.remote_engine import EngineWithServers
from app.remote import Servers
from app.values.messages import EngineStatus, Failed, Finished, Message, ModelChoice, Request
from tests.fakes import DEMO, ScriptedEngine
from tests.remote.fake_server import FakeServer, added, running

LOCAL = ModelChoice("demo")
CHAT = (Message("user", "Hi"),)


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with running(FakeServer()) as server:
        yield server


@pytest.fixture
def local() -> ScriptedEngine:
    return ScriptedEngine()


@pytest.fixture
def engine(local: ScriptedEngine, server: FakeServer, tmp_path: Path) -> EngineWithServers:
    return EngineWithServers(local, Servers(added(tmp_path, server.address)))


def remote(server: FakeServer) -> ModelChoice:
    return ModelChoice("org/model", server=server.address)


def test_a_request_goes_where_its_model_runs(
    engine: EngineWithServers, local: ScriptedEngine, server: FakeServer
) -> None:
    for model in (remote(server), LOCAL):
        reply = Reply()
        engine.submit(Request(model, CHAT), reply)
        end = list(reply.events())[-1]
        assert isinstance(end, Finished) and end.model.name == model.name
    assert [request.model for request in local.requests] == [LOCAL] and len(server.asked) == 1


def test_choosing_a_servers_model_asks_nothing_of_it_and_frees_the_memory_here(
    engine: EngineWithServers, local: ScriptedEngine, server: FakeServer
) -> None:
    ends: list[bool] = []
    engine.load(remote(server), ends.append)
    assert ends == [True] and local.unloads == 1 and server.asked == []
    status = engine.status()
    assert status.phase == "ready" and status.model and status.model.server == server.address
    assert engine.reader().context == 0 == engine.reader().count(CHAT), "nothing is counted"
    engine.load(LOCAL, ends.append)
    assert engine.status().phase == "loading"
    local.now = EngineStatus("ready", model=DEMO)
    local.end_loading(True)
    assert ends == [True, True] and engine.status().model == DEMO and engine.reader().context == 1024


def test_a_local_model_that_cannot_be_loaded_leaves_the_chosen_one(
    engine: EngineWithServers, local: ScriptedEngine, server: FakeServer
) -> None:
    engine.load(remote(server))
    engine.load(LOCAL)
    local.now = EngineStatus("failed", "Memory ran out.")
    local.end_loading(False)
    assert engine.status().note == "Memory ran out. org/model stays chosen."
    assert engine.status().model and engine.status().phase == "ready"


def test_a_local_model_that_is_there_too_late_is_unloaded(
    engine: EngineWithServers, local: ScriptedEngine, server: FakeServer
) -> None:
    ends: list[bool] = []
    engine.load(LOCAL, ends.append)
    engine.load(remote(server))
    local.now = EngineStatus("ready", model=DEMO)
    local.end_loading(True)
    assert ends == [False] and local.unloads == 1
    assert engine.status().model and engine.status().model.server  # type: ignore[union-attr]


def test_a_server_that_is_gone_fails_the_reply_alone(
    engine: EngineWithServers, local: ScriptedEngine
) -> None:
    reply = Reply()
    engine.submit(Request(ModelChoice("m", server="http://127.0.0.1:1/v1"), CHAT), reply)
    assert isinstance(list(reply.events())[-1], Failed)
    assert engine.status() == local.now
