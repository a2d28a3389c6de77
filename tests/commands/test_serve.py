"""`serve` as a stranger types it."""

import os
import signal
import subprocess
from dataclasses import replace
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from app.api.key import KeyFile
from app.commands.serve import chosen_model
from app.messages import ModelChoice
from app.settings import Settings
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


def test_without_a_model_the_apps_is_served_as_it_was_loaded_but_for_what_is_given() -> None:
    app = Settings(ModelChoice("org/a", "bfloat16", "cpu", "int4", context=2048, draft_model="org/b"))
    nothing = dict.fromkeys(("dtype", "device", "quantisation", "draft_model"))
    assert chosen_model(app, None, nothing) == app.model
    assert chosen_model(app, None, {**nothing, "dtype": "float32"}) == replace(app.model, dtype="float32")
    given = {**nothing, "quantisation": "none", "draft_model": ""}
    assert chosen_model(app, None, given) == replace(app.model, quantisation="none", draft_model="")
    assert chosen_model(app, "org/c", {**nothing, "dtype": "float32"}) == ModelChoice("org/c", "float32")


def started(folder: Path, *words: str) -> subprocess.Popen[str]:
    """`serve`, running."""
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT), "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
    return subprocess.Popen(
        command("serve", "--data-dir", folder, *words),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=CHECKOUT, env=environment,
    )  # fmt: skip


def test_why_a_model_was_not_loaded_is_told_while_the_api_goes_on(tmp_path: Path) -> None:
    missing = tmp_path / "none"
    process = started(tmp_path, "--model", str(missing), "--port", "8751")
    try:
        assert process.stderr
        told = process.stderr.readline()
        assert told == f"Error: The folder {missing} does not exist: check the path.\n"
        assert process.poll() is None
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.communicate(timeout=60)
        finally:
            process.kill()


def test_it_prints_where_it_is_and_its_key_and_ends_with_ctrl_c(tmp_path: Path) -> None:
    process = started(tmp_path, "--port", "8731")
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
