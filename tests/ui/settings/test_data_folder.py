"""The data folder by part."""

import os
from pathlib import Path

import pytest

from app.ui.settings.data import (
    FolderPart,
    ImportRenderer,
    file_manager_command,
    folder_html,
    measure_folder,
    open_folder,
)  # fmt: skip


def write(path: Path, size: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * size)


def test_everything_counts_once_in_its_part(tmp_path: Path) -> None:
    write(tmp_path / "foresight.sqlite", 100)
    write(tmp_path / "foresight.sqlite-wal", 50)
    write(tmp_path / "steps" / "deep" / "demo.json", 7)
    write(tmp_path / "settings.json", 5)
    write(tmp_path / "logs" / "foresight.log", 3)
    write(tmp_path / "in-use.lock", 2)
    assert measure_folder(tmp_path) == [
        FolderPart("Chats and documents", 150),
        FolderPart("Measurements of models", 7),
        FolderPart("Logs", 3),
        FolderPart("Settings", 5),
        FolderPart("Other", 2),
    ]


@pytest.mark.skipif(os.name != "posix", reason="links need rights elsewhere")
def test_a_link_does_not_lead_out_of_the_folder(tmp_path: Path) -> None:
    write(tmp_path / "outside" / "large", 1_000_000)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "documents-inbox").symlink_to(tmp_path / "outside")
    assert sum(part.size for part in measure_folder(tmp_path / "data")) < 1_000


def test_a_folder_that_is_not_there_is_empty(tmp_path: Path) -> None:
    assert measure_folder(tmp_path / "none") == []


def test_the_path_and_the_sum_are_shown() -> None:
    html = folder_html(Path("/data/<b>"), [FolderPart("Chats", 1_500), FolderPart("Logs", 500)])
    assert "/data/&lt;b&gt;" in html and "2.00 kB" in html and 'data-do="open-folder"' in html


@pytest.mark.parametrize(
    ("platform", "program"), [("linux", "xdg-open"), ("darwin", "open"), ("win32", "explorer")]
)
def test_each_system_has_its_own_way_to_open_a_folder(platform: str, program: str) -> None:
    assert file_manager_command(platform, Path("/data")) == [program, str(Path("/data"))]


def test_without_a_file_manager_the_path_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("sys.platform", "linux")
    assert str(tmp_path) in open_folder(tmp_path)


def test_how_far_an_import_has_come_is_shown_until_it_ends() -> None:
    seen = iter([(0, 0), (3, 1_200), (3, 1_200), (0, 0)])
    renderer = ImportRenderer(lambda: next(seen))
    assert renderer.render()["import-progress"] == ""
    shown = renderer.render()
    assert "Importing chats: 3 of 1,200." in str(shown["import-progress"])
    assert renderer.render() is shown
    assert renderer.render()["import-progress"] == ""
