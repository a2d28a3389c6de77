"""kill -9 while documents are indexed loses nothing and leaves nothing half. More: tools/kill_documents.py."""

from pathlib import Path
from random import Random

import pytest

from tests.support.document_kills import Killer
from tests.tiers import todays_seed


@pytest.mark.parametrize("times", [1, pytest.param(20, marks=pytest.mark.thorough)])
def test_killed_while_indexing_it_goes_on_to_the_same_passages(times: int, tmp_path: Path) -> None:
    killer = Killer(tmp_path, Random(todays_seed()))
    kills = [killer.kill(number) for number in range(times)]
    assert [(kill.number, kill.faults) for kill in kills if kill.faults] == []
    if times > 1:
        assert any(kill.ready < kill.taken for kill in kills)
