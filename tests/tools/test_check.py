"""The one check command."""

from pathlib import Path

import pytest

from tools.check import CHECKS, checks_for, run_all

OK = ("compileall", "-q", "--help")
NO_SUCH = ("no_such_module_anywhere",)


def test_it_stops_at_the_first_failure_with_its_exit_code(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run_all([OK, NO_SUCH, OK], tmp_path) == 1
    said = [line for line in capfd.readouterr().out.splitlines() if line.startswith(("$", "failed"))]
    assert said == [
        "$ python -m compileall -q --help",
        "$ python -m no_such_module_anywhere",
        "failed: python -m no_such_module_anywhere",
    ]


def test_compiled_modules_are_kept_even_where_the_environment_says_no(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "kept.py").write_text("import sys\n\nsys.exit(sys.dont_write_bytecode)\n")
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    assert run_all([("kept",)], tmp_path) == 0


def test_thorough_goes_to_the_tests_alone() -> None:
    assert checks_for([]) == list(CHECKS)
    assert checks_for(["--thorough"]) == [*CHECKS[:-1], (*CHECKS[-1], "--thorough")]


def test_an_unknown_argument_is_named() -> None:
    with pytest.raises(SystemExit, match="not --fast"):
        checks_for(["--fast"])
