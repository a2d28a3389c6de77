"""Files are received into folders of their own where the disk has room, and only those count as uploads."""

import errno
import os
from pathlib import Path

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from app.errors import NotUploaded
from app.ui.frame.gradio_internals import UPLOAD
from app.ui.frame.uploads import add_upload_route, discard, discard_all, named_files, upload_at

MUCH = str(10**18)
PART = b'--b\r\nContent-Disposition: form-data; name="files"; filename="a.txt"\r\n\r\n%b\r\n'
MULTIPART = {"content-type": "multipart/form-data; boundary=b"}


def test_an_upload_is_found_where_it_lies(uploads: Path) -> None:
    assert upload_at(str(uploads / "another")) == (uploads / "another").resolve()
    assert upload_at(f"{uploads}/../{uploads.name}/another") == (uploads / "another").resolve()


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd", "{uploads}", "{uploads}/none", "{uploads}/link", "{uploads}/folder/secret",
        "{uploads}/circle", "{uploads}/../../secret", "{uploads}-beside/secret", "another", "", "a\0b",
        "file://{uploads}/another", "http://127.0.0.1/x", "https://example.com/x", "//127.0.0.1/x",
    ],
)  # fmt: skip
def test_what_lies_elsewhere_is_no_upload(uploads: Path, tmp_path: Path, path: str) -> None:
    secret = tmp_path / "secret"
    secret.write_text("mine")
    (uploads / "link").symlink_to(secret)
    (uploads / "folder").symlink_to(tmp_path)
    (uploads / "circle").symlink_to(uploads / "circle")
    (uploads.parent.parent / "secret").write_text("mine")
    with pytest.raises(NotUploaded):
        upload_at(path.format(uploads=uploads))


def test_all_uploads_go_and_nothing_else_does(tmp_path: Path) -> None:
    data, outside = tmp_path / "data", tmp_path / "outside"
    left = ("a" * 64 + "/chats.json", "tmp1a_b2c3d/backup.sqlite", "tmpabcdefgh")
    kept = ("notes.txt", "project/app.py", "A" * 64 + "/x", "tmp/x", "aa/x")
    for name in (*(f"gradio/{one}" for one in (*left, *kept)), "notes.txt"):
        (data / name).parent.mkdir(parents=True, exist_ok=True)
        (data / name).write_text("mine", encoding="utf-8")
    (outside / ("b" * 64)).mkdir(parents=True)
    (data / "gradio" / ("c" * 64)).symlink_to(outside)
    discard_all(data)
    assert {name for name in (*left, *kept) if (data / "gradio" / name).exists()} == set(kept)
    assert (data / "notes.txt").exists() and (data / "gradio" / ("c" * 64)).is_symlink()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "gradio").symlink_to(outside)
    discard_all(tmp_path / "other")
    assert (outside / ("b" * 64)).exists(), "what a link leads to is not the app's"


def test_the_folder_of_uploads_goes_with_the_last_one(tmp_path: Path) -> None:
    (tmp_path / "gradio" / ("a" * 64)).mkdir(parents=True)
    discard_all(tmp_path)
    discard_all(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_every_path_in_an_event_is_found_with_or_without_its_mark() -> None:
    marked = {"path": "/a", "meta": {"_type": "gradio.FileData"}}
    sent = [None, "path", {"value": [marked, {"path": "/b", "below": {"path": "/c"}}]}, ({"path": 3},)]
    assert sorted(named_files(sent)) == ["/a", "/b", "/c"]


def test_an_event_of_any_depth_is_looked_through() -> None:
    sent: object = {"path": "/deep"}
    for _ in range(100_000):
        sent = [sent]
    assert list(named_files(sent)) == ["/deep"]


@pytest.fixture
def page(tmp_path: Path) -> TestClient:
    app = FastAPI()
    add_upload_route(app, tmp_path)
    return TestClient(app)


def send(page: TestClient, *texts: bytes) -> list[Path]:
    """Upload a file for each text, all of one name."""
    answer = page.post(UPLOAD, content=body(*texts), headers=MULTIPART)
    return [Path(path) for path in answer.json()]


def body(*texts: bytes) -> bytes:
    return b"".join(PART % text for text in texts) + b"--b--\r\n"


def test_each_upload_has_a_folder_of_its_own_which_goes_with_it(page: TestClient) -> None:
    [first], [second] = send(page, b"same"), send(page, b"same")
    discard(upload_at(str(first)))
    assert upload_at(str(second)).read_bytes() == b"same"
    discard(second)
    assert not any(folder.exists() for folder in (*first.parents[:2], *second.parents[:2]))


def test_files_that_are_sent_together_are_removed_one_by_one(page: TestClient) -> None:
    first, second = send(page, b"one", b"two")
    discard(first)
    assert second.read_bytes() == b"two"
    discard(second)
    assert not second.parents[1].exists()


def test_an_upload_that_the_disk_has_no_room_for_is_refused_in_a_sentence(
    page: TestClient, tmp_path: Path
) -> None:
    refused = page.post(UPLOAD, headers={"content-length": MUCH})
    assert refused.status_code == 507
    assert refused.text == f"The disk of {tmp_path} has no room for this file: free some space."


def test_an_upload_that_the_disk_refuses_is_told_in_a_sentence_and_leaves_nothing(
    page: TestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = folders()

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.rename", full)
    monkeypatch.setattr("shutil.move", full)
    refused = page.post(UPLOAD, content=body(b"small"), headers=MULTIPART)
    assert refused.status_code == 507
    assert refused.text.startswith(f"The file can't be saved in {tmp_path} (No space left on device)")
    assert folders() == before


def test_what_is_no_upload_is_refused_and_leaves_nothing(page: TestClient) -> None:
    before = folders()
    for sent, headers in (
        (b"text", {"content-type": "multipart/form-data"}),
        (body(b"other").replace(b'name="files"; ', b""), MULTIPART),
    ):
        assert page.post(UPLOAD, content=sent, headers=headers).status_code == 400
    assert page.post(UPLOAD, content=b"text").status_code == 400
    assert folders() == before


def test_an_upload_is_taken_whatever_its_length_is_said_to_be(page: TestClient, tmp_path: Path) -> None:
    headers = {**MULTIPART, "content-length": "much"}
    assert page.post(UPLOAD, content=body(b"small"), headers=headers).status_code == 200
    tmp_path.rmdir()
    assert send(page, b"small")[0].read_bytes() == b"small"


def folders() -> set[Path]:
    return set(Path(os.environ["GRADIO_TEMP_DIR"]).glob("*"))
