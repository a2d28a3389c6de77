"""The manager with real child processes: what the person says of a download holds."""

import errno
import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from app.errors import ModelError
from app.models_registry.downloads.download_queue import Downloads, SavedDownloads
from app.models_registry.downloads.process import DownloadProcess, DownloadProgress, DownloadRequest
from app.models_registry.hub.hub import Hub
from app.models_registry.hub.hub_id import HubId
from app.system.child_process import not_started
from app.values.model import Download
from tests.models_registry.hub_server import COMMIT, PIECE, FakeHub
from tests.models_registry.model_files import model_files
from tests.support.waiting import until
from tests.tiers import named, some, todays_seed

SMALL = HubId("org/small")
WEIGHTS = "model.safetensors"
VALUES = 1_000_000
PACE = 5e6
SECONDS = 300.0
CHUNK = 12 * PIECE
"""What a killed process can have been sent and not kept: the sockets' buffers, which this server keeps small."""


@pytest.fixture
def downloads(server: FakeHub, hub: Hub, tmp_path: Path) -> Iterator[Downloads]:
    server.models["org/small"] = model_files(VALUES)
    server.models["org/other"] = model_files(VALUES + 1)
    server.models["org/third"] = model_files(VALUES + 2)
    manager = Downloads(hub, SavedDownloads(tmp_path / "downloads"))
    yield manager
    manager.close()


def the(downloads: Downloads, name: str = "org/small") -> Download:
    return next(download for download in downloads.snapshot() if download.name == name)


def in_the_middle(downloads: Downloads, name: str = "org/small") -> None:
    until(lambda: the(downloads, name).done > 200_000)


def files_of(hub: Hub) -> list[Path]:
    return [path for path in hub.root.rglob("*") if path.is_file()]


def test_a_download_runs_to_its_end_and_tells_how_it_goes(
    server: FakeHub, downloads: Downloads, hub: Hub
) -> None:
    server.pace = PACE
    downloads.start("org/small")
    in_the_middle(downloads)
    seen = the(downloads)
    assert seen.state == "running" and 0 < seen.done < seen.size == sum(
        map(len, model_files(VALUES).values())
    )
    assert {file.name for file in seen.files} == set(model_files())
    until(lambda: the(downloads).seconds_left is not None)
    until(lambda: the(downloads).state == "done")
    done = the(downloads)
    assert done.done == done.size and done.folder == hub.cached(SMALL)
    assert (done.note, done.speed, done.seconds_left) == ("", 0.0, None)
    downloads.dismiss("org/small")
    assert downloads.snapshot() == ()


def test_a_pause_ends_the_traffic_and_a_resume_goes_on_where_it_was(
    server: FakeHub, downloads: Downloads
) -> None:
    server.pace = PACE
    downloads.start("org/small")
    in_the_middle(downloads)
    downloads.pause("org/small")
    kept = the(downloads)
    assert kept.state == "paused" and kept.done >= 200_000 and kept.seconds_left is None
    until(lambda: not server.connections)
    server.asked.clear()
    downloads.resume("org/small")
    until(lambda: the(downloads).state == "done")
    weights = next(file for file in kept.files if file.name == WEIGHTS)
    assert server.gets(WEIGHTS) == [f"GET /org/small/resolve/{COMMIT}/{WEIGHTS} bytes={weights.done}-"]


def test_a_cancel_ends_the_traffic_and_leaves_nothing_behind(
    server: FakeHub, downloads: Downloads, hub: Hub, tmp_path: Path
) -> None:
    server.pace = PACE
    downloads.start("org/small")
    in_the_middle(downloads)
    downloads.cancel("org/small")
    assert downloads.snapshot() == ()
    assert files_of(hub) == [] and list(hub.root.iterdir()) == []
    assert list((tmp_path / "downloads").iterdir()) == []
    until(lambda: not server.connections)


@pytest.mark.parametrize("seconds", [0.0, 0.02, 0.15, 0.3])
def test_a_cancel_at_any_time_leaves_nothing_behind(
    server: FakeHub, downloads: Downloads, hub: Hub, seconds: float
) -> None:
    server.pace = PACE
    downloads.start("org/small")
    time.sleep(seconds)
    downloads.cancel("org/small")
    assert downloads.snapshot() == () and (not hub.root.exists() or files_of(hub) == [])


