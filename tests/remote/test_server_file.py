"""The file with servers and their keys."""

from pathlib import Path

import pytest

from app.errors import SettingsNotSaved
from app.remote.server_file import ServerFile
from app.values.server import Server


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[1]",
        "5",
        "[" * 100_000,
        "\0",
        '[{"address": "http://x"}]',
        '[{"address": "", "key": ""}]',
        '[{"address": "http://x", "key": 5, "models": []}]',
        '[{"address": "http://x", "key": "", "models": "abc"}]',
        '[{"address": "http://x", "key": "", "models": [1]}]',
    ],
)
def test_a_file_that_makes_no_sense_is_set_aside(tmp_path: Path, text: str) -> None:
    file = ServerFile(tmp_path)
    file.path.write_text(text, encoding="utf-8")
    assert file.read() == () and not file.path.exists()
    assert (tmp_path / "servers.json.broken").exists()


def test_a_folder_that_takes_no_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "taken").touch()
    with pytest.raises(SettingsNotSaved, match="could not be saved"):
        ServerFile(tmp_path / "taken").write((Server("http://box/v1"),))
