"""The small parts of downloads, one by one: names, plans, checksums, speeds, and what is remembered."""

import hashlib
import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import DiskFull, ModelError, ModelGated, SettingsNotSaved
from app.models_registry.downloads.download_queue import SavedDownloads, SpeedMeter
from app.models_registry.downloads.process import (
    DownloadFailed,
    DownloadFinished,
    DownloadMessage,
    DownloadPlanned,
    DownloadProcess,
    DownloadProgress,
    DownloadRequest,
    message_from_line,
    request_from_line,
    to_line,
)
from app.models_registry.downloads.repo_cache import RepoCache
from app.models_registry.files.checksum import GrowingFileHash, file_digest, new_hash
from app.models_registry.hub.download_plan import DownloadPlan, RemoteFile, plan_from_json
from app.models_registry.hub.http import RetryPolicy
from app.models_registry.hub.hub import Hub
from app.models_registry.hub.hub_id import HubId, parse_hub_id
from tests.models_registry.hub_server import git_sha1

COMMIT = "a" * 40
FILE = RemoteFile("config.json", 5, "b" * 40)
PLAN = DownloadPlan("org/small", "main", COMMIT, (FILE, RemoteFile("model.safetensors", 7, "c" * 64)))
FAILED = DownloadFailed("ModelGated", "org/x is gated: accept its terms.")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("org/name", HubId("org/name")),
        (" org/name@v1.0 ", HubId("org/name", "v1.0")),
        ("https://huggingface.co/org/name", HubId("org/name")),
        ("https://huggingface.co/org/name/", HubId("org/name")),
        ("https://hf.co/org/name/tree/v1.0", HubId("org/name", "v1.0")),
        ("https://huggingface.co/org/name/blob/main/config.json?x=1#y", HubId("org/name", "main")),
        ("http://127.0.0.1:8000/org/name", HubId("org/name")),
        ("org/name:a.Q8_0.gguf", HubId("org/name", "", "a.Q8_0.gguf")),
        ("org/name:a.gguf@v1", HubId("org/name", "v1", "a.gguf")),
        ("https://huggingface.co/org/name/blob/main/a-Q4_K_M.gguf", HubId("org/name", "main", "a-Q4_K_M.gguf")),
        ("https://huggingface.co/org/name/resolve/main/x/a.gguf", HubId("org/name", "main", "x/a.gguf")),
        ("org/name:a.bin", None), ("org/name:../a.gguf", None),
        ("https://huggingface.co/datasets/org/name", None),
        ("https://hub.example/org/name", None),
        ("https://huggingface.co.evil.example/org/name", None),
        ("https://huggingface.co/org/name/tree/..", None),
        ("org/name@../../x", None), ("org/name@/etc/x", None), ("file:///org/name", None), ("org", None),
        ("../org/name", None), ("", None),
    ],
)  # fmt: skip
def test_what_is_pasted_names_a_model_or_nothing(text: str, expected: HubId | None) -> None:
    assert parse_hub_id(text, "http://127.0.0.1:8000") == expected


@given(st.text(max_size=60))
def test_no_text_makes_a_hub_id_that_leaves_its_place(text: str) -> None:
    found = parse_hub_id(text)
    if found:
        root = Path("/cache")
        assert RepoCache(root, found.repo).folder.resolve().parent == root
        assert ".." not in str(found) or ".." not in found.revision


@pytest.mark.parametrize(
    ("name", "size", "digest"),
    [
        ("../x", 1, "b" * 40),
        ("a/b", 1, "b" * 40),
        ("1_Pooling/x.json", 1, "b" * 40),
        ("1_Pooling/../../config.json", 1, "b" * 40),
        ("a\\b", 1, "b" * 40),
        (".hidden", 1, "b" * 40),
        ("", 1, "b" * 40),
        ("x", -1, "b" * 40),
        ("x", 1, "B" * 40),
        ("x", 1, "../" + "b" * 37),
        ("x", 1, "b" * 41),
    ],
)
def test_a_file_that_cannot_be_trusted_is_refused(name: str, size: int, digest: str) -> None:
    with pytest.raises(ValueError, match=r"; it is|; it has|is not one"):
        RemoteFile(name, size, digest)


@pytest.mark.parametrize(
    "changed",
    [{"commit": "main"}, {"repo": "../x"}, {"revision": "../x"}, {"files": ()}, {"files": (FILE,) * 2001}],
)
def test_a_plan_that_cannot_be_trusted_is_refused(changed: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"; it is|; it has|is not one"):
        replace(PLAN, **changed)  # type: ignore[arg-type]


def test_a_plan_and_a_job_survive_being_written_down() -> None:
    assert plan_from_json(json.loads(json.dumps(asdict(PLAN)))) == PLAN
    for job in (
        DownloadRequest(HubId("org/x")),
        DownloadRequest(
            HubId("org/x", "v1"), PLAN, Hub("http://h", Path("/c"), retry_policy=RetryPolicy(1.0))
        ),
    ):
        assert request_from_line(to_line(job)) == job


@pytest.mark.parametrize(
    "message",
    [
        DownloadPlanned(PLAN),
        DownloadProgress({"a": 1}, "note"),
        DownloadFinished(Path("/x")),
        DownloadFailed("ModelGated", "no"),
    ],
)
def test_what_a_child_says_survives_the_pipe(message: DownloadMessage) -> None:
    assert message_from_line(to_line(message)) == message
    assert to_line(message).count(b"\n") == 1


