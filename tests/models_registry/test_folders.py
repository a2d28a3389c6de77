"""The chooser of models lists what can be loaded, and the folders in which to look further."""

import os
from pathlib import Path

import pytest

from app.errors import ModelNotFound
from app.models_registry.folders import MOST_LISTED, list_folder


@pytest.fixture
def home(tmp_path: Path) -> Path:
    for name in ("Music", "models", ".hidden", "Qwen"):
        (tmp_path / name).mkdir()
    (tmp_path / "Qwen" / "config.json").write_text("{}")
    for name in ("b.gguf", "mmproj-b.gguf", "c-00001-of-00002.gguf", "c-00002-of-00002.gguf", "notes.txt"):
        (tmp_path / name).touch()
    return tmp_path


def test_models_come_first_then_folders_and_nothing_else(home: Path) -> None:
    found = list_folder(home)
    assert [one.name for one in found.models] == ["Qwen", "b.gguf", "c-00001-of-00002.gguf"]
    assert [one.name for one in found.folders] == ["models", "Music"]
    assert (found.folder, found.parent) == (home, home.parent)
    assert list_folder(Path(home.anchor)).parent is None


def test_a_folder_of_thousands_is_cut(tmp_path: Path) -> None:
    for number in range(MOST_LISTED + 5):
        (tmp_path / str(number)).mkdir()
    assert len(list_folder(tmp_path).folders) == MOST_LISTED


def test_a_folder_that_is_gone_is_told(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFound, match=r"can't be opened .*Choose another folder"):
        list_folder(tmp_path / "none")


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may look into every folder")
def test_a_folder_that_must_not_be_looked_into_is_listed(home: Path) -> None:
    (home / "models").chmod(0)
    assert home / "models" in list_folder(home).folders
    with pytest.raises(ModelNotFound, match="Permission denied"):
        list_folder(home / "models")
