"""The soak of `bench --gpu-report`, for as long as one likes: does a card end with the memory it began with?

    python -m tools.soak --minutes 10

One line after each lap; the exit code is 1 where the last lap ends with more bytes in use than the first.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from app.engine.gpu_report.gauge import Gauge, make_gauge
from app.engine.gpu_report.plan import Plan
from app.engine.gpu_report.report import check_device
from app.engine.gpu_report.soak import soak
from app.errors import AppError
from app.settings import assets_dir


def run(plan: Plan, gauge: Gauge) -> int:
    """Print what is in use after each lap; how many bytes the last one has above the first."""
    used = [0]
    for finding in soak(plan, gauge):
        used = finding.numbers["used_bytes"]
        print(f"{finding.numbers['seconds']:.0f} s, lap {len(used)}: {used[-1]:,} bytes", flush=True)  # noqa: T201
    return used[-1] - used[0]


def main(arguments: Sequence[str] | None = None) -> None:
    """Soak and tell."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--model", type=Path, action="append", help="a folder; the demo model without it")
    given = parser.parse_args(arguments)
    folders = tuple(given.model or [assets_dir() / "demo-model"])
    plan = Plan(device=given.device, soak_folders=folders, soak_seconds=60 * given.minutes)
    try:
        check_device(plan)
        more = run(plan, make_gauge(plan.device))
    except AppError as error:
        sys.exit(str(error))
    print(f"{more:+,} bytes from the first lap to the last")  # noqa: T201
    sys.exit(more > 0)


if __name__ == "__main__":
    main()