def test_a_childs_failure_becomes_the_error_that_it_was() -> None:
    assert type(DownloadFailed("ModelGated", "x").error()) is ModelGated
    assert type(DownloadFailed("DiskFull", "x").error()) is DiskFull
    for kind in ("KeyError", "EngineClosed", "annotations", ""):
        assert type(DownloadFailed(kind, "x").error()) is ModelError


@given(st.lists(st.binary(max_size=300), max_size=12))
def test_a_checksum_that_follows_a_growing_file_is_the_files(pieces: list[bytes]) -> None:
    import tempfile

    whole = b"".join(pieces)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file"
        path.touch()
        with (
            GrowingFileHash(path, new_hash("c" * 64, len(whole))) as following,
            path.open("ab", buffering=0) as file,
        ):
            for piece in pieces:
                file.write(piece)
                following.grew()
            assert following.finish() == hashlib.sha256(whole).hexdigest()
        assert file_digest(path, "b" * 40) == git_sha1(whole)


def test_a_checksum_begins_with_what_is_there_already(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"abc")
    with GrowingFileHash(tmp_path / "file", new_hash("c" * 64, 3)) as following:
        assert following.finish() == hashlib.sha256(b"abc").hexdigest()
    with (
        GrowingFileHash(tmp_path / "none", new_hash("c" * 64, 3)) as following,
        pytest.raises(FileNotFoundError),
    ):
        following.finish()


def test_the_speed_is_that_of_the_last_seconds() -> None:
    meter = SpeedMeter(0.0, 1000)
    assert meter.speed(0.0) == 0.0
    meter.update(1.0, 1010)
    meter.update(2.0, 1040)
    assert meter.speed(2.0) == 20.0
    for second in range(3, 20):
        meter.update(float(second), 1040 + 100 * (second - 2))
    assert meter.speed(19.0) == pytest.approx(100.0, rel=0.2)
    assert meter.quiet(22.0) == 3.0
    assert meter.speed(30.0) == 0.0
    meter.update(31.0, 0)
    assert meter.speed(31.0) == 0.0


def test_a_download_is_remembered_until_it_is_forgotten(tmp_path: Path) -> None:
    files = SavedDownloads(tmp_path / "downloads")
    assert list(files.load()) == []
    files.save(HubId("org/x", "feature/y"), None, FAILED)
    files.save(HubId("org/small"), PLAN)
    one_file = HubId("org/" + "n" * 90, "v1", "f" * 120 + ".gguf")  # too long for the name of a file
    files.save(one_file, None)
    others = {HubId("org/x", "feature/y"): [None, FAILED], one_file: [None, None]}
    assert {wanted: saved for wanted, *saved in files.load()} == {HubId("org/small"): [PLAN, None], **others}
    files.forget(HubId("org/small"))
    files.forget(HubId("org/small"))
    assert {wanted: saved for wanted, *saved in files.load()} == others


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"repo": "../x", "revision": "", "plan": null}', '{"repo": 1}']
)
def test_what_was_remembered_and_makes_no_sense_is_left_alone(tmp_path: Path, text: str) -> None:
    files = SavedDownloads(tmp_path)
    files.save(HubId("org/small"), PLAN)
    (tmp_path / "a.json").write_text(text)
    assert list(files.load()) == [(HubId("org/small"), PLAN, None)]
    assert (tmp_path / "a.json").exists()


def test_a_data_folder_that_cannot_be_written_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SettingsNotSaved, match="would be forgotten when the app ends"):
        SavedDownloads(tmp_path / "file" / "downloads").save(HubId("org/small"), None)


def test_a_cache_without_links_is_filled_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_links(*_: object) -> None:
        raise OSError("a privilege is not held")

    monkeypatch.setattr(Path, "symlink_to", no_links)
    cache = RepoCache(tmp_path, "org/small")
    (cache.folder / "blobs").mkdir(parents=True)
    for file in PLAN.files:
        cache.blob(file).write_bytes(bytes(file.size))
    for _ in range(2):
        folder = cache.install(PLAN)
        assert sorted(path.name for path in folder.iterdir()) == ["config.json", "model.safetensors"]
        assert all(cache.has(PLAN, file) for file in PLAN.files)


@pytest.mark.parametrize(
    "line",
    [
        b"a library's warning\n", b'{"is": "Unknown", "x": 1}\n', b'{"is": "DownloadPlanned", "plan": {}}\n',
        b'{"is": "DownloadProgress", "done": 5}\n', b'{"is": "DownloadProgress", "done": {"a": "5"}}\n',
        b'{"is": "DownloadFinished", "folder": 5}\n', b'{"is": "DownloadFailed", "kind": 1, "sentence": ""}\n',
        b'{"is": "DownloadFin\n', b"[]\n", b"[" * 100_000 + b"\n",
    ],
    ids=range(10),
)  # fmt: skip
def test_a_line_that_is_no_message_is_one_sentence(monkeypatch: pytest.MonkeyPatch, line: bytes) -> None:
    monkeypatch.setattr(DownloadProcess, "lines", lambda _: iter([line]))
    with (
        DownloadProcess(DownloadRequest(HubId("org/small"))) as child,
        pytest.raises(ModelError, match=r"^The download of org/small ended unexpectedly: try again"),
    ):
        list(child.messages())
