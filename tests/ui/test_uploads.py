"""What counts as an upload: a file in the folder of uploads, for which the disk had room."""

from pathlib import Path

import pytest
from starlette.responses import PlainTextResponse
from starlette.testclient import TestClient

from app.errors import NotUploaded
from app.ui.uploads import UPLOAD, UploadSpaceCheck, named_files, upload_at

MUCH = str(10**18)


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
    return TestClient(UploadSpaceCheck(PlainTextResponse("taken"), tmp_path))


def test_an_upload_that_the_disk_has_no_room_for_is_refused_in_a_sentence(
    page: TestClient, tmp_path: Path
) -> None:
    refused = page.post(UPLOAD, headers={"content-length": MUCH})
    assert refused.status_code == 507
    assert refused.text == f"The disk of {tmp_path} has no room for this file: free some space."


def test_other_uploads_and_other_requests_pass(page: TestClient, tmp_path: Path) -> None:
    assert page.post(UPLOAD, content=b"small").text == "taken"
    assert page.post(UPLOAD, headers={"content-length": "much"}).text == "taken"
    assert page.post("/other", headers={"content-length": MUCH}).text == "taken"
    tmp_path.rmdir()
    assert page.post(UPLOAD, headers={"content-length": MUCH}).text == "taken"
