"""Our own API as the server of a remote model: the same text as the engine's, and the same number of steps."""

from pathlib import Path

from app.api.application import RunningApi
from app.conversation.race.lane_comparison import run_to_end
from app.conversation.remote_engine import EngineWithServers
from app.conversation.reply import Reply
from app.engine import Engine
from app.remote import Servers
from app.values.messages import Message, ModelChoice, Options, Piece, Request
from tests.api.conftest import DEMO, KEY

CHAT = (Message("user", "What can you do?"),)


def test_it_writes_what_the_engine_writes_and_tells_how(
    engine: Engine, server: RunningApi, tmp_path: Path
) -> None:
    servers = Servers(tmp_path)
    added, both = servers.add(server.url, KEY), EngineWithServers(engine, servers)
    assert "demo" in added.models
    texts, ends = [], []
    for model in (DEMO.choice, ModelChoice("demo", server=added.address)):
        reply = Reply()
        request = Request(model, CHAT, Options(max_new_tokens=60), is_cold=True)
        ends.append(run_to_end(both, request, reply))
        texts.append("".join(event.text for event in reply.events() if isinstance(event, Piece)))
    here, there = ends
    assert texts[0] == texts[1] != ""
    assert (there.model.server, there.reason) == (added.address, here.reason)
    assert there.statistics.tokens == here.statistics.tokens
    assert there.statistics.steps > 0 and there.statistics.tokens_per_step >= 1
