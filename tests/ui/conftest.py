"""A desk with a scripted engine, and a page that shows it."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.conversation import Conversation
from app.settings import Settings, SettingsFile
from app.ui import Desk, Running, prepare_environment, serve
from tests.fake_models import ScriptedModels
from tests.fakes import ScriptedEngine


@pytest.fixture(scope="session", autouse=True)
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The environment as main prepares it before Gradio is used."""
    before = dict(os.environ)
    prepare_environment(os.environ, tmp_path_factory.mktemp("data"))
    yield
    os.environ.clear()
    os.environ.update(before)


def make_desk(engine: ScriptedEngine, models: ScriptedModels, data_dir: Path) -> Desk:
    """A desk as main makes it, with an engine and models that only say what they are told."""
    return Desk(Conversation(engine), engine, models, SettingsFile(data_dir), Settings())


@pytest.fixture
def engine() -> ScriptedEngine:
    return ScriptedEngine()


@pytest.fixture
def models() -> ScriptedModels:
    return ScriptedModels()


@pytest.fixture
def desk(engine: ScriptedEngine, models: ScriptedModels, tmp_path: Path) -> Desk:
    return make_desk(engine, models, tmp_path)


@pytest.fixture
def running(desk: Desk) -> Iterator[Running]:
    """The desk's page, served on a free port."""
    page = serve(desk, port=0, open_browser=False)
    yield page
    page.close()
