"""The settings on disk, and the data folder that one instance holds at a time."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest

from app.errors import DataFolderInUse, SettingsNotRead, SettingsNotSaved
from app.messages import DecoderName, Decoding, ModelChoice, Options, Sampling
from app.settings import (
    DEFAULT_EMBEDDER,
    DEMO_MODEL,
    ChatDefaults,
    DataFolder,
    ModelSettings,
    Settings,
    SettingsFile,
    assets_dir,
)

UNUSUAL = Settings(
    model=ModelChoice("org/näme", dtype="bfloat16", device="cpu", quantisation="int4"),
    options=Options(
        sampling=Sampling(0.7, 40, 0.9, 0.05, 1.1, 2**63 - 1),
        decoding=Decoding("plain", 0, 2, 0),
        max_new_tokens=7,
        ignore_eos=True,
        stop=("\n\n", "«"),
    ),
    chats=ChatDefaults(rolling_context=True, system="Be «brief»."),
    has_api=True,
)
CHECKOUT = Path(__file__).parent.parent

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
START_ON_A_FULL_DISK = """
import resource, sys
from pathlib import Path
from typing import get_args
from app.settings import DataFolder
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
folder = DataFolder(Path(sys.argv[1]))
folder.hold()
folder.announce("http://127.0.0.1:1")
folder.release()
"""
HOLD = """
import sys
from pathlib import Path
from typing import get_args
from app.settings import DataFolder
folder = DataFolder(Path(sys.argv[1]))
folder.hold()
folder.announce("http://127.0.0.1:7860")
print("held", flush=True)
sys.stdin.read()
folder.release()
"""


def run_child(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", script, str(folder)],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@contextmanager
def another_instance(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A second process that holds the folder until it is killed or its input ends."""
    command = [sys.executable, "-c", HOLD, str(folder)]
    with subprocess.Popen(
        command, cwd=CHECKOUT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        try:
            yield process
        finally:
            process.kill()


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


def test_settings_of_the_first_release_are_read(tmp_path: Path) -> None:
    file = SettingsFile(tmp_path)
    file.save(UNUSUAL)
    saved = json.loads(file.path.read_text(encoding="utf-8"))
    del saved["options"]["decoding"]["rows"], saved["options"]["decoding"]["same_text"]
    file.path.write_text(json.dumps(saved), encoding="utf-8")
    assert file.load() == UNUSUAL


def test_without_a_file_the_demo_model_is_chosen(tmp_path: Path) -> None:
    assert SettingsFile(tmp_path / "none").load() == Settings()
    assert Settings().model.name == DEMO_MODEL
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x00\x00\x00",
        b"\xff\xfe",
        b"null",
        b"[]",
        b"{}",
        b'{"model": {"name": ""}, "options": {}}',
        b'{"model": {"name": "demo"}, "options": {"stop": null}}',
        b'{"model": {"name": "demo", "from": "a later version"}, "options": {}}',
    ],
)
def test_a_broken_file_is_kept_aside_and_defaults_take_over(tmp_path: Path, content: bytes) -> None:
    file = SettingsFile(tmp_path)
    file.path.write_bytes(content)
    assert file.load() == Settings()
    assert (tmp_path / "settings.json.broken").read_bytes() == content
    file.save(UNUSUAL)
    assert file.load() == UNUSUAL


def test_impossible_values_count_as_broken(tmp_path: Path) -> None:
    file = SettingsFile(tmp_path)
    file.save(UNUSUAL)
    saved = json.loads(file.path.read_text(encoding="utf-8"))
    saved["options"]["max_new_tokens"] = 0
    file.path.write_text(json.dumps(saved), encoding="utf-8")
    assert file.load() == Settings()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows cannot limit the size of files")
def test_a_full_disk_is_told_and_leaves_the_old_settings(tmp_path: Path) -> None:
    file = SettingsFile(tmp_path)
    file.save(UNUSUAL)
    child = run_child(SAVE_ON_A_FULL_DISK, tmp_path)
    assert child.returncode == 1, child.stderr
    assert child.stderr.startswith(f"The settings could not be saved in {tmp_path}")
    assert "Free some disk space" in child.stderr and "Traceback" not in child.stderr
    assert file.load() == UNUSUAL
    assert [path.name for path in tmp_path.iterdir()] == ["settings.json"]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows cannot limit the size of files")
def test_a_full_disk_does_not_keep_the_app_from_starting(tmp_path: Path) -> None:
    child = run_child(START_ON_A_FULL_DISK, tmp_path)
    assert (child.returncode, child.stderr) == (0, "")


def test_a_data_folder_that_is_a_file_is_told(tmp_path: Path) -> None:
    taken = tmp_path / "data"
    taken.write_text("mine", encoding="utf-8")
    with pytest.raises(SettingsNotSaved, match="--data-dir"):
        SettingsFile(taken).save(Settings())
    with pytest.raises(SettingsNotSaved, match=r"cannot be used .*Choose another one with --data-dir"):
        DataFolder(taken).hold()
    assert taken.read_text(encoding="utf-8") == "mine"


def test_a_second_instance_is_told_where_the_first_one_runs(tmp_path: Path) -> None:
    with (
        another_instance(tmp_path),
        pytest.raises(DataFolderInUse, match=r"already running on .* \(at http://127\.0\.0\.1:7860\)"),
    ):
        DataFolder(tmp_path).hold()


def test_the_folder_is_free_when_its_holder_is_killed(tmp_path: Path) -> None:
    with another_instance(tmp_path) as holder:
        holder.kill()
        holder.wait()
        folder = DataFolder(tmp_path)
        folder.hold()
    try:
        assert not (tmp_path / "in-use.address").exists(), "the dead instance's address must not be named"
    finally:
        folder.release()


