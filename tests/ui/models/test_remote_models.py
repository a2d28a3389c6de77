"""Servers in the Models view: added, listed, used, removed; and what the rest of the page says of their models."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from app.conversation import ReplyState
from app.ui import Services
from app.ui.chat.provenance import provenance_html
from app.ui.frame.top_bar import describe
from app.ui.live.panel import panel_html
from app.ui.live.step_history import StepHistory
from app.ui.models.actions import ModelsActions
from app.ui.models.inventory import InventoryCache, is_same_model
from app.ui.models.render import loaded_html, picker_html, remote_rows, servers_html
from app.values.chat import Provenance
from app.values.messages import EngineStatus, Finished, ModelChoice, Options, Sampling, Statistics
from app.values.server import Server, remote_info
from tests.fake_models import DEMO_MODEL
from tests.fakes import ScriptedEngine
from tests.remote.fake_server import FakeServer, running
from tests.ui.models.test_actions import dialog

REMOTE = ModelChoice("org/model", server="http://box:8000/v1")
INFO = remote_info(REMOTE)


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with running(FakeServer(key="sk-1")) as server:
        yield server


@pytest.fixture
def notified() -> list[str]:
    return []


@pytest.fixture
def actions(services: Services, notified: list[str]) -> ModelsActions:
    actions = ModelsActions(services, InventoryCache(services), notified.append)
    actions.open()
    return actions


def test_a_server_is_added_used_and_removed(
    actions: ModelsActions, services: Services, engine: ScriptedEngine, server: FakeServer
) -> None:
    assert actions.add_server(server.address, "sk-1")[:2] == ("", "")
    assert services.servers.servers()[0].models == ("org/model", "other")
    server.models = ("other", "new")
    dialog(actions, "list-server", server.address)
    (kept,) = services.servers.servers()
    assert kept.models == ("other", "new")
    for row in remote_rows((kept,), services.model):
        dialog(actions, "choose", value=str(row["value"]))
        chosen = ModelChoice(str(row["name"]), server=server.address)
        assert services.model == chosen == engine.loads[-1]
    engine.end_loading(True)
    assert services.settings.model == chosen and services.settings.local_model == ModelChoice("demo")
    dialog(actions, "remove-server", server.address)
    assert services.servers.servers() == ()
    assert engine.loads[-1] == ModelChoice("demo"), "the last local model takes its place"
    services.deletions.undo()
    assert (services.servers.servers(), engine.loads[-1]) == ((kept,), chosen)


def test_what_cannot_be_added_stays_in_its_boxes_and_is_told_there(
    actions: ModelsActions, server: FakeServer
) -> None:
    *boxes, faults = actions.add_server(server.address, "wrong")
    assert boxes == [server.address, "wrong"] and "refused the key" in faults
    *boxes, faults = actions.add_server("", "")
    assert boxes == ["", ""] and "Enter the address of a server" in faults


def test_the_lists_show_remote_models_with_their_mark_and_a_warning() -> None:
    server = Server("http://example.com/v1", "sk-1", ("a", "b"))
    chosen = replace(REMOTE, name="b", server=server.address)
    html = servers_html((server,), chosen)
    assert "Remote" in html and "Use a" in html and "Use b" not in html and "in use" in html
    assert "is not encrypted" in html and "with a key" in html and "sk-1" not in html
    status = EngineStatus("ready", model=INFO)
    picker = picker_html(None, status, chosen, (server,))
    assert "<h3>Remote</h3>" in picker and picker.count("<small>example.com</small>") == 2
    assert picker.count('aria-pressed="true" disabled') == 1
    assert "Precision" not in picker and "Unload" not in picker and "Unload" not in loaded_html(None, status)
    assert describe(INFO) == "org/model · remote · box:8000"
    assert not is_same_model(DEMO_MODEL, remote_info(replace(REMOTE, name="demo")))


def test_the_panel_says_in_a_sentence_what_does_not_apply_and_has_a_number_only_where_it_is_told() -> None:
    def panel(numbers: Statistics) -> str:
        end = Finished("eos", numbers, INFO, "auto")
        return str(
            panel_html(ReplyState("finished", "Hi", numbers, finished=end), StepHistory(), "auto", INFO)
        )

    failed = panel_html(ReplyState("failed", "Hi", Statistics(seconds=2.0)), StepHistory(), "auto", INFO)
    assert "The server does not report how many tokens" in str(failed)
    silent = panel(Statistics(tokens=20, seconds=2.0, time_to_first_token=0.1))
    assert "Lookahead, the X-ray and the same-text setting do not apply to it" in silent
    assert "The server does not report how many tokens each run of its model wrote." in silent
    assert (
        'id="tokens-per-step"' not in silent and "hit rate" not in silent and "10 tokens per second" in silent
    )
    told = panel(Statistics(tokens=20, steps=8, seconds=2.0))
    assert (
        "Each run of the server&#39;s model wrote 2.5 tokens on average." in told and "hit rate" not in told
    )


def test_a_reply_tells_which_server_wrote_it_and_what_that_got() -> None:
    options = Options(Sampling(0.5, top_k=9, top_p=0.9, min_p=0.1))
    numbers = Statistics(prompt_tokens=9, tokens=20, seconds=2.0, time_to_first_token=0.1)
    html = str(provenance_html(Provenance(INFO, options, "auto", "eos", numbers, "1")))
    assert "org/model (remote)" in html and REMOTE.server in html and "temperature 0.5, top-p 0.9<" in html
    assert "Tokens/s" in html and "Decoder" not in html and "Hit rate" not in html and "Precision" not in html
