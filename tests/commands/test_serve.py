"""`serve` as a stranger types it."""

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from app.api.api_key import KeyFile, accepts
from app.commands.serve import KEY_VARIABLE, chosen_key, chosen_model
from app.conversation import Reply
from app.errors import ServerError
from app.remote import Servers
from app.settings import Settings
from app.values.messages import Failed, Message, ModelChoice, Options, Piece, Request, Sampling
from tests.commands.typed import CHECKOUT, command, typed
from tests.engine.asking import Watched
from tests.support.app_process import free_port

FOLDER = b"a folder in place of the file"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--api-key", "x", "--no-key"), "Choose one of --api-key and --no-key."),
        (("--api-key", "x", "--api-key-file", "y"), "Choose one of --api-key and --api-key-file."),
        (("--api-key-file", "y", "--no-key"), "Choose one of --api-key-file and --no-key."),
        (("--api-key", "two words"), "has characters that a key cannot have"),
        (("--api-key", "one\ntwo"), "has several lines"),
        (("--api-key", "k" * 5000), "is too long: use up to 4,096"),
        (("--host", "0.0.0.0", "--no-key"), "a key is needed"),
        (("--api-key", " "), "is empty"),
        (("--allow-origin", "localhost"), "is not an origin"),
        (("--allow-origin", "http://*"), "is not an origin"),
        (("--model", " "), "Model must be"),
    ],
)
def test_what_cannot_be_is_said_in_a_sentence(tmp_path: Path, words: tuple[str, ...], sentence: str) -> None:
    done = typed("serve", "--data-dir", tmp_path, *words)
    assert done.returncode == 2 and sentence in done.stderr and done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, "cannot be read (No such file or directory). Choose another file."),
        (FOLDER, "cannot be read ("),
        (b"", "is empty: give one, or leave it out."),
        (b"\n \n", "is empty: give one, or leave it out."),
        (b"one\ntwo\n", "has several lines: keep only the key there."),
        (b"\xff\xfes\0k\0", "has characters that a key cannot have, or is too long: use up to 4,096 letters"),
        ("schlüssel".encode(), "has characters that a key cannot have"),
        (b"k" * 100_000, "has characters that a key cannot have, or is too long"),
    ],
    ids=repr,
)
def test_a_file_without_a_key_is_a_sentence(tmp_path: Path, content: bytes | None, sentence: str) -> None:
    file = tmp_path / "key"
    if content == FOLDER:
        file.mkdir()
    elif content is not None:
        file.write_bytes(content)
    done = typed("serve", "--data-dir", tmp_path / "data", "--api-key-file", file)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"Error: The key {'in' if content in (None, FOLDER) else 'of'} {file} ")
    assert sentence in done.stderr and done.stderr.count("\n") == 1


@pytest.mark.parametrize("option", [("--api-key", "x"), ("--api-key-file", "x"), ("--no-key",)], ids=" ".join)
def test_the_variable_beside_an_option_is_refused(tmp_path: Path, option: tuple[str, ...]) -> None:
    environment = {KEY_VARIABLE: "secret"}
    done = typed("serve", "--data-dir", tmp_path, *option, environment=environment)
    assert (done.returncode, done.stdout) == (2, "")
    assert option[0] in done.stderr and KEY_VARIABLE in done.stderr and "secret" not in done.stderr
    empty = typed("serve", "--data-dir", tmp_path, environment={KEY_VARIABLE: ""})
    assert empty.stderr == f"Error: The key of {KEY_VARIABLE} is empty: give one, or leave it out.\n"


def test_a_key_is_the_one_of_the_file_or_the_variable_and_a_file_that_others_read_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "key"
    file.write_bytes(b"\xef\xbb\xbfsk-of-the-file\r\n")
    file.chmod(0o640)
    ways: tuple[dict[str, Any], ...] = ({"option": "sk-1 "}, {"variable": "sk-2\n"}, {"file": file})
    keys = [chosen_key(tmp_path, "127.0.0.1", **way) for way in ways]
    for key, text in zip(keys, ("sk-1", "sk-2", "sk-of-the-file"), strict=True):
        assert accepts(key, text) and not accepts(key, "") and not accepts(key, f"{text}x")
    if os.name == "posix":
        told = f"Other users of this machine can read {file}. `chmod 600` prevents this.\n"
        assert capsys.readouterr() == ("", told)
        file.chmod(0o600)
        chosen_key(tmp_path, "127.0.0.1", file=file)
        assert capsys.readouterr() == ("", "")
    assert isinstance(chosen_key(tmp_path, "127.0.0.1"), KeyFile)


def test_the_help_says_who_sees_a_key_that_is_an_option() -> None:
    told = " ".join(typed("serve", "--help").stdout.split())
    assert "Every user of this machine can see it in the list of processes" in told
    assert KEY_VARIABLE in told


def test_without_a_model_the_apps_is_served_as_it_was_loaded_but_for_what_is_given() -> None:
    app = Settings(ModelChoice("org/a", "bfloat16", "cpu", "int4", context=2048, draft_model="org/b"))
    nothing = dict.fromkeys(("dtype", "device", "quantisation", "draft_model"))
    assert chosen_model(app, None, nothing) == app.model
    assert chosen_model(app, None, {**nothing, "dtype": "float32"}) == replace(app.model, dtype="float32")
    given = {**nothing, "quantisation": "none", "draft_model": ""}
    assert chosen_model(app, None, given) == replace(app.model, quantisation="none", draft_model="")
    assert chosen_model(app, "org/c", {**nothing, "dtype": "float32"}) == ModelChoice("org/c", "float32")


def started(
    folder: Path, *words: str, variables: Mapping[str, str] = MappingProxyType({})
) -> subprocess.Popen[str]:
    """`serve`, running."""
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT), "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
    environment |= variables
    return subprocess.Popen(
        command("serve", "--data-dir", folder, *words),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=CHECKOUT, env=environment,
    )  # fmt: skip


@contextmanager
def ended(process: subprocess.Popen[str]) -> Iterator[None]:
    """Presses Ctrl+C after the block, and kills a server that does not end."""
    try:
        yield
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.communicate(timeout=300)
        finally:
            process.kill()


@pytest.fixture
def process(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """The server as a process of its own, which ends with the test."""
    process = started(tmp_path, "--port", str(free_port()))
    yield process
    process.kill()
    process.communicate()


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
    _, complaints = process.communicate(timeout=300)
    assert process.returncode == 0 and "Traceback" not in complaints


def test_a_key_of_the_environment_is_asked_for_and_not_shown_and_why_no_model_was_loaded_is_told(
    tmp_path: Path,
) -> None:
    missing, variables = tmp_path / "none", {KEY_VARIABLE: "sk-of-the-shell"}
    process = started(tmp_path, "--model", str(missing), "--port", str(free_port()), variables=variables)
    with ended(process):
        assert process.stdout and process.stderr
        told = process.stderr.readline()
        assert told == f"Error: The folder {missing} does not exist: check the path.\n"
        lines = [process.stdout.readline() for _ in range(2)]
        url = address_in("".join(lines))
        assert "sk-of-the-shell" not in "".join(lines) + " ".join(map(str, process.args))
        with pytest.raises(HTTPError, match="401"):
            urlopen(f"{url}/models")
        assert Servers(tmp_path).add(url, "sk-of-the-shell").models
        assert not KeyFile(tmp_path).path.exists()


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
