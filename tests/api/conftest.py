"""A real server with the demo model, and the clients that ask it."""

from collections.abc import Iterator
from pathlib import Path

import openai
import pytest

from app.api.application import RunningApi, build_api
from app.api.services import ApiServices, ServedModel
from app.engine import Engine
from app.models_registry.locate import locate
from app.values.messages import ModelChoice, ModelFolder
from app.web.listening import listen
from tests.engine.sentences import real_folder

KEY = "sk-test"
DEMO = ServedModel("demo", ModelChoice("demo", dtype="float32", device="cpu"))


@pytest.fixture(scope="session")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    engine = Engine(lambda name, progress: locate(name, progress), tmp_path_factory.mktemp("steps"))
    yield engine
    engine.close()


def services_of(
    engine: Engine, embedder: ModelFolder | None = None, model: ServedModel = DEMO
) -> ApiServices:
    return ApiServices(engine, lambda: model, lambda: [model], lambda: embedder)


@pytest.fixture(scope="session")
def embedder() -> ModelFolder | None:
    folder = real_folder()
    return ModelFolder(folder, "all-MiniLM-L6-v2") if folder else None


@pytest.fixture(scope="session")
def server(engine: Engine, embedder: ModelFolder | None) -> Iterator[RunningApi]:
    running = RunningApi(build_api(services_of(engine, embedder), KEY), listen(0))
    yield running
    running.close()


@pytest.fixture(scope="session")
def client(server: RunningApi) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=server.url, api_key=KEY, max_retries=0, timeout=300) as client:
        yield client


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    return tmp_path / "data"
