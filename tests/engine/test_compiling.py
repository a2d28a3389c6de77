"""A library is compiled once into the cache; without a compiler, or with a broken one, there is none."""

from ctypes import CDLL
from pathlib import Path

import pytest

from app.engine.compiling import Source, Which, compiled
from app.engine.cpu_kernels import loading
from app.engine.lookahead import native_drafter

BOTH = pytest.mark.parametrize("source", [loading.SOURCE, native_drafter.SOURCE])


def library(source: Source, folder: Path, which: Which | None = None) -> CDLL | None:
    return compiled(source, CDLL, folder, which) if which else compiled(source, CDLL, folder)


@BOTH
def test_a_library_is_compiled_once(source: Source, tmp_path: Path) -> None:
    if loading.cpu_kernels() is None:
        pytest.skip("there is no C compiler here")
    assert library(source, tmp_path) is not None
    (file,) = tmp_path.iterdir()
    made = file.stat().st_mtime_ns
    assert library(source, tmp_path) is not None
    assert [each.stat().st_mtime_ns for each in tmp_path.iterdir()] == [made]


@BOTH
def test_without_a_compiler_there_is_none(source: Source, tmp_path: Path) -> None:
    assert library(source, tmp_path, lambda _name: None) is None


@BOTH
def test_a_compiler_that_fails_leaves_nothing_behind(source: Source, tmp_path: Path) -> None:
    assert library(source, tmp_path, lambda _name: "/bin/false") is None
    assert not list(tmp_path.iterdir())


def test_a_cache_that_cannot_be_written_costs_the_library_alone(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert library(loading.SOURCE, tmp_path / "file" / "kernels") is None
