"""The real hub client against a small hub on 127.0.0.1."""

import socket
from pathlib import Path

import pytest
from huggingface_hub import constants

from app.errors import ModelBroken, ModelError, ModelNotFound
from app.models_registry.hub.hub import Hub
from app.models_registry.hub.hub_id import HubId
from app.models_registry.locate import locate
from tests.models_registry.hub_server import COMMIT, FakeHub
from tests.models_registry.model_files import model_files, silent

LARGE = 1_000_000
"""Values in a tensor that takes a while at the pace below."""
PACE = 8e6


class Watcher:
    """Keeps what it is told, and stops the download at a number of bytes."""

    def __init__(self, stop_at: int = 0) -> None:
        self.told: list[tuple[str, int, int]] = []
        self.stop_at = stop_at

    def __call__(self, what: str, done: int, total: int) -> None:
        self.told.append((what, done, total))
        if self.stop_at and done >= self.stop_at:
            raise InterruptedByPerson


class InterruptedByPerson(Exception):
    pass


def test_a_model_is_downloaded_once_and_found_ever_after(server: FakeHub, hub: Hub) -> None:
    first = locate("org/small", silent, hub)
    assert (first.name, first.label, first.revision) == ("org/small", "", COMMIT)
    server.asked.clear()
    assert locate("org/small", silent, hub) == first
    assert locate(f"org/small@{COMMIT}", silent, hub) == first
    assert server.asked == []


def test_progress_counts_the_bytes_up_to_all_of_them(server: FakeHub, hub: Hub) -> None:
    server.models["org/small"] = model_files(LARGE)
    server.pace = PACE
    watcher = Watcher()
    locate("org/small", watcher, hub)
    total = sum(map(len, server.models["org/small"].values()))
    done = [done for what, done, of in watcher.told if of == total and what == "Downloading org/small"]
    assert done == sorted(done) and done[-1] == total and len(set(done)) >= 4


def test_a_stopped_download_is_no_model_and_keeps_what_has_come(server: FakeHub, hub: Hub) -> None:
    files = server.models["org/small"] = model_files(LARGE)
    server.pace = PACE
    with pytest.raises(InterruptedByPerson):
        locate("org/small", Watcher(stop_at=1_000_000), hub)
    assert hub.cached(HubId("org/small")) is None
    server.asked.clear()
    server.pace = 0
    folder = locate("org/small", silent, hub).path
    assert (folder / "model.safetensors").read_bytes() == files["model.safetensors"]
    assert server.gets("config.json") == []
    starts = [int(request.split("bytes=")[1].split("-")[0]) for request in server.gets("model.safetensors")]
    assert len(starts) == 1 and starts[0] >= 1_000_000 - 100


def test_a_connection_that_never_comes_back_is_told_in_a_sentence(server: FakeHub, hub: Hub) -> None:
    server.models["org/small"]["model.safetensors"] = b"ab"  # halves: 1 byte, then nothing more comes
    server.breaks_off["model.safetensors"] = 100
    with pytest.raises(ModelError, match="Can't reach Hugging Face"):
        locate("org/small", silent, hub)


def test_an_unknown_model_says_to_check_the_spelling(hub: Hub) -> None:
    with pytest.raises(ModelNotFound, match=r"no model org/smal on Hugging Face: check the spelling"):
        locate("org/smal", silent, hub)


def test_an_unknown_revision_is_named(hub: Hub) -> None:
    with pytest.raises(ModelNotFound, match=r"org/small has no revision 'v9'"):
        locate("org/small@v9", silent, hub)


def test_a_damaged_file_in_the_cache_is_fetched_anew_once_it_is_deleted(hub: Hub) -> None:
    weights = locate("org/small", silent, hub).path / "model.safetensors"
    weights.resolve().write_bytes(b"damaged")
    with pytest.raises(ModelBroken, match="Delete") as failure:
        locate("org/small", silent, hub)
    assert str(weights.resolve()) in str(failure.value)
    weights.resolve().unlink()
    assert locate("org/small", silent, hub).path / "model.safetensors" == weights


@pytest.mark.usefixtures("reachable")
def test_offline_says_that_the_hub_cannot_be_reached(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: connections are refused
        hub = Hub(f"http://127.0.0.1:{taken.getsockname()[1]}", tmp_path)
        with pytest.raises(ModelError, match="Can't reach Hugging Face"):
            locate("org/small", silent, hub)


def test_the_switch_for_offline_is_named(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(ModelError, match="HF_HUB_OFFLINE"):
        locate("org/small", silent, hub)
