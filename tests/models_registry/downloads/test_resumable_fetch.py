"""Fetching against a hub that misbehaves: the bytes are right in the end, or one sentence says why not."""

import errno
import os
import threading
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from huggingface_hub import snapshot_download

from app.errors import DiskFull, ModelBroken, ModelError, ModelGated, ModelNotFound, ModelUnsafe
from app.models_registry.downloads import resumable_fetch
from app.models_registry.downloads.process import DownloadMessage, DownloadProgress, DownloadRequest
from app.models_registry.downloads.process_main import download
from app.models_registry.downloads.repo_cache import RepoCache
from app.models_registry.downloads.resumable_fetch import fetch_files, require_space
from app.models_registry.files.config import chat_template
from app.models_registry.hub.errors import as_model_errors
from app.models_registry.hub.hub import Hub
from app.models_registry.hub.hub_id import HubId
from tests.disk import Disk
from tests.models_registry.conftest import IMPATIENT
from tests.models_registry.hub_server import COMMIT, FakeHub
from tests.models_registry.model_files import model_files, sharded_files
from tests.support.waiting import until

WEIGHTS = "model.safetensors"
VALUES = 50_000
Fetch = Callable[[], Path]


@pytest.fixture
def said() -> list[DownloadMessage]:
    return []


@pytest.fixture
def fetch(server: FakeHub, hub: Hub, said: list[DownloadMessage]) -> Fetch:
    """What the child process does, in this one."""
    server.models["org/small"] = model_files(VALUES)
    return lambda: download(DownloadRequest(HubId("org/small"), None, hub), said.append)


def notes(said: list[DownloadMessage]) -> set[str]:
    return {message.note for message in said if isinstance(message, DownloadProgress)}


def left_over(hub: Hub) -> list[str]:
    return [path.name for path in hub.root.rglob("*.incomplete")]


def test_the_files_are_those_of_the_hub_and_lie_as_other_programs_expect(
    server: FakeHub, hub: Hub, fetch: Fetch
) -> None:
    folder = fetch()
    assert folder == hub.root / "models--org--small" / "snapshots" / COMMIT
    assert {p.name: p.read_bytes() for p in folder.iterdir()} == server.models["org/small"]
    assert (hub.root / "models--org--small" / "refs" / "main").read_text() == COMMIT
    assert (folder / WEIGHTS).is_symlink() and (folder / WEIGHTS).resolve().parent.name == "blobs"
    assert left_over(hub) == []


@pytest.mark.skipif(os.name != "posix", reason="Windows syncs no folders")
def test_what_is_called_downloaded_survives_a_power_cut(
    fetch: Fetch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resumable_fetch, "SYNCED", 2**16)
    disk = Disk(monkeypatch)
    folder = fetch()
    weights = (folder / WEIGHTS).resolve()
    assert disk.keeps(weights) and disk.keeps(folder.parents[1] / "refs" / "main")
    assert ("sync", folder.stat().st_ino) in disk.done, "the links as well"
    assert disk.done.count(("sync", weights.stat().st_ino)) > 2, "and parts of a large file while it comes"


def test_how_a_sentence_model_pools_comes_with_it(server: FakeHub, hub: Hub, fetch: Fetch) -> None:
    pooling = {"modules.json": b"[]", "1_Pooling/config.json": b'{"pooling_mode_cls_token": true}'}
    server.models["org/small"] |= {**pooling, "2_Dense/config.json": b"{}"}
    folder = fetch()
    names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    assert names == sorted((*model_files(), *pooling))
    assert (folder / "1_Pooling/config.json").read_bytes() == pooling["1_Pooling/config.json"]
    plan = hub.plan(HubId("org/small"))
    RepoCache(hub.root, "org/small").forget(plan)
    assert (folder / "1_Pooling/config.json").exists()


def test_further_chat_templates_come_with_a_model(server: FakeHub, fetch: Fetch) -> None:
    more = "additional_chat_templates/tool_use.jinja"
    server.models["org/small"] |= {"chat_template.jinja": b"plain", more: b"with tools"}
    folder = fetch()
    assert (folder / more).read_bytes() == b"with tools"
    assert chat_template(folder) == "with tools"


