"""The model's boxes: what they mean, and what loading does."""

from functools import partial

import pytest

from app.chat_messages import ChatVersion
from app.conversation import NewChat
from app.errors import BadOption
from app.messages import ModelChoice, Options
from app.ui import Services
from app.ui.model_controls import load_model, to_model
from app.ui.models.actions import ModelsActions
from app.ui.models.inventory import InventoryCache
from tests.fakes import ScriptedEngine


def test_an_empty_model_box_says_what_to_type() -> None:
    with pytest.raises(BadOption, match='type "demo", a folder, a GGUF file, or a hub id'):
        to_model("  ", "auto", "auto", "none", "auto")


def test_a_model_is_read_without_the_blanks_around_it() -> None:
    assert to_model(" org/model ", "float32", "cpu", "int4", "sdpa") == ModelChoice(
        "org/model", "float32", "cpu", "int4", "sdpa"
    )


def test_an_unknown_precision_is_refused() -> None:
    with pytest.raises(BadOption, match="Dtype must be one of"):
        to_model("demo", "int3", "auto", "none", "auto")


def test_an_empty_model_box_loads_nothing(services: Services, engine: ScriptedEngine) -> None:
    load = partial(load_model, ModelsActions(services, InventoryCache(services), print).ask_or_load)
    assert "model box is empty" in load(" ", "auto", "auto", "none", "auto")[0]
    assert engine.loads == []
    assert load("org/model", "auto", "auto", "int8", "sdpa") == ("", "")
    assert (engine.loads[0].name, engine.loads[0].attention) == ("org/model", "sdpa")


def test_a_model_is_not_switched_under_a_reply_without_asking(
    services: Services, engine: ScriptedEngine
) -> None:
    engine.pause, engine.text = 0.01, "word " * 300
    services.conversations.start(NewChat(ChatVersion(), services.asked(Options()), "one"))
    load = partial(load_model, ModelsActions(services, InventoryCache(services), print).ask_or_load)
    problem, question = load("org/model", "auto", "auto", "none", "auto")
    assert (problem, engine.loads) == ("", [])
    assert "A reply is being written. Stop it and load org/model?" in question
    services.stop()