def test_a_cancelled_download_that_waits_or_pauses_is_gone(
    server: FakeHub, downloads: Downloads, hub: Hub
) -> None:
    downloads.at_once = 1
    server.pace = PACE
    downloads.start("org/small")
    downloads.start("org/other")
    in_the_middle(downloads)
    assert the(downloads, "org/other").state == "queued"
    downloads.cancel("org/other")
    downloads.pause("org/small")
    downloads.cancel("org/small")
    assert downloads.snapshot() == () and files_of(hub) == []


def test_a_cancel_leaves_an_installed_model_alone(downloads: Downloads, hub: Hub) -> None:
    downloads.start("org/small")
    until(lambda: the(downloads).state == "done")
    folder = hub.cached(SMALL)
    downloads.start(f"org/small@{COMMIT}")
    downloads.cancel(f"org/small@{COMMIT}")
    assert hub.cached(SMALL) == folder is not None


def test_two_run_at_once_and_the_third_waits_for_its_turn(server: FakeHub, downloads: Downloads) -> None:
    server.pace = PACE / 10  # the first is still running when the second is in its middle
    for repo in ("org/small", "org/other", "org/third"):
        downloads.start(repo)
    in_the_middle(downloads, "org/other")
    assert [download.state for download in downloads.snapshot()] == ["running", "running", "queued"]
    server.pace = 0
    until(lambda: all(download.state == "done" for download in downloads.snapshot()))


def test_the_next_app_offers_what_the_last_one_did_not_finish(
    server: FakeHub, downloads: Downloads, hub: Hub, tmp_path: Path
) -> None:
    server.pace = PACE
    downloads.start("org/small")
    in_the_middle(downloads)
    downloads.close()
    kept = the(downloads).done
    server.asked.clear()
    second = Downloads(hub, SavedDownloads(tmp_path / "downloads"))
    second.restore()
    assert (the(second).state, the(second).done) == ("paused", kept)
    assert server.asked == []
    server.pace = 0
    second.resume("org/small")
    until(lambda: the(second).state == "done")
    assert not any("/api/" in line for line in server.asked)
    third = Downloads(hub, SavedDownloads(tmp_path / "downloads"))
    third.restore()
    assert third.snapshot() == ()


def test_a_process_that_dies_is_a_failure_that_can_be_resumed(
    server: FakeHub, hub: Hub, tmp_path: Path
) -> None:
    children: list[DownloadProcess] = []

    def launch(job: DownloadRequest) -> DownloadProcess:
        children.append(DownloadProcess(job))
        return children[-1]

    server.models["org/small"] = model_files(VALUES)
    server.pace = PACE
    downloads = Downloads(hub, SavedDownloads(tmp_path / "downloads"), launch=launch)
    downloads.start("org/small")
    in_the_middle(downloads)
    os.kill(children[0].pid, signal.SIGTERM)
    until(lambda: the(downloads).state == "failed")
    assert "ended unexpectedly: try again" in the(downloads).note
    later = Downloads(hub, SavedDownloads(tmp_path / "downloads"))
    later.restore()
    assert (the(later).state, the(later).note) == ("failed", the(downloads).note)
    downloads.resume("org/small")
    until(lambda: the(downloads).state == "done")


def test_a_download_for_which_there_is_no_thread_says_so_and_can_be_resumed(downloads: Downloads) -> None:
    before = threading.stack_size(2**45)  # more than any system gives
    try:
        downloads.start("org/small")
    finally:
        threading.stack_size(before)
    assert the(downloads).state == "failed"
    assert the(downloads).note.endswith("close other programs, then try again. Downloaded bytes are kept.")
    downloads.pause("org/small")
    downloads.resume("org/small")
    until(lambda: the(downloads).state == "done")


def test_a_process_that_cannot_be_started_is_a_failure_in_a_sentence(
    server: FakeHub, hub: Hub, tmp_path: Path
) -> None:
    def launch(_job: DownloadRequest) -> DownloadProcess:
        with not_started():
            raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    server.models["org/small"] = model_files(VALUES)
    downloads = Downloads(hub, SavedDownloads(tmp_path / "downloads"), launch=launch)
    downloads.start("org/small")
    until(lambda: the(downloads).state == "failed")
    assert the(downloads).note == (
        "Foresight could not start a process of its own (Resource temporarily unavailable): "
        "close other programs, then try again."
    )


