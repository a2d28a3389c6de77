"""The settings on disk."""

import json
import sys
from dataclasses import replace
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import get_args

import pytest

from app.errors import SettingsNotRead, SettingsNotSaved
from app.settings import (
    DEFAULT_EMBEDDER,
    DEMO_MODEL,
    ChatDefaults,
    ModelSettings,
    Settings,
    SettingsFile,
    ToolSettings,
    assets_dir,
)
from app.values.chat_format import Thinking
from app.values.messages import DecoderName, Decoding, ModelChoice, Options, Sampling
from app.values.tools import ToolServer
from tests.support.children import run_python

UNUSUAL = Settings(
    model=ModelChoice("org/näme", dtype="bfloat16", device="cpu", quantisation="int4"),
    options=Options(
        sampling=Sampling(0.7, 40, 0.9, 0.05, 1.1, 2**63 - 1),
        decoding=Decoding("plain", 0, 2, 0),
        max_new_tokens=7,
        ignore_eos=True,
        stop=("\n\n", "«"),
        thinking=Thinking("off", 300),
    ),
    thinking={"org/näme": Thinking("off", 300), "org/other": Thinking("high")},
    chats=ChatDefaults(rolling_context=True, system="Be «brief»."),
    has_api=True,
    api_origins=("app://obsidian.md",),
    tools=ToolSettings((ToolServer("time", ("uvx", "mcp-server-time")),), ("My documents",)),
)

SAVE_ON_A_FULL_DISK = """
import resource, sys
from pathlib import Path
from typing import get_args
from app.errors import SettingsNotSaved
from app.settings import ModelSettings, Settings, SettingsFile
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
try:
    SettingsFile(Path(sys.argv[1])).save(Settings())
except SettingsNotSaved as error:
    sys.exit(str(error))
"""


def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    file = SettingsFile(tmp_path / "data")
    file.save(UNUSUAL)
    assert file.load() == UNUSUAL
    file.save(Settings())
    assert file.load() == Settings()
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["settings.json"]


@pytest.mark.parametrize("decoder", get_args(DecoderName))
def test_every_decoder_is_saved_with_its_sizes(tmp_path: Path, decoder: DecoderName) -> None:
    decoding = Decoding(decoder, 7, 5, 7, rows=48, same_text=False)
    file, chosen = SettingsFile(tmp_path), Settings(options=Options(decoding=decoding))
    file.save(chosen)
    assert file.load() == chosen


WITHOUT_THINKING = replace(UNUSUAL, options=replace(UNUSUAL.options, thinking=Thinking()), thinking={})
OFFLINE = Settings(library=ModelSettings(is_offline=True))
OFFLINE_AND_USUAL = Settings(library=ModelSettings(is_offline=True, embedder=DEFAULT_EMBEDDER))


@pytest.mark.parametrize(
    ("saved", "missing", "expected"),
    [
        (UNUSUAL, ("options.decoding.rows", "options.decoding.same_text"), UNUSUAL),
        (UNUSUAL, ("options.thinking", "thinking"), WITHOUT_THINKING),
        (UNUSUAL, ("library",), UNUSUAL),
        (OFFLINE, ("library.embedder",), OFFLINE_AND_USUAL),
    ],
)
def test_settings_of_earlier_releases_are_read(
    tmp_path: Path, saved: Settings, missing: tuple[str, ...], expected: Settings
) -> None:
    file = SettingsFile(tmp_path)
    file.save(saved)
    values = json.loads(file.path.read_text(encoding="utf-8"))
    for name in missing:
        *parts, last = name.split(".")
        del reduce(getitem, parts, values)[last]
    file.path.write_text(json.dumps(values), encoding="utf-8")
    assert file.load() == expected


def test_defaults_that_the_first_release_wrote_are_todays(tmp_path: Path) -> None:
    file = SettingsFile(tmp_path)
    chosen = (ModelChoice("a", quantisation="none"), ModelChoice("b", "float32", quantisation="none"))
    old = Settings(options=Options(max_new_tokens=512), loaded=chosen)
    file.save(old)
    assert file.load() == old
    saved = json.loads(file.path.read_text(encoding="utf-8"))
    del saved["version"]
    file.path.write_text(json.dumps(saved), encoding="utf-8")
    loaded = (ModelChoice("a"), chosen[1])
    assert file.load() == Settings(options=Options(), loaded=loaded), "what was not chosen"
    saved["options"]["max_new_tokens"] = 300
    file.path.write_text(json.dumps(saved), encoding="utf-8")
    assert file.load().options.max_new_tokens == 300


