"""The one command that checks everything: format, lint, types, tests. Stops at the first that fails."""

import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

CHECKS = (
    ("ruff", "format", "--check", "."),
    ("ruff", "check", "."),
    ("mypy",),
    # A file's tests stay together: they share models and pages.
    ("pytest", "-n", "auto", "--maxprocesses", "8", "--dist", "loadfile", "--no-loadscope-reorder"),
)
ROOT = Path(__file__).parent.parent


def run_all(checks: Sequence[Sequence[str]], folder: Path) -> int:
    """Run each check as a Python module in this folder; the first exit code that is not 0, or 0."""
    for check in checks:
        print("$ python -m", shlex.join(check), flush=True)  # noqa: T201
        if code := subprocess.run([sys.executable, "-m", *check], cwd=folder, check=False).returncode:
            print(f"failed: python -m {shlex.join(check)}", flush=True)  # noqa: T201
            return code
    return 0


if __name__ == "__main__":
    sys.exit(run_all(CHECKS, ROOT))
