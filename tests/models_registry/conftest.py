"""A small hub on 127.0.0.1 for the real client, and the switch that lets the client reach it."""

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
from huggingface_hub import constants

from app.models_registry.downloads import process
from app.models_registry.downloads.process import DownloadMessage, DownloadRequest, message_from_line, to_line
from app.models_registry.downloads.process_main import fetch
from app.models_registry.hub.http import RetryPolicy
from app.models_registry.hub.hub import Hub
from tests.models_registry.hub_server import FakeHub, running
from tests.models_registry.model_files import model_files

IMPATIENT = RetryPolicy(read_timeout=3.0, first_wait=0.12, longest_wait=0.25, tries=3)


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder without other programs' models."""
    folder = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("USERPROFILE", str(folder))
    return folder


@pytest.fixture
def reachable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """This hub is on 127.0.0.1, so the switch that keeps the other tests off the network is off here.

    Nobody is logged in."""
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "hf" / "token"))
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)  # the child process has its own
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))


@pytest.fixture
def server(reachable: None) -> Iterator[FakeHub]:  # noqa: ARG001 - it needs what that sets
    with running(FakeHub({"org/small": model_files()})) as hub:
        yield hub


@pytest.fixture
def hub(server: FakeHub, tmp_path: Path) -> Hub:
    return Hub(server.endpoint, tmp_path / "cache", retry_policy=IMPATIENT)


class DownloadHere:
    """Stands in for a process that fetches one model: it fetches in this one."""

    def __init__(self, request: DownloadRequest) -> None:
        self._request = replace(request, hub=replace(request.hub, cache=request.hub.root))

    def messages(self) -> Iterator[DownloadMessage]:
        said = list[bytes]()
        fetch(to_line(self._request), said.append)
        yield from map(message_from_line, said)


@pytest.fixture
def downloads_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Download in this process, in tests of other things: a child takes long to import its libraries."""
    monkeypatch.setattr(process, "DownloadProcess", lambda request: nullcontext(DownloadHere(request)))
