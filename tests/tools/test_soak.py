"""The long soak, with laps of a tiny model on this CPU."""

from dataclasses import replace
from pathlib import Path

import pytest

from app.engine.gpu_report.gauge import CpuGauge
from tests.engine.gpu_report.tiny_plan import with_model
from tests.engine.tiny import write_tiny
from tools.soak import run


class Leaky(CpuGauge):
    """Has 5 bytes more in use whenever it is asked."""

    def __init__(self) -> None:
        self.bytes = 0

    def used(self) -> int:
        self.bytes += 5
        return self.bytes


def test_what_every_lap_leaves_behind_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = replace(with_model(write_tiny(tmp_path).path), soak_seconds=0.01)
    assert run(plan, Leaky()) == 5
    assert [line.split(", ")[1] for line in capsys.readouterr().out.splitlines()] == [
        "lap 1: 5 bytes",
        "lap 2: 10 bytes",
    ]
