"""`serve` as a stranger types it."""

import os
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from app.api.key import KeyFile
from app.commands.serve import chosen_model
from app.conversation import Reply
from app.errors import ServerError
from app.messages import Failed, Message, ModelChoice, Options, Piece, Request, Sampling
from app.remote import Servers
from app.settings import Settings
from tests.commands.typed import CHECKOUT, command, typed
from tests.engine.asking import Watched


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


@pytest.fixture
def process(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """The server as a process of its own, which ends with the test."""
    process = started(tmp_path, "--port", "8731")
    yield process
    process.kill()
    process.communicate()


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


def announced(process: subprocess.Popen[str]) -> str:
    """What it prints once it answers."""
    assert process.stdout
    return "".join(process.stdout.readline() for _ in range(3))


def address_in(announcement: str) -> str:
    return next(line for line in announcement.splitlines() if "The API is at" in line).split()[-1]


def test_it_prints_where_it_is_and_its_key_lists_its_models_for_a_page_and_ends_with_ctrl_c(
    process: subprocess.Popen[str], tmp_path: Path
) -> None:
    lines, key = announced(process), KeyFile(tmp_path).read()
    url, servers = address_in(lines), Servers(tmp_path)
    assert key in lines
    with pytest.raises(HTTPError, match="401"):
        urlopen(f"{url}/models")
    with pytest.raises(ServerError, match=r"refused the key \(401\)"):
        servers.add(url, "wrong")
    assert servers.add(url, key).models == ("demo",)
    process.send_signal(signal.SIGINT)
    _, complaints = process.communicate(timeout=60)
    assert process.returncode == 0 and "Traceback" not in complaints


@pytest.mark.thorough
def test_a_page_that_asks_it_has_a_sentence_when_it_is_killed_in_mid_reply(
    process: subprocess.Popen[str], tmp_path: Path
) -> None:
    url, servers = address_in(announced(process)), Servers(tmp_path)
    asked = ModelChoice(servers.add(url, KeyFile(tmp_path).read()).models[0], server=url)
    rambling = Options(Sampling(temperature=2.0, seed=1), max_new_tokens=900)
    cut = Watched(Piece, lambda _reply: process.kill())
    servers.submit(Request(asked, (Message("user", "Talk"),), rambling), cut)
    *pieces, end = cut.events()
    assert isinstance(pieces[-1], Piece) and pieces[-1].text
    assert end == Failed(
        f"The connection to {url.split('/')[2]} broke before the reply was complete. Try again."
    )
    gone = Reply()
    servers.submit(Request(asked, (Message("user", "Talk"),)), gone)
    assert "Check the address, and that the server is running." in str([*gone.events()][-1])