def test_a_failure_is_told_after_a_restart_too_and_a_missing_login_is_marked(
    server: FakeHub, hub: Hub, downloads: Downloads, tmp_path: Path
) -> None:
    server.gated.add("org/small")
    downloads.start("org/small")
    until(lambda: the(downloads).state == "failed")
    failed = the(downloads)
    assert failed.asks_token and "is gated: accept its terms" in failed.note
    assert failed.page == f"{server.endpoint}/org/small"
    later = Downloads(hub, SavedDownloads(tmp_path / "downloads"))
    later.restore()
    assert later.snapshot() == (failed,)
    server.gated.clear()
    later.resume("org/small")
    until(lambda: the(later).state == "done")
    downloads.start("org/small")
    until(lambda: the(downloads).state == "done")
    assert not the(downloads).asks_token


def test_a_name_that_the_hub_does_not_know_is_not_offered_again(
    hub: Hub, downloads: Downloads, tmp_path: Path
) -> None:
    downloads.start("org/typo")
    until(lambda: the(downloads, "org/typo").state == "failed")
    assert "check the spelling" in the(downloads, "org/typo").note
    later = Downloads(hub, SavedDownloads(tmp_path / "downloads"))
    later.restore()
    assert later.snapshot() == ()


def test_an_offline_hub_is_asked_nothing(server: FakeHub, hub: Hub, downloads: Downloads) -> None:
    server.pace = PACE
    downloads.start("org/small")
    in_the_middle(downloads)
    downloads.use(Hub(hub.endpoint, hub.cache, is_offline=True))
    assert the(downloads).state == "paused"
    server.asked.clear()
    with pytest.raises(ModelError, match="Foresight is set to offline"):
        downloads.start("org/other")
    with pytest.raises(ModelError, match="Foresight is set to offline"):
        downloads.resume("org/small")
    assert server.asked == []


def test_commands_about_an_unknown_download_do_nothing(downloads: Downloads) -> None:
    downloads.pause("org/none")
    downloads.resume("org/none")
    downloads.cancel("org/none")
    downloads.dismiss("org/none")
    assert downloads.snapshot() == ()


def test_a_child_ends_when_the_app_does(server: FakeHub, hub: Hub) -> None:
    server.models["org/small"] = model_files(VALUES)
    server.pace = 1e6
    child = DownloadProcess(DownloadRequest(SMALL, None, hub))
    next(
        message
        for message in child.messages()
        if isinstance(message, DownloadProgress) and sum(message.done.values()) > 9
    )
    stdin = child._process.stdin
    assert stdin is not None
    stdin.close()  # what the system does when the app's process is gone
    assert child._process.wait(SECONDS) == 1
    with child:
        pass


@pytest.mark.parametrize("kills", some(named((5, 50)), "5"))
def test_however_often_it_is_killed_the_bytes_are_right_and_come_once(
    server: FakeHub, hub: Hub, kills: int
) -> None:
    content = server.models["org/small"] = model_files(10_000_000)
    server.pace = 8e6
    dice = random.Random(todays_seed())
    plan = hub.plan(SMALL)
    for number in range(kills):
        with DownloadProcess(DownloadRequest(SMALL, plan, hub)) as child:
            # Half of them before or while the first bytes come, half at some byte.
            if number % 2:
                time.sleep(dice.uniform(0, 0.35))
            else:
                goal = dice.randrange(200_000)
                moved = (sum(m.done.values()) for m in child.messages() if isinstance(m, DownloadProgress))
                first = next(moved, 0)
                next((now for now in moved if now > first + goal), None)
    assert hub.cached(SMALL) is None
    server.pace = 0
    with DownloadProcess(DownloadRequest(SMALL, plan, hub)) as child:
        list(child.messages())
    folder = hub.cached(SMALL)
    assert folder is not None
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == content
    assert max(overlaps(server, WEIGHTS)) <= CHUNK
    assert list(hub.root.rglob("*.incomplete")) == []


def overlaps(server: FakeHub, file: str) -> list[int]:
    """How many bytes came once more, at each try."""
    parts = [sent for sent in server.sent if sent.file == file]
    return [max(0, before.start + before.count - after.start) for before, after in pairwise(parts)]