def test_without_a_file_the_demo_model_is_chosen(tmp_path: Path) -> None:
    assert SettingsFile(tmp_path / "none").load() == Settings()
    assert Settings().model.name == DEMO_MODEL
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    "content",
    [
        b"", b"\x00\x00\x00", b"\xff\xfe", b"null", b"[]", b"{}", b'{"model": {"name": ""}, "options": {}}',
        b'{"version": 1, "options": {"max_new_tokens": -1}}',
        b'{"version": 1, "model": {"name": "demo", "context": -1}}',
        b"[" * 100_000,
        b'{"model":' * 100_000,
        b'{"model": ' + b"1" * 5_000 + b"}",
        b'{"model": {"name": 5}}',
    ],
)  # fmt: skip
def test_a_broken_file_is_kept_aside_and_defaults_take_over(tmp_path: Path, content: bytes) -> None:
    file = SettingsFile(tmp_path)
    file.path.write_bytes(content)
    assert file.load() == Settings()
    assert (tmp_path / "settings.json.broken").read_bytes() == content
    file.save(UNUSUAL)
    assert file.load() == UNUSUAL


@pytest.mark.parametrize(
    ("part", "name", "value"),
    [
        ("options", "max_new_tokens", 7.5), ("options", "max_new_tokens", float("inf")),
        ("options", "max_new_tokens", float("nan")),
        ("options", "ignore_eos", "yes"), ("options", "stop", "text"), ("options", "stop", None),
        ("options", "stop", [1]),
        ("model", "offload", "no"), ("library", "is_offline", "false"), ("library", "folders", "/models"),
        ("library", "downloads_at_once", 1.5), ("chats", "rolling_context", 1),
    ],
)  # fmt: skip
def test_a_value_of_a_wrong_type_loses_no_other_setting(
    tmp_path: Path, part: str, name: str, value: object
) -> None:
    file = SettingsFile(tmp_path)
    file.save(UNUSUAL)
    saved = json.loads(file.path.read_text(encoding="utf-8"))
    saved[part][name] = value
    saved[part]["of a later version"] = 5
    file.path.write_text(json.dumps(saved), encoding="utf-8")
    usual = getattr(getattr(Settings(), part), name)
    assert file.load() == replace(UNUSUAL, **{part: replace(getattr(UNUSUAL, part), **{name: usual})})
    assert not (tmp_path / "settings.json.broken").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows cannot limit the size of files")
def test_a_full_disk_is_told_and_leaves_the_old_settings(tmp_path: Path) -> None:
    file = SettingsFile(tmp_path)
    file.save(UNUSUAL)
    child = run_python(SAVE_ON_A_FULL_DISK, tmp_path)
    assert child.returncode == 1, child.stderr
    assert child.stderr.startswith(f"The settings could not be saved in {tmp_path}")
    assert "Free some disk space" in child.stderr and "Traceback" not in child.stderr
    assert file.load() == UNUSUAL
    assert [path.name for path in tmp_path.iterdir()] == ["settings.json"]


def test_a_data_folder_that_is_a_file_is_told(tmp_path: Path) -> None:
    taken = tmp_path / "data"
    taken.write_text("mine", encoding="utf-8")
    with pytest.raises(SettingsNotSaved, match="--data-dir"):
        SettingsFile(taken).save(Settings())
    assert taken.read_text(encoding="utf-8") == "mine"


def test_the_shipped_files_are_found_from_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert (assets_dir() / "demo-model" / "config.json").exists()
    assert assets_dir().is_absolute()


def test_settings_that_cannot_be_opened_are_told_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "settings.json").mkdir()
    with pytest.raises(SettingsNotRead, match=r"settings.json cannot be read \(.*\)\. .* --data-dir"):
        SettingsFile(tmp_path).load()


