"""The small files of the data folder, damaged in every way: each is read as nothing, or is set aside."""

from collections.abc import Callable
from pathlib import Path

import pytest

from app.chats.chat_table import collections_from_json
from app.chats.message_table import marks_from_json, value_from_json
from app.engine.measuring.measurement_cache import MeasurementCache
from app.errors import SettingsNotRead
from app.models_registry.downloads.download_queue import SavedDownloads
from app.models_registry.files.config import USUAL_TEMPERATURE, chat_template, own_temperature
from app.remote.servers import ServerFile
from app.settings import Settings, SettingsFile
from app.values.dataclass_json import parse_json
from app.values.messages import Sampling

DEEP = 100_000
CONTENTS = {
    "nothing": b"",
    "zeros": b"\0" * 4096,
    "not UTF-8": b'{"a": "\xff\xfe"}',
    "half": b'{"model": {"na',
    "brackets": b"[" * DEEP,
    "closed brackets": b"[" * DEEP + b"]" * DEEP,
    "braces": b'{"a":' * DEEP,
    "a huge number": b'{"model": ' + b"9" * 10_000 + b"}",
    "NaN": b"NaN",
    "a list": b"[1, null, {}]",
    "a number": b"7",
    "a text": b'"words"',
    "wrong types": b'{"model": 1, "options": [], "plan": 7, "repo": {}, "subject": null, "note": {}}',
}


def settings(folder: Path) -> object:
    return SettingsFile(folder).load() == Settings()


def servers(folder: Path) -> object:
    return ServerFile(folder).read() == ()


def downloads(folder: Path) -> object:
    return list(SavedDownloads(folder).load()) == []


def measurements(folder: Path) -> object:
    cache = MeasurementCache(folder)
    cache.write("step", {"model": "demo"}, 7)
    (written,) = folder.glob("step-*.json")
    (folder / "damaged.json").replace(written)
    return cache.read("step", {"model": "demo"}, int, 0) == 0


def templates(folder: Path) -> object:
    return chat_template(folder) == ""


def temperatures(folder: Path) -> object:
    return own_temperature(folder) == USUAL_TEMPERATURE


READERS: dict[str, Callable[[Path], object]] = {
    "settings.json": settings,
    "servers.json": servers,
    "org%2Fname.json": downloads,
    "damaged.json": measurements,
    "tokenizer_config.json": templates,
    "generation_config.json": temperatures,
}


@pytest.mark.parametrize("content", CONTENTS.values(), ids=CONTENTS.keys())
@pytest.mark.parametrize("name", READERS)
def test_a_damaged_file_is_read_as_nothing(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    assert READERS[name](tmp_path)


@pytest.mark.parametrize("name", [name for name in READERS if name != "damaged.json"])
def test_a_folder_in_place_of_a_file_is_no_traceback(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    if name == "settings.json":  # whose choices would be lost at the next change
        with pytest.raises(SettingsNotRead, match="move it away"):
            READERS[name](tmp_path)
    else:
        assert READERS[name](tmp_path)


@pytest.mark.parametrize("content", CONTENTS.values(), ids=CONTENTS.keys())
def test_a_damaged_column_is_read_as_nothing(content: bytes) -> None:
    text = content.decode("utf-8", "replace")
    assert marks_from_json(text) == () or not text
    assert value_from_json(Sampling, text) in (None, Sampling())
    assert all(type(one) is int for one in collections_from_json(text))


def test_brackets_without_end_are_a_value_error() -> None:
    with pytest.raises(ValueError, match="nested too deeply"):
        parse_json("[" * DEEP)
