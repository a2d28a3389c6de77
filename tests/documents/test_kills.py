"""kill -9 while documents are indexed loses nothing, leaves nothing half. More of it: tools/kill_documents.py."""

from pathlib import Path
from random import Random

from tools.kill_documents import Killer

TIMES = 5


def test_killed_while_indexing_it_goes_on_to_the_same_passages(tmp_path: Path) -> None:
    killer = Killer(tmp_path, Random(7))
    kills = [killer.kill(number) for number in range(TIMES)]
    assert [(kill.number, kill.faults) for kill in kills if kill.faults] == []
    assert any(kill.ready < kill.taken for kill in kills)
