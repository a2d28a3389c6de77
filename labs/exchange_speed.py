"""Measures how long a message to each rank and its answer take; a step of several ranks takes this much longer.

The ranks are processes of this machine, as `--devices cpu,cpu` starts them, without a model.
"""

import argparse
import json
import os
from contextlib import ExitStack
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory

from torch.distributed import FileStore  # type: ignore[attr-defined]

from app.commands.console import print_text
from app.engine.parallel.link import connect
from app.system.child_process import ChildProcess

STARTING = 120.0
"""Seconds that a process may take to import torch."""


def main() -> None:
    """Print the median time for each number of ranks, and the range without the lowest and the highest tenth."""
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m labs.exchange_speed")
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--exchanges", type=int, default=1000)
    options = parser.parse_args()
    for size in options.ranks:
        times = [seconds * 1e3 for seconds in exchanges(size, options.exchanges)]
        least, *_, most = quantiles(times, n=10)
        print_text(f"{size} ranks: median {median(times):.3f} ms, {least:.3f} to {most:.3f}")
    print_text(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")


def exchanges(size: int, count: int) -> list[float]:
    """Measure a number of exchanges between connected ranks."""
    with TemporaryDirectory() as folder, ExitStack() as opened:
        place = str(Path(folder) / "store")
        for rank in range(1, size):
            child = opened.enter_context(ChildProcess("app.engine.parallel.rank_server"))
            wanted = {"store": place, "rank": rank, "size": size}
            if not child.ask(json.dumps(wanted).encode() + b"\n", STARTING):
                raise SystemExit(f"Rank {rank} did not start.")
        link = connect(FileStore(place, size), 0, size)
        opened.callback(link.close)
        return [link.ping() for _ in range(count)]


if __name__ == "__main__":
    main()
