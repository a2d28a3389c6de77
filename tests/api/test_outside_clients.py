"""Clients and suites that others wrote, each in an environment of its own, with what pip finds for them.

Each is a program in outside_clients/ or a command of its own, and ends with 0 if all went well."""

import os
import subprocess
import venv
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from app.api.application import RunningApi, build_api
from app.engine import Engine
from app.values.messages import ModelFolder
from app.web.listening import listen
from tests.api.conftest import DEMO, KEY, services_of

HERE = Path(__file__).parent / "outside_clients"
BINARIES = "Scripts" if os.name == "nt" else "bin"
LLM_MODEL = """
- model_id: foresight
  model_name: demo
  api_base: {url}
  api_key_name: foresight
  supports_schema: true
"""
LANGCHAIN_SETTINGS = """
[pytest]
asyncio_mode = auto
asyncio_default_test_loop_scope = session
asyncio_default_fixture_loop_scope = session
"""
"""langchain-openai shares one asynchronous client among all tests, and httpx's clients belong to one event loop.

With a loop for each test, connections of ended loops fail with 'Event loop is closed', whatever the server."""
SHORT_CONTEXT = 256
"""Requests that name no limit are written to the context's end, in each of up to 16 choices."""
pytestmark = [pytest.mark.thorough, pytest.mark.timeout(1800)]


class Environment:
    """Packages that nothing else here depends on."""

    def __init__(self, folder: Path, packages: Sequence[str]) -> None:
        venv.create(folder, with_pip=True)
        self._folder, self._binaries = folder, folder / BINARIES
        asked = [self._binaries / "python", "-m", "pip", "install", "--quiet", *packages]
        if subprocess.run(asked, capture_output=True, timeout=900).returncode:
            pytest.skip(f"pip cannot install {', '.join(packages)} here")

    def run(self, name: str, *arguments: str | Path, **variables: str) -> str:
        """What a command of it says, in its folder. It has to end with 0."""
        asked = [str(self._binaries / name), *map(str, arguments)]
        known = {**os.environ, **variables}
        done = subprocess.run(
            asked, capture_output=True, encoding="utf-8", env=known, cwd=self._folder, timeout=1700
        )
        assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-8000:]
        return done.stdout


@pytest.mark.parametrize(
    ("program", "packages"),
    [
        ("openai_calls.py", ["openai>=2.54,<3"]),
        ("openai_calls.py", ["openai>=3,<4"]),
        ("litellm_calls.py", ["litellm", "mcp"]),
        ("other_forms.py", ["ollama", "anthropic"]),
    ],
    ids=["openai 2", "openai 3", "litellm", "ollama and anthropic"],
)
def test_a_client_can_do_what_programs_do(
    server: RunningApi, tmp_path: Path, program: str, packages: list[str]
) -> None:
    Environment(tmp_path / "venv", packages).run("python", HERE / program, server.url, KEY, "demo")


def test_llm_asks_streams_and_fills_a_schema(server: RunningApi, tmp_path: Path) -> None:
    environment = Environment(tmp_path / "venv", ["llm"])
    (tmp_path / "extra-openai-models.yaml").write_text(LLM_MODEL.format(url=server.url))
    environment.run("llm", "keys", "set", "foresight", "--value", KEY, LLM_USER_PATH=str(tmp_path))

    def asked(*more: str) -> str:
        return environment.run("llm", "-m", "foresight", "Hello", *more, LLM_USER_PATH=str(tmp_path))

    options = ("-o", "temperature", "0", "-o", "max_tokens", "100")
    assert asked(*options).strip() == asked(*options, "--no-stream").strip()
    assert '"age"' in asked(*options, "--schema", "age int")


def test_langchains_own_tests_pass(server: RunningApi, tmp_path: Path) -> None:
    environment = Environment(tmp_path / "venv", ["langchain-openai", "langchain-tests"])
    seen = "\n".join((server.url, KEY, "demo"))
    settings = tmp_path / "pytest.ini"  # the checkout's own are not for them, nor is its conftest.py
    settings.write_text(LANGCHAIN_SETTINGS)
    options = ["-q", "--tb=short", "-c", settings, "--confcutdir", HERE]
    suite = ["-m", "pytest", *options, HERE / "langchain_suite.py"]
    environment.run("python", *suite, OUTSIDE_CLIENTS=seen)


@pytest.fixture
def brief_server(engine: Engine, embedder: ModelFolder | None) -> Iterator[RunningApi]:
    """One whose answers end in seconds, however much is asked for."""
    model = replace(DEMO, choice=replace(DEMO.choice, context=SHORT_CONTEXT))
    running = RunningApi(build_api(services_of(engine, embedder, model), KEY), listen(0))
    yield running
    running.close()


def test_no_request_that_the_schema_allows_breaks_the_server(
    brief_server: RunningApi, tmp_path: Path
) -> None:
    environment = Environment(tmp_path / "venv", ["schemathesis"])
    schema, key = f"{brief_server.url}/openapi.json", f"Authorization: Bearer {KEY}"
    limits = ("--max-time", "1200", "--request-timeout", "300", "--continue-on-failure")
    environment.run("st", "run", schema, "--header", key, "--checks", "not_a_server_error", *limits)
