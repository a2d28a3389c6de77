"""Other Python processes of a test: a script that runs to its end, and an app that holds a data folder."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]
HOLD = """
import sys
from pathlib import Path
from app.database.data_folder import DataFolder
folder = DataFolder(Path(sys.argv[1]))
folder.hold()
if len(sys.argv) > 2:
    folder.announce(sys.argv[2])
print("held", flush=True)
sys.stdin.read()
folder.release()
"""


def run_python(script: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a script in the checkout, and return what came of it."""
    return subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)],
        cwd=CHECKOUT, capture_output=True, encoding="utf-8", check=False, timeout=300,
    )  # fmt: skip


@contextmanager
def another_instance(folder: Path, *address: str) -> Iterator["subprocess.Popen[str]"]:
    """A second process that holds the folder until it is killed or its input ends."""
    command = [sys.executable, "-c", HOLD, str(folder), *address]
    with subprocess.Popen(
        command, cwd=CHECKOUT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        try:
            yield process
        finally:
            process.kill()
