"""The soak, with laps of a tiny model on this CPU."""

from itertools import count
from pathlib import Path

import pytest

from app.values.messages import ModelChoice
from tests.engine.tiny import write_tiny
from tools.soak import run


def test_what_every_lap_leaves_behind_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    choices = [ModelChoice(str(write_tiny(tmp_path).path), "float32", "cpu")]
    leak = count(5, 5)
    assert run(choices, 0.01, lambda: next(leak)) == 5
    first, second = capsys.readouterr().out.splitlines()
    happened = "; 3 replies (2 stopped), 1 interrupted; "
    assert first.startswith(f"lap 1: 5 bytes{happened}") and second.startswith(f"lap 2: 10 bytes{happened}")
