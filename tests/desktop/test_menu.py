"""Menu entries: what would be written on each system, and what is written on this one."""

import plistlib
import shlex
import stat
import subprocess
import sys
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import pytest
from PIL import Image

from app.desktop.menu import (
    Launch,
    MenuEntry,
    MenuFile,
    desktop_file,
    icns,
    ico,
    install,
    make_entry,
    make_launch,
    quoted,
    shortcut_script,
    uninstall,
)
from app.errors import MenuNotWritten

PNG = b"\x89PNG picture"
COMMAND = ("/opt/my python/bin/python", "/home/o'neil/run.py", "--native")
LAUNCH = Launch(COMMAND, b"<svg/>", PNG)
HOME = Path("/home/o'neil")


def test_the_command_of_a_desktop_file_survives_its_quoting() -> None:
    file = desktop_file(COMMAND, Path("/icons/foresight.svg"))
    line = next(line for line in file.splitlines() if line.startswith("Exec="))
    assert tuple(shlex.split(line.removeprefix("Exec="))) == COMMAND
    assert "Terminal=false" in file and "Icon=/icons/foresight.svg" in file


@pytest.mark.parametrize(
    ("word", "written"),
    [("a b", '"a b"'), ("100%", '"100%%"'), ('say "hi"', r'"say \\"hi\\""'), ("$HOME", r'"\\$HOME"')],
)
def test_what_a_shell_would_take_is_escaped(word: str, written: str) -> None:
    assert quoted(word) == written


def test_linux_follows_the_data_folder_that_is_given_and_no_relative_one() -> None:
    def places(given: str) -> list[Path]:
        return [file.path for file in make_entry(LAUNCH, "linux", HOME, {"XDG_DATA_HOME": given}).files]

    assert places("/data")[1] == Path("/data/applications/foresight.desktop")
    assert places("relative") == places("")
    assert places("")[1] == HOME / ".local/share/applications/foresight.desktop"


def test_the_shortcut_of_windows_is_made_by_one_script_with_every_word_quoted() -> None:
    script = shortcut_script(
        ("C:\\my python\\pythonw.exe", "C:\\o'neil\\run.py"), Path("/menu/F.lnk"), Path("/f.ico")
    )
    assert "TargetPath = 'C:\\my python\\pythonw.exe'" in script
    assert "Arguments = 'C:\\o''neil\\run.py'" in script
    assert script.endswith("$link.Save()")


def test_windows_puts_it_into_the_persons_own_start_menu() -> None:
    entry = make_entry(LAUNCH, "win32", HOME, {"APPDATA": "/roaming", "LOCALAPPDATA": "/local"})
    assert entry.made == (Path("/roaming/Microsoft/Windows/Start Menu/Programs/Foresight.lnk"),)
    assert [file.path for file in entry.files] == [Path("/local/foresight/foresight.ico")]
    assert entry.commands[0][0] == "powershell"


def test_the_application_of_macos_has_what_its_system_asks_for() -> None:
    entry = make_entry(LAUNCH, "darwin", HOME, {})
    files = {file.path.name: file for file in entry.files}
    properties = plistlib.loads(files["Info.plist"].content)
    assert properties["CFBundleExecutable"] == "foresight" and properties["CFBundlePackageType"] == "APPL"
    assert files["foresight"].is_program
    assert tuple(shlex.split(files["foresight"].content.decode().splitlines()[1])[1:]) == COMMAND
    assert files["foresight"].path.parent.name == "MacOS"


@pytest.mark.parametrize("wrap", [ico, icns])
def test_icons_are_read_as_the_picture_that_was_wrapped(wrap: Callable[[bytes], bytes]) -> None:
    png = make_launch(is_native=False).png
    with Image.open(BytesIO(wrap(png))) as icon, Image.open(BytesIO(png)) as picture:
        assert icon.convert("RGBA").tobytes() == picture.convert("RGBA").tobytes()


