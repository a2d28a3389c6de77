"""A library is compiled once into the cache; without a compiler, or with a broken one, a note says what to do."""

import platform
from ctypes import CDLL
from pathlib import Path
from threading import Event

import pytest

from app.engine import cpu_kernels
from app.engine.lookahead import native_drafter
from app.engine.machine.compiling import Compiled, Source, compile_ahead, compiled, once
from app.system.programs import Which

on_linux = pytest.mark.skipif(platform.system() != "Linux", reason="libraries are compiled on Linux alone")
BOTH = pytest.mark.parametrize("source", [cpu_kernels.SOURCE, native_drafter.SOURCE])


def library(source: Source, folder: Path, which: Which | None = None) -> Compiled[CDLL]:
    return compiled(source, CDLL, folder, which) if which else compiled(source, CDLL, folder)


def test_a_library_is_compiled_once(tmp_path: Path) -> None:
    if cpu_kernels.cpu_kernels() is None:
        pytest.skip("there is no C compiler here")
    source = native_drafter.SOURCE
    found = library(source, tmp_path)
    assert found.library is not None and found.note == ""
    (file,) = tmp_path.iterdir()
    made = file.stat().st_mtime_ns
    assert library(source, tmp_path).library is not None
    assert [each.stat().st_mtime_ns for each in tmp_path.iterdir()] == [made]


@on_linux
@BOTH
def test_without_a_compiler_a_note_says_what_takes_longer_and_what_to_install(
    source: Source, tmp_path: Path
) -> None:
    reason = "no C compiler was found: install gcc, then restart Foresight"
    assert library(source, tmp_path, lambda _name: None) == (None, f"{source.otherwise}, because {reason}.")
    assert " longer" in source.otherwise or " as long" in source.otherwise


@on_linux
@BOTH
def test_a_compiler_that_fails_is_named_and_leaves_nothing_behind(source: Source, tmp_path: Path) -> None:
    missing, note = library(source, tmp_path, lambda _name: "/bin/false")
    assert missing is None and not list(tmp_path.iterdir())
    assert note.endswith(", because /bin/false failed: install gcc and libc6-dev, then restart Foresight.")


@on_linux
def test_a_cache_that_cannot_be_written_costs_the_library_alone(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    missing, note = library(cpu_kernels.SOURCE, tmp_path / "file" / "kernels")
    assert missing is None and str(tmp_path / "file" / "kernels") in note


def test_who_asks_while_a_library_is_compiled_waits_for_the_same_one() -> None:
    is_begun, may_end = Event(), Event()
    notes: list[str] = []

    @once
    def find() -> Compiled[CDLL]:
        notes.append("compiled")
        is_begun.set()
        assert may_end.wait(300)
        return Compiled(None, f"call {len(notes)}")

    compile_ahead(find)
    assert is_begun.wait(300)
    may_end.set()
    assert find().note == find().note == "call 1"
    assert notes == ["compiled"]
