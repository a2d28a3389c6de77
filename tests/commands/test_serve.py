"""`serve` as a stranger types it."""

import os
import signal
import subprocess
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from app.api.key import KeyFile
from tests.commands.typed import CHECKOUT, command, typed


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--api-key", "x", "--no-key"), "Choose one of"),
        (("--host", "0.0.0.0", "--no-key"), "a key is needed"),
        (("--api-key", " "), "is empty"),
        (("--model", " "), "Model must be"),
    ],
)
def test_what_cannot_be_is_said_in_a_sentence(tmp_path: Path, words: tuple[str, ...], sentence: str) -> None:
    done = typed("serve", "--data-dir", tmp_path, *words)
    assert done.returncode == 2 and sentence in done.stderr


def test_it_prints_where_it_is_and_its_key_and_ends_with_ctrl_c(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT), "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(
        command("serve", "--data-dir", tmp_path, "--port", "8731"),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=CHECKOUT, env=environment,
    )  # fmt: skip
    try:
        assert process.stdout
        lines = [process.stdout.readline() for _ in range(3)]
        url = next(line for line in lines if "The API is at" in line).split()[-1]
        key = KeyFile(tmp_path).read()
        assert any(key in line for line in lines)
        with urlopen(Request(f"{url}/models", headers={"Authorization": f"Bearer {key}"})) as answer:
            assert answer.status == 200
        with pytest.raises(HTTPError, match="401"):
            urlopen(f"{url}/models")
    finally:
        process.send_signal(signal.SIGINT)
        try:
            _, complaints = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 0 and "Traceback" not in complaints
