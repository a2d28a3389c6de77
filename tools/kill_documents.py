"""Kills a process that indexes documents, and reports what is missing then (tests/support/document_kills.py)."""

import argparse
import sys
import tempfile
from pathlib import Path
from random import Random

from tests.support.document_kills import Kill, Killer


def main() -> None:
    """Kill `--times` times; print a line for each kill, and the totals."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        killer = Killer(Path(folder), Random(chosen.seed))
        kills = [_printed(killer.kill(number)) for number in range(1, chosen.times + 1)]
    print(
        f"{len(kills)} kills of a process that ran, "
        f"{sum(one.ready < one.taken for one in kills)} with work left, "
        f"{sum(bool(one.faults) for one in kills)} with something missing or broken"
    )
    sys.exit(any(one.faults for one in kills))


def _printed(kill: Kill) -> Kill:
    print(
        f"{kill.number:3} after {kill.after:.2f} s: {kill.taken} documents accepted, {kill.ready} ready "
        + "; ".join(kill.faults),
        flush=True,
    )
    return kill


if __name__ == "__main__":
    main()