def test_an_entry_is_written_and_removed_and_both_are_told(tmp_path: Path) -> None:
    program = MenuFile(tmp_path / "bundle" / "start", b"#!/bin/sh\n", is_program=True)
    entry = MenuEntry((program,), "Applications", folder=tmp_path / "bundle")
    assert list(install(entry)) == [f"Wrote {program.path}", "Foresight is now in Applications."]
    assert sys.platform == "win32" or program.path.stat().st_mode & stat.S_IXUSR
    assert list(uninstall(entry)) == [f"Removed {program.path}", "Foresight is no longer in the menu."]
    assert not (tmp_path / "bundle").exists()
    assert list(uninstall(entry)) == ["Foresight was not in the menu."]


@pytest.mark.parametrize(
    ("platform", "name", "content"),
    [
        ("linux", ".local/share/applications/foresight.desktop", "[Desktop Entry]\nName=Foresight Linux\n"),
        ("linux", ".local/share/icons/hicolor/scalable/apps/foresight.svg", "<svg>another</svg>"),
        ("darwin", "Applications/Foresight.app/Contents/Info.plist", "<plist>com.weather.foresight</plist>"),
        ("darwin", "Applications/Foresight.app/Contents/MacOS/foresight", "#!/bin/sh\nexec weather\n"),
    ],
)
def test_an_entry_of_another_program_is_neither_overwritten_nor_removed(
    tmp_path: Path, platform: str, name: str, content: str
) -> None:
    entry = make_entry(LAUNCH, platform, tmp_path, {})
    (tmp_path / name).parent.mkdir(parents=True)
    (tmp_path / name).write_text(content, encoding="utf-8")
    with pytest.raises(MenuNotWritten, match=r"belongs to another program: move or rename it"):
        list(install(entry))
    assert list(uninstall(entry)) == ["Foresight was not in the menu."]
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [tmp_path / name]
    assert (tmp_path / name).read_text(encoding="utf-8") == content


@pytest.mark.parametrize("platform", ["linux", "darwin"])
def test_an_own_entry_with_another_icon_or_command_is_renewed_and_what_others_put_beside_it_stays(
    tmp_path: Path, platform: str
) -> None:
    older = Launch(("/old/python", "/old/run.py"), b"<svg>older</svg>", b"\x89PNG older")
    list(install(make_entry(older, platform, tmp_path, {})))
    entry = make_entry(LAUNCH, platform, tmp_path, {})
    list(install(entry))
    assert all(file.path.read_bytes() == file.content for file in entry.files)
    note = entry.files[0].path.with_name("note.txt")
    note.touch()
    assert list(uninstall(entry))[-1] == "Foresight is no longer in the menu."
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [note]


def test_a_folder_that_cannot_be_made_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    entry = MenuEntry((MenuFile(tmp_path / "file" / "entry", b""),), "your applications")
    with pytest.raises(MenuNotWritten, match="cannot be written"):
        list(install(entry))


@pytest.mark.parametrize(("made", "is_told"), [((), False), ((Path("/menu/x.lnk"),), True)])
def test_a_command_that_fails_is_told_where_the_entry_hangs_on_it(
    made: tuple[Path, ...], is_told: bool
) -> None:
    entry = MenuEntry((), "the Start menu", commands=(("no-such-program-here",),), made=made)
    if is_told:
        with pytest.raises(MenuNotWritten, match="no-such-program-here could not make the entry"):
            list(install(entry))
    else:
        assert list(install(entry)) == ["Foresight is now in the Start menu."]


def test_what_is_started_is_this_very_app() -> None:
    launch = make_launch(is_native=True)
    done = subprocess.run(
        [*launch.command, "--help"], capture_output=True, text=True, check=True, timeout=300
    )
    assert "Foresight: chat with a local language model" in done.stdout
    assert launch.png.startswith(b"\x89PNG") and launch.svg.startswith(b"<svg")