@pytest.mark.skipif(os.name != "posix", reason="on Windows the profile protects the folder")
def test_the_data_folder_and_all_in_it_is_its_owners_alone(tmp_path: Path) -> None:
    outside, place = tmp_path / "outside", tmp_path / "data"
    outside.write_text("Everybody's.")
    (place / "steps").mkdir(parents=True)
    (place / "steps" / "notes.json").touch()
    (place / "tool").touch()
    (place / "link").symlink_to(outside)
    for path, mode in ((outside, 0o644), (place, 0o777), (place / "steps", 0o755), (place / "tool", 0o755)):
        path.chmod(mode)
    folder = DataFolder(place)
    folder.hold()
    folder.announce("http://127.0.0.1:1/?token=secret")
    modes = {
        path.name: path.lstat().st_mode & 0o777 for path in (place, *place.rglob("*")) if path.name != "link"
    }
    folder.release()
    assert modes == {
        "data": 0o700, "steps": 0o700, "notes.json": 0o600, "tool": 0o700,
        "in-use.lock": 0o600, "in-use.address": 0o600,
    }  # fmt: skip
    assert outside.stat().st_mode & 0o777 == 0o644, "what a link leads to is not the folder's"


@pytest.mark.skipif(os.name != "posix", reason="on Windows the profile protects the folder")
def test_rights_that_cannot_be_changed_are_told_and_the_app_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    tmp_path.chmod(0o755)
    monkeypatch.setattr(Path, "chmod", refuse)
    folder = DataFolder(tmp_path)
    folder.hold()
    folder.release()
    assert "Other users of this machine can read the data folder" in caplog.text


def test_a_released_folder_can_be_held_again(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path)
    for _ in range(2):
        folder.hold()
        folder.announce("http://127.0.0.1:1")
        folder.release()
    with another_instance(tmp_path):
        assert (tmp_path / "in-use.address").exists()


def test_settings_are_values() -> None:
    assert replace(UNUSUAL, model=ModelChoice("demo")) != UNUSUAL
    assert hash(UNUSUAL) == hash(replace(UNUSUAL))


def test_the_shipped_files_are_found_from_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert (assets_dir() / "demo-model" / "config.json").exists()
    assert assets_dir().is_absolute()


def test_settings_that_cannot_be_opened_are_told_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "settings.json").mkdir()
    with pytest.raises(SettingsNotRead, match=r"settings.json cannot be read \(.*\)\. .* --data-dir"):
        SettingsFile(tmp_path).load()


def test_settings_of_the_first_version_have_no_library_and_are_read(tmp_path: Path) -> None:
    file = SettingsFile(tmp_path)
    file.save(Settings())
    saved = json.loads(file.path.read_text())
    del saved["library"]
    file.path.write_text(json.dumps(saved))
    assert file.load() == Settings()


def test_a_library_of_an_earlier_release_finds_by_meaning_with_the_usual_model(tmp_path: Path) -> None:
    file = SettingsFile(tmp_path)
    file.save(Settings(library=ModelSettings(is_offline=True)))
    saved = json.loads(file.path.read_text())
    del saved["library"]["embedder"]
    file.path.write_text(json.dumps(saved))
    assert file.load().library == ModelSettings(is_offline=True, embedder=DEFAULT_EMBEDDER)


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
        with pytest.raises(ValueError, match="got"):
            ModelSettings(**wrong)


LEFT_BEHIND = {
    "of a process that is another one now": ("1", "http://127.0.0.1:1"),
    "cut short": ("", "htt"),
    "no text": ("\0\xff", "\0\xff"),
    "empty": ("", ""),
}


@pytest.mark.parametrize(("lock", "address"), LEFT_BEHIND.values(), ids=LEFT_BEHIND.keys())
def test_what_a_dead_instance_left_keeps_nobody_from_starting(
    tmp_path: Path, lock: str, address: str
) -> None:
    (tmp_path / "in-use.lock").write_bytes(lock.encode("latin-1"))
    (tmp_path / "in-use.address").write_bytes(address.encode("latin-1"))
    folder = DataFolder(tmp_path)
    assert not folder.is_held()
    folder.hold()
    try:
        assert folder.running_at() == "", "the dead instance's address must not be named"
    finally:
        folder.release()


@pytest.mark.parametrize("content", [b"\xff\xfe\0", b"htt", b"http://[::1", b"http://127.0.0.1:no"])
def test_an_address_that_makes_no_sense_is_none(tmp_path: Path, content: bytes) -> None:
    with another_instance(tmp_path):
        (tmp_path / "in-use.address").write_bytes(content)
        with pytest.raises(DataFolderInUse, match=r"already running on .*Use that window") as seen:
            DataFolder(tmp_path).hold()
    assert "(at" not in str(seen.value)


def test_a_folder_that_is_gone_is_let_go_of(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path / "data")
    folder.hold()
    folder.announce("http://127.0.0.1:1")
    shutil.rmtree(tmp_path / "data")
    (tmp_path / "data").write_text("in the way", encoding="utf-8")
    folder.release()


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


def test_a_model_that_was_never_loaded_runs_where_the_others_do() -> None:
    settings = Settings(ModelChoice("a", "float32", "cpu", "int8", "sdpa", 64))
    assert settings.choice_of("new") == ModelChoice("new", device="cpu", attention="sdpa")
    assert settings.choice_of("a") == settings.model


def test_how_models_were_loaded_survives_the_file(tmp_path: Path) -> None:
    settings = Settings().with_loaded(ModelChoice("org/a", quantisation="int4", context=2048))
    SettingsFile(tmp_path).save(settings)
    assert SettingsFile(tmp_path).load() == settings
