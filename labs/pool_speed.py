"""Measures the time of a lookup and of an update of lookahead's n-gram pool, from a thousand tokens to a million.

    python -m labs.pool_speed

The pool grows from one random text; at each size the same number of contexts is looked up, drafted from and stored.
Prints medians in microseconds, and the memory of the table.
"""

import argparse
from collections.abc import Callable
from itertools import count
from random import Random
from statistics import median
from time import perf_counter

from app.engine.lookahead.acceptance_estimator import AcceptanceEstimator
from app.engine.lookahead.context_table import LONGEST, ContextTable
from app.engine.lookahead.model_statistics import LARGE_BITS
from app.engine.lookahead.native_drafter import best_drafter
from app.engine.lookahead.ngram_pool import Pool

VOCABULARY = 32_000
SIZES = (1_000, 10_000, 100_000, 1_000_000)
REPEATS = 2_000


def main() -> None:
    argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0]).parse_args()
    source = Random(0)
    # Roughly Zipf's law: few tokens make up most of a text, so that contexts recur.
    text = [min(int(source.paretovariate(0.6)), VOCABULARY - 1) for _ in range(SIZES[-1])]
    table = ContextTable(VOCABULARY, LARGE_BITS)
    pool = Pool(table, AcceptanceEstimator(), make_drafter=best_drafter())
    print(f"table: {table.rows.nbytes / 2**20:.0f} MiB")
    print("| tokens learned | lookup | guesses of one context | tree of 32 rows | learning one token |")
    print("|---|---|---|---|---|")
    done = 0
    for size in SIZES:
        for end in range(done + 1, size - REPEATS, 4096):
            stop = min(end + 4096, size - REPEATS)
            pool.learn(text[max(end - LONGEST, 0) : stop], stop - end, "document")
        print(f"| {size:,} | " + " | ".join(_costs(pool, table, text, size)) + " |", flush=True)
        done = size


def _costs(pool: Pool, table: ContextTable, text: list[int], size: int) -> list[str]:
    source, places = Random(size), count(size - REPEATS)

    def context() -> list[int]:
        end = source.randrange(LONGEST, size)
        return text[end - LONGEST : end]

    def learn() -> None:
        end = next(places)
        pool.learn(text[end - LONGEST : end + 1], 1, "document")

    return [
        _microseconds(lambda: table.lookup(context())),
        _microseconds(lambda: pool.edges(context(), 0)),
        _microseconds(lambda: pool.draft(context(), 32, 16, 1e-4)),
        _microseconds(learn),
    ]


def _microseconds(act: Callable[[], object]) -> str:
    times = []
    for _ in range(REPEATS):
        began = perf_counter()
        act()
        times.append(perf_counter() - began)
    return f"{1e6 * median(times):.1f} us"


if __name__ == "__main__":
    main()