def test_equal_files_come_once(server: FakeHub, fetch: Fetch) -> None:
    server.models["org/small"] |= {"vocab.json": b"{}", "merges.txt": b"{}"}
    folder = fetch()
    assert (folder / "vocab.json").read_bytes() == (folder / "merges.txt").read_bytes() == b"{}"
    assert sum(len(server.gets(name)) for name in ("vocab.json", "merges.txt", "tokenizer.json")) == 1


@pytest.mark.parametrize("code", [408, 429, 500, 502, 503, 504])
def test_a_hub_in_trouble_is_asked_again(
    server: FakeHub, fetch: Fetch, said: list[DownloadMessage], code: int
) -> None:
    server.answers[WEIGHTS] = [code, code]
    assert (fetch() / WEIGHTS).read_bytes() == server.models["org/small"][WEIGHTS]
    assert len(server.gets(WEIGHTS)) == 3
    assert any("trying again in" in note for note in notes(said))


@pytest.mark.parametrize(
    ("code", "words"), [(429, "limits requests"), (500, r"has a problem \(HTTP 500\)"), (418, "HTTP 418")]
)
def test_a_hub_that_stays_in_trouble_is_told(server: FakeHub, fetch: Fetch, code: int, words: str) -> None:
    server.answers[WEIGHTS] = [code] * 9
    with pytest.raises(ModelError, match=words):
        fetch()
    assert len(server.gets(WEIGHTS)) <= IMPATIENT.tries


def test_a_silent_hub_is_noticed_and_told(server: FakeHub, hub: Hub, said: list[DownloadMessage]) -> None:
    server.silent.add(WEIGHTS)
    server.models["org/small"] = model_files(VALUES)
    quick = type(IMPATIENT)(read_timeout=0.2, first_wait=0.15, tries=2)
    with pytest.raises(ModelError, match="Hugging Face does not answer in time"):
        download(DownloadRequest(HubId("org/small"), None, replace(hub, retry_policy=quick)), said.append)
    assert any(note.startswith("Hugging Face does not answer: trying again") for note in notes(said))


def test_a_connection_that_breaks_again_and_again_brings_no_byte_twice(server: FakeHub, fetch: Fetch) -> None:
    server.breaks_off[WEIGHTS] = 6
    assert (fetch() / WEIGHTS).read_bytes() == server.models["org/small"][WEIGHTS]
    parts = sorted((sent.start, sent.count) for sent in server.sent if sent.file == WEIGHTS)
    assert sum(count for _, count in parts) == len(server.models["org/small"][WEIGHTS])


def test_a_damaged_file_is_fetched_anew_and_in_the_end_refused(
    server: FakeHub, hub: Hub, fetch: Fetch
) -> None:
    server.lies[WEIGHTS] = bytes(len(server.models["org/small"][WEIGHTS]))
    with pytest.raises(ModelBroken, match=r"its checksum is wrong\), after 3 tries: try again later"):
        fetch()
    # In the app each download has a process of its own. Here, the other files' threads may still run.
    until(lambda: not any(thread.name.startswith("fetch") for thread in threading.enumerate()))
    weights = server.models["org/small"][WEIGHTS]
    blob = sha256(weights).hexdigest()
    assert not list(hub.root.rglob(f"{blob}*")), "only other files may have been interrupted"
    assert hub.cached(HubId("org/small")) is None
    del server.lies[WEIGHTS]
    assert (fetch() / WEIGHTS).read_bytes() == weights
    assert list(hub.root.rglob(blob))


def test_a_partial_file_that_was_damaged_here_is_fetched_anew(
    server: FakeHub, hub: Hub, fetch: Fetch
) -> None:
    plan = hub.plan(HubId("org/small"))
    partial = RepoCache(hub.root, "org/small").partial(plan.files[-1])
    partial.parent.mkdir(parents=True)
    partial.write_bytes(b"not what the file begins with")
    assert (fetch() / WEIGHTS).read_bytes() == server.models["org/small"][WEIGHTS]


