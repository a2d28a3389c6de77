"""The one command that checks everything: format, lint, types, tests. Stops at the first check that fails.

`--thorough` runs the tests marked `thorough`, too: all combinations of cases, and long runs of faults.
"""

import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

# One more than there are processors, because many tests wait for a server, a browser or a deadline.
WORKERS = min((os.cpu_count() or 1) + 1, 8)
CHECKS = (
    ("ruff", "format", "--check", "."),
    ("ruff", "check", "."),
    ("mypy", "--num-workers", "auto"),
    # A file's tests stay together, because they share models and pages.
    ("pytest", "-n", str(WORKERS), "--dist", "loadfile", "--no-loadscope-reorder"),
)
THOROUGH = "--thorough"
ROOT = Path(__file__).parent.parent
NO_BYTECODE = "PYTHONDONTWRITEBYTECODE"
"""Some containers set this variable. With it, each worker and each app of a test would compile all modules anew."""


def run_all(checks: Sequence[Sequence[str]], folder: Path) -> int:
    """Run each check as a Python module in this folder; return the first exit code that is not 0, or 0."""
    environment = {name: value for name, value in os.environ.items() if name != NO_BYTECODE}
    for check in checks:
        print("$ python -m", shlex.join(check), flush=True)
        command = [sys.executable, "-m", *check]
        if code := subprocess.run(command, cwd=folder, env=environment, check=False).returncode:
            print(f"failed: python -m {shlex.join(check)}", flush=True)
            return code
    return 0


def checks_for(arguments: Sequence[str]) -> list[tuple[str, ...]]:
    """Return the checks for this command line; the tests come last. Raises SystemExit for unknown arguments."""
    if unknown := [argument for argument in arguments if argument != THOROUGH]:
        sys.exit(f"tools.check knows {THOROUGH} and no other argument, not {' '.join(unknown)}.")
    *others, tests = CHECKS
    return [*others, (*tests, *arguments)]


if __name__ == "__main__":
    sys.exit(run_all(checks_for(sys.argv[1:]), ROOT))
