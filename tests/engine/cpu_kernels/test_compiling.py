"""The kernels are compiled once into the cache; without a compiler, or with a broken one, torch's stay."""

from pathlib import Path

import pytest

from app.engine.cpu_kernels.compiling import cpu_kernels, load_kernels


def test_kernels_are_compiled_once(tmp_path: Path) -> None:
    if cpu_kernels() is None:
        pytest.skip("there is no C compiler here")
    assert load_kernels(tmp_path) is not None
    (file,) = tmp_path.iterdir()
    made = file.stat().st_mtime_ns
    assert load_kernels(tmp_path) is not None
    assert [each.stat().st_mtime_ns for each in tmp_path.iterdir()] == [made]


def test_without_a_compiler_there_are_none(tmp_path: Path) -> None:
    assert load_kernels(tmp_path, lambda _name: None) is None


def test_a_compiler_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    assert load_kernels(tmp_path, lambda _name: "/bin/false") is None
    assert not list(tmp_path.iterdir())


def test_a_cache_that_cannot_be_written_costs_the_kernels_alone(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert load_kernels(tmp_path / "file" / "kernels") is None
