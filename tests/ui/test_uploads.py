"""Uploads where the disk is full: refused in a sentence before they are read."""

from pathlib import Path

import pytest
from starlette.responses import PlainTextResponse
from starlette.testclient import TestClient

from app.ui.uploads import UPLOAD, RoomForUploads

MUCH = str(10**18)


@pytest.fixture
def page(tmp_path: Path) -> TestClient:
    return TestClient(RoomForUploads(PlainTextResponse("taken"), tmp_path))


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