@pytest.mark.parametrize("extra", [b"", b"more than was promised"])
def test_a_file_of_another_length_is_refused(server: FakeHub, fetch: Fetch, extra: bytes) -> None:
    content = server.models["org/small"][WEIGHTS]
    server.lies[WEIGHTS] = content + extra if extra else content[: len(content) // 2]
    with pytest.raises(
        ModelError, match=r"longer than it should be|A file of org/small is shorter than Hugging Face states"
    ):
        fetch()


def test_a_hub_that_cannot_resume_is_given_up_in_the_end(server: FakeHub, fetch: Fetch) -> None:
    server.ignores_ranges = True
    server.breaks_off[WEIGHTS] = 99
    with pytest.raises(ModelBroken, match="was not resumed by the hub"):
        fetch()


def test_a_loop_of_redirects_is_told(server: FakeHub, fetch: Fetch) -> None:
    server.loops.add(WEIGHTS)
    with pytest.raises(ModelError, match="too many times"):
        fetch()


def test_a_hub_that_is_down_is_told(fetch: Fetch, server: FakeHub) -> None:
    server.answers["look up"] = [503]
    with pytest.raises(ModelError, match="HTTP 503"):
        fetch()


@pytest.mark.parametrize(
    ("lose", "words"),
    [
        (lambda models: models.clear(), "no model org/small on Hugging Face"),
        (lambda models: models["org/small"].pop(WEIGHTS), "no longer on Hugging Face: cancel this download"),
    ],
    ids=["model", "file"],
)
def test_what_vanished_between_two_tries_is_told(
    server: FakeHub, hub: Hub, lose: Callable[[Any], object], words: str
) -> None:
    plan = hub.plan(HubId("org/small"))
    lose(server.models)
    with pytest.raises(ModelNotFound, match=words):
        download(DownloadRequest(HubId("org/small"), plan, hub), lambda _: None)


def test_a_gated_model_comes_with_the_right_token_alone(
    server: FakeHub, fetch: Fetch, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.gated.add("org/small")
    server.tokens.add("hf_right")
    with pytest.raises(ModelGated, match=rf"accept its terms at {server.endpoint}/org/small"):
        fetch()
    monkeypatch.setenv("HF_TOKEN", "hf_wrong")
    with pytest.raises(ModelGated, match="rejects the token that was sent for org/small") as failure:
        fetch()
    assert "hf_wrong" not in str(failure.value)
    monkeypatch.setenv("HF_TOKEN", "hf_right")
    assert (fetch() / WEIGHTS).exists()
    assert server.leaked == []


@pytest.mark.parametrize(
    ("token", "status", "words"),
    [("", 401, "only to users with an account: log in with"), ("hf_a", 401, "rejects the token that was sent"),
     ("", 403, "refuses access to org/small: ask for access"), ("hf_a", 403, "refuses access to org/small")],
)  # fmt: skip
def test_a_refusal_names_a_token_only_if_one_was_sent(
    server: FakeHub, hub: Hub, monkeypatch: pytest.MonkeyPatch, token: str, status: int, words: str
) -> None:
    monkeypatch.setenv("HF_TOKEN", token)
    server.models["org/small"] = model_files(VALUES)
    server.answers["look up"] = [status]
    with pytest.raises(ModelGated, match=words) as failure:
        hub.look_up(HubId("org/small"))
    assert "saved token" not in str(failure.value)


def test_a_disk_without_room_is_told_before_anything_comes(
    server: FakeHub, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    def leave(free: int) -> None:
        usage = SimpleNamespace(free=free, total=free)
        monkeypatch.setattr(
            "app.models_registry.downloads.resumable_fetch.shutil.disk_usage", lambda _: usage
        )

    server.models["org/small"] = model_files(VALUES)
    plan = hub.plan(HubId("org/small"))
    leave(200_000_000 + plan.size - 1)
    with pytest.raises(
        DiskFull, match=r"org/small needs 200 kB more on the disk of .*, where 200 MB are free"
    ):
        fetch_files(hub, plan, lambda _: None)
    assert {sent.file for sent in server.sent} <= {"config.json"} and not hub.root.exists()
    leave(200_000_000 + plan.size)
    require_space(plan, plan.size, hub.root)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EFBIG])
def test_a_disk_that_runs_full_is_told(code: int) -> None:
    words = "The disk is full, so org/small could not be downloaded: free some space"
    with pytest.raises(DiskFull, match=words), as_model_errors("org/small", ""):
        raise OSError(code, "no room")


def test_a_second_process_leaves_the_first_alone(hub: Hub, fetch: Fetch) -> None:
    words = "being downloaded by another Foresight already"
    with RepoCache(hub.root, "org/small").lock(), pytest.raises(ModelError, match=words):
        fetch()


def test_a_file_list_with_hostile_names_is_refused(server: FakeHub, hub: Hub) -> None:
    server.models["org/hostile"] = {**sharded_files(), "chat_template.a\x00b": b"x"}
    with pytest.raises(ModelUnsafe, match="is invalid"):
        hub.plan(HubId("org/hostile"))


@pytest.mark.parametrize(
    "name",
    [
        "../../evil.json",
        "/etc/config.json",
        "sub/config.json",
        "1_Pooling/x.json",
        "1_Pooling/../config.json",
        "../1_Pooling/config.json",
        "1_Pooling/config.json",  # of a model that has no modules
        "modeling_x.py",
        "additional_chat_templates/x.py",
        "additional_chat_templates/../x.jinja",
        "additional_chat_templates/sub/x.jinja",
        "x/additional_chat_templates/x.jinja",
    ],
)
def test_names_outside_the_models_folder_are_not_fetched(server: FakeHub, fetch: Fetch, name: str) -> None:
    server.models["org/small"][name] = b"evil"
    folder = fetch()
    assert sorted(path.name for path in folder.iterdir()) == sorted(model_files())


@pytest.mark.parametrize(
    "listing",
    [
        {"sha": "../../../etc"},
        {"siblings": [{"rfilename": n, "size": 1, "blobId": "../x"} for n in model_files()]},
        {"siblings": [{"rfilename": n, "size": -1, "blobId": 40 * "a"} for n in model_files()]},
        {"siblings": [{"rfilename": n, "size": 2**63, "blobId": 40 * "a"} for n in model_files()]},
        {"siblings": [{"rfilename": n, "size": 10**4000, "blobId": 40 * "a"} for n in model_files()]},
        {"siblings": [{"rfilename": n, "size": 5, "blobId": None} for n in model_files()]},
    ],
)
def test_a_description_that_makes_no_sense_is_refused(
    server: FakeHub, hub: Hub, listing: dict[str, object]
) -> None:
    server.listing = listing
    with pytest.raises(ModelUnsafe, match="is invalid"):
        hub.plan(HubId("org/small"))


@pytest.mark.parametrize(
    "siblings",
    [
        "x", [1], [{"size": 1}], [{"rfilename": "a", "lfs": {"x": 1}}], {"a": 1}, None, [None],
        [{"rfilename": 5, "size": 1}], [{"rfilename": "a", "size": "1"}], [{"rfilename": "a", "lfs": "x"}],
        [{"rfilename": "a", "size": 1, "blobId": {}}],
    ],
)  # fmt: skip
def test_a_description_that_is_none_is_a_sentence(server: FakeHub, hub: Hub, siblings: object) -> None:
    server.listing = {"siblings": siblings}
    with pytest.raises(ModelBroken, match=r"in an invalid way|is not a model"):
        hub.plan(HubId("org/small"))


def test_the_hubs_own_client_finds_everything_and_fetches_nothing(
    server: FakeHub, hub: Hub, fetch: Fetch
) -> None:
    folder = fetch()
    server.asked.clear()
    assert Path(snapshot_download("org/small", cache_dir=hub.cache, endpoint=hub.endpoint)) == folder
    assert not any(line.startswith("GET") and "resolve" in line for line in server.asked)
    assert Path(snapshot_download("org/small", cache_dir=hub.cache, local_files_only=True)) == folder


def test_what_the_hubs_own_client_fetched_is_not_fetched_again(
    server: FakeHub, hub: Hub, fetch: Fetch
) -> None:
    folder = snapshot_download("org/small", cache_dir=hub.cache, endpoint=hub.endpoint)
    server.asked.clear()
    assert fetch() == Path(folder)
    assert not any("resolve" in line for line in server.asked)
