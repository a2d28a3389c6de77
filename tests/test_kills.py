"""kill -9 at random moments of chatting loses nothing that was acknowledged. More of it: tools/kill_app.py."""

from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.support.app_kills import Killer
from tests.support.app_process import AppProcess
from tests.tiers import todays_seed

pytestmark = [pytest.mark.thorough, pytest.mark.browser]

TIMES = 5


def test_killed_while_chatting_the_app_keeps_what_was_said(browser: Any, tmp_path: Path) -> None:
    with AppProcess(tmp_path) as app:
        killer = Killer(browser, app, Random(todays_seed()))
        killer.prepare()
        kills = [killer.kill(number) for number in range(1, TIMES + 1)]
        assert [(kill.number, kill.faults) for kill in kills if kill.faults] == []
        assert killer.faults_at_the_end() == []
    assert any(kill.is_acknowledged for kill in kills)