@pytest.mark.parametrize(
    ("tools", "kept"),
    [
        (None, ()), (5, ()), ([], ()), ("x", ()), ({"servers": {}, "bundled": "Web pages"}, ()),
        ({"servers": [None, 5, {}, {"name": " ", "command": ["x"]}, {"name": "a"}, {"name": ["a"]}]}, ()),
        ({"servers": [{"name": "a", "address": "file:///etc"}, {"name": "b", "address": "http://["}]}, ()),
        ({"servers": [{"name": "a", "address": "https://"}, {"name": "b", "address": "http://x:0x"}]}, ()),
        ({"servers": [{"name": "a", "command": ["x"], "environment": 5, "is_on": "no", "later": [[]]}]}, ("x",)),
        ({"servers": [{"name": "a", "command": ["x"]}, {"name": "a", "command": ["y"]}]}, ("x",)),
    ],
)  # fmt: skip
def test_wrong_settings_of_tools_lose_no_other_setting(
    tmp_path: Path, tools: object, kept: tuple[str, ...]
) -> None:
    file = SettingsFile(tmp_path)
    file.save(UNUSUAL)
    saved = {**json.loads(file.path.read_text(encoding="utf-8")), "tools": tools}
    file.path.write_text(json.dumps(saved), encoding="utf-8")
    loaded = file.load()
    assert [one.command for one in loaded.tools.servers] == ([kept] if kept else [])
    assert loaded.tools.bundled == () and replace(loaded, tools=UNUSUAL.tools) == UNUSUAL


def test_tool_servers_are_kept_with_their_secrets_for_their_owner_alone(tmp_path: Path) -> None:
    file = SettingsFile(tmp_path)
    program = ToolServer("a", ("x", "-y"), environment={"KEY": "hidden"}, is_on=False)
    settings = Settings(tools=ToolSettings((program, ToolServer("b", (), "https://b/mcp")), ("Web pages",)))
    file.path.write_text("{}", encoding="utf-8")
    file.path.chmod(0o644)
    file.save(settings)
    assert file.load() == settings
    if sys.platform != "win32":
        assert file.path.stat().st_mode & 0o777 == 0o600


def test_the_library_is_remembered_and_checked(tmp_path: Path) -> None:
    file = SettingsFile(tmp_path)
    settings = Settings(
        library=ModelSettings(
            folders=("/models", "~/more"), is_offline=True, downloads_at_once=1, embedder="~/bge"
        )
    )
    file.save(settings)
    assert file.load() == settings
    for wrong in ({"folders": ("",)}, {"downloads_at_once": 0}, {"embedder": " "}):
        with pytest.raises(ValueError, match="it is"):
            ModelSettings(**wrong)


def test_broken_settings_that_cannot_be_put_aside_are_left_where_they_are(tmp_path: Path) -> None:
    file = SettingsFile(tmp_path)
    file.path.write_text("{", encoding="utf-8")
    aside = tmp_path / "settings.json.broken"
    (aside / "in the way").mkdir(parents=True)
    assert file.load() == Settings()
    assert file.path.read_text(encoding="utf-8") == "{"


def test_how_each_model_was_loaded_last_is_kept_the_newest_first() -> None:
    first, second = ModelChoice("org/a@1", quantisation="int8"), ModelChoice("b", "float32", context=512)
    settings = Settings().with_loaded(first).with_loaded(second).with_loaded(replace(first, name="org/a@2"))
    assert [one.name for one in settings.loaded] == ["org/a@2", "b"]
    assert settings.choice_of("b") == second
    assert settings.choice_of("org/a@3") == ModelChoice("org/a@3", quantisation="int8")
    assert settings.choice_of("new") == ModelChoice("new")
    assert settings.with_loaded(ModelChoice("/x@1", "float32")).choice_of("/x@2") == ModelChoice("/x@2")
    many = Settings()
    for number in range(200):
        many = many.with_loaded(ModelChoice(f"m{number}"))
    assert len(many.loaded) == 100


def test_how_models_were_loaded_survives_the_file(tmp_path: Path) -> None:
    settings = Settings().with_loaded(ModelChoice("org/a", quantisation="int4", context=2048))
    SettingsFile(tmp_path).save(settings)
    assert SettingsFile(tmp_path).load() == settings


def test_the_choice_of_thinking_belongs_to_its_model() -> None:
    settings = Settings(ModelChoice("org/a")).with_thinking(Thinking("off"))
    other = settings.with_loaded(ModelChoice("org/b"))
    assert other.options.thinking == Thinking()
    again = other.with_thinking(Thinking("high", 100)).with_loaded(ModelChoice("org/a@main"))
    assert again.options.thinking == Thinking("off")
    assert again.thinking == {"org/a": Thinking("off"), "org/b": Thinking("high", 100)}
