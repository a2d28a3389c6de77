"""No program, header or library of the current folder is taken for the system's."""

import os
import shutil
import sys
from ctypes import CDLL
from pathlib import Path

import pytest

from app.engine.machine.compiling import Source, compiled
from app.engine.machine.hardware import Gpu
from app.system.gpus import listed_gpus
from app.system.machine import machine_name
from app.system.programs import SEARCHED, answer_of, find_program, settled
from app.ui.settings.data import open_folder

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="programs are scripts here")
NAMES = (
    "nvidia-smi", "xdg-open", "open", "cc", "gcc", "clang", "as", "ld", "collect2", "sysctl",
    "update-desktop-database",
)  # fmt: skip


@pytest.fixture(params=[".", "", "./", "sub/.."])
def downloads(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, full of programs that tell when they are run; PATH leads there first."""
    folder = tmp_path / "Downloads"
    (folder / "sub").mkdir(parents=True)
    for name in NAMES:
        program = folder / name
        program.write_text(
            f"#!/bin/sh\necho {name} >> {tmp_path / 'ran'}\necho GPU-0, 0000:01:00.0, 1, 1, Fake\n",
            encoding="utf-8",
        )
        program.chmod(0o755)
    (folder / "math.h").write_text('#error "a header of the current folder"', encoding="utf-8")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PATH", f"{request.param}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("CPATH", f"{request.param}{os.pathsep}/usr/include")
    return folder


def test_a_program_is_taken_from_path_and_never_from_the_current_folder(
    downloads: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in NAMES:
        found = find_program(name)
        assert found is None or (Path(found).is_absolute() and Path(found).parent != downloads)
    if shutil.which("nvidia-smi", path=os.defpath) is None:
        assert listed_gpus() == [] and Gpu().name_by_driver() == ""
    machine_name("cuda:0")
    monkeypatch.setenv("PATH", os.environ["PATH"].partition(os.pathsep)[0])
    assert "Can't find a file manager" in open_folder(downloads / "sub")
    assert not (downloads.parent / "ran").exists()


@pytest.mark.skipif(sys.platform != "linux" or shutil.which("gcc") is None, reason="needs gcc")
def test_the_compiler_meets_no_header_and_no_assembler_of_the_current_folder(downloads: Path) -> None:
    source = downloads.parent / "half.c"
    source.write_text("#include <math.h>\nfloat half(float x) { return sqrtf(x) / 2; }\n", encoding="utf-8")
    made = compiled(Source(source, (), "slow"), CDLL, downloads.parent / "made")
    assert made.note == "" and made.library is not None
    assert not (downloads.parent / "ran").exists()


def test_variables_mean_the_same_in_every_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    given = {
        "PATH": os.pathsep.join((".", "bin", "", "/usr/bin")), "LD_LIBRARY_PATH": "", "HF_HOME": "models",
        "SSL_CERT_FILE": "/etc/ca.pem", "XDG_CACHE_HOME": "~/cache", "HF_HUB_CACHE": "", "EDITOR": "./vi",
    }  # fmt: skip
    found = settled(given)
    assert found["PATH"] == os.pathsep.join((str(tmp_path / "bin"), "/usr/bin"))
    assert found["HF_HOME"] == str(tmp_path / "models")
    same = ("LD_LIBRARY_PATH", "SSL_CERT_FILE", "XDG_CACHE_HOME", "HF_HUB_CACHE", "EDITOR")
    assert {name: found[name] for name in same} == {name: given[name] for name in same}
    assert found["PYTHONSAFEPATH"] == "1"
    assert settled(found) == found
    assert settled({"PATH": "."})["PATH"] == os.defpath, "an empty one would mean the current folder"


def test_a_current_folder_that_is_gone_is_searched_for_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    given = {name: os.pathsep.join((".", "lib", "/usr/lib")) for name in SEARCHED}
    assert {settled(given)[name] for name in SEARCHED} == {"/usr/lib"}


def test_a_program_that_is_missing_fails_or_takes_too_long_answers_nothing() -> None:
    assert (
        answer_of("no-such-program-here") == answer_of("false") == answer_of("sleep", "9", seconds=0.1) == ""
    )
    assert answer_of("echo", "eggs") == "eggs\n"
