"""Our own API as a remote model: the same text as the engine's, and the same number of forward passes."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.api.application import build_api
from app.api.key import FixedKey
from app.api.services import ApiServices, ServedModel
from app.api.serving import RunningApi
from app.conversation.decoder_comparison import run_to_end
from app.conversation.remote_engine import EngineWithServers
from app.conversation.reply import Reply
from app.engine import Engine
from app.messages import Message, ModelChoice, Options, Piece, Request
from app.models_registry import locate
from app.remote import Servers
from app.web.listening import listen

KEY = "sk-test"
DEMO = ModelChoice("demo", dtype="float32", device="cpu")
CHAT = (Message("user", "What can you do?"),)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    engine = Engine(lambda name, progress: locate(name, progress), tmp_path_factory.mktemp("steps"))
    yield engine
    engine.close()


@pytest.fixture(scope="module")
def address(engine: Engine) -> Iterator[str]:
    served = ServedModel("demo", DEMO)
    services = ApiServices(engine, lambda: served, lambda: [served], lambda: None)
    running = RunningApi(build_api(services, FixedKey(KEY)), listen(0))
    yield running.url
    running.close()


def test_it_writes_what_the_engine_writes_and_tells_how(engine: Engine, address: str, tmp_path: Path) -> None:
    servers = Servers(tmp_path)
    assert servers.add(address, KEY).listed == ("demo",)
    both = EngineWithServers(engine, servers)
    options = Options(max_new_tokens=60)
    texts, ends = [], []
    for model in (DEMO, ModelChoice("demo", server=servers.servers()[0].address)):
        reply = Reply()
        ends.append(run_to_end(both, Request(model, CHAT, options, is_cold=True), reply))
        texts.append("".join(event.text for event in reply.events() if isinstance(event, Piece)))
    here, there = ends
    assert texts[0] == texts[1] != ""
    assert (there.model.server, there.reason) == (address, here.reason)
    assert there.statistics.tokens == here.statistics.tokens
    assert there.statistics.steps > 0 and there.statistics.tokens_per_step >= 1
