"""Kills the app (kill -9) at random moments while it chats, indexes and downloads (tests/support/app_kills.py)."""

import argparse
import sys
import tempfile
from pathlib import Path
from random import Random

from tests.support.app_kills import MOST_KILLS, Kill, Killer, downloading
from tests.support.soak_parts import running_chromium


def main() -> None:
    """Kill the app until `--times` kills have each hit both a reply and the download; print a line for each kill,
    and the totals. Gives up after MOST_KILLS times as many kills."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--times", type=int, default=50, help="number of kills that must hit a reply and the download"
    )
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    with (
        downloading(Path(tempfile.mkdtemp()), chosen.times) as (app, download),
        running_chromium() as chromium,
    ):
        killer = Killer(chromium, app, Random(chosen.seed), download)
        killer.prepare()
        kills: list[Kill] = []
        while sum(one.meets_both for one in kills) < chosen.times and len(kills) < MOST_KILLS * chosen.times:
            kills.append(_printed(killer.kill(len(kills) + 1)))
        at_the_end = killer.faults_at_the_end()
    print(_summary(kills), f"at the end: {'; '.join(at_the_end) or 'all there'}", sep="; ")
    is_right = sum(one.meets_both for one in kills) >= chosen.times and not any(one.faults for one in kills)
    sys.exit(not is_right or bool(at_the_end))


def _summary(kills: list[Kill]) -> str:
    counts = {
        "kills": len(kills),
        "after the question was acknowledged": sum(one.is_acknowledged for one in kills),
        "with a reply cut": sum(one.cuts_reply for one in kills),
        "with the download cut": sum(one.downloaded > 0 for one in kills),
        "with both": sum(one.meets_both for one in kills),
        "while documents were indexed": sum(one.indexing > 0 for one in kills),
        "with something missing or broken": sum(bool(one.faults) for one in kills),
    }
    return ", ".join(f"{count} {what}" for what, count in counts.items())


def _printed(kill: Kill) -> Kill:
    print(
        f"{kill.number:3} after {kill.after:.2f} s, {'acknowledged' if kill.is_acknowledged else 'not seen'}, "
        f"{len(kill.due)} characters due, {len(kill.kept)} kept, {kill.state or 'no chat'}, "
        f"{kill.downloaded:,} bytes downloaded in the last second, {kill.indexing} documents not ready "
        f"{'; '.join(kill.faults)}",
        flush=True,
    )
    return kill


if __name__ == "__main__":
    main()
