"""The desktop app from the outside: one start, everything that needs no browser."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from time import monotonic
from urllib.request import Request, urlopen

import pytest

from app.database.data_folder import DataFolder, data_dir_or_default
from app.ui.frame.uploads import discard_all, uploads_dir
from tests.support.app_process import AppProcess

CHECKOUT = Path(__file__).parent.parent
SECONDS = 300.0
CLOSING_SECONDS = 6.0
"""What a busy machine may take for the two seconds that are promised."""


@pytest.fixture
def taken_port() -> Iterator[int]:
    with closing(socket.socket()) as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        yield other.getsockname()[1]


def start(data_dir: Path, port: int) -> subprocess.Popen[str]:
    command = [sys.executable, "run.py", "--no-browser", "--port", str(port), "--data-dir", str(data_dir)]
    return subprocess.Popen(
        command, cwd=CHECKOUT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8"
    )


@pytest.mark.skipif(
    signal.getsignal(signal.SIGINT) is signal.SIG_IGN, reason="children of this shell cannot be interrupted"
)
def test_a_taken_port_moves_on_a_second_start_says_where_it_is_and_ctrl_c_frees_the_folder(
    tmp_path: Path, taken_port: int
) -> None:
    with start(tmp_path, taken_port) as app:
        try:
            assert app.stdout is not None
            note = app.stdout.readline().strip()
            assert note.startswith(f"Port {taken_port} is taken, so Foresight is at http://127.0.0.1:")
            address = note.split()[-1]
            assert app.stdout.readline() == "Press Ctrl+C to quit.\n"
            assert urlopen(address, timeout=SECONDS).status == 200

            with start(tmp_path, taken_port) as second:
                out, err = second.communicate(timeout=SECONDS)
            assert (second.returncode, err) == (0, "")
            assert out == (
                f"Foresight is already open at {address}\n"
                "It runs without --port. Quit it and start again to use that.\n"
            )

            app.send_signal(signal.SIGINT)
            out, err = app.communicate(timeout=SECONDS)
            assert (app.returncode, out, err) == (0, "Closing.\n", "")
        finally:
            app.kill()
    folder = DataFolder(tmp_path)
    folder.hold()
    folder.release()


@pytest.mark.thorough
@pytest.mark.skipif(
    signal.getsignal(signal.SIGINT) is signal.SIG_IGN, reason="children of this shell cannot be interrupted"
)
def test_closing_right_after_the_start_waits_for_no_engine_that_imports_torch(tmp_path: Path) -> None:
    with AppProcess(tmp_path) as app:
        began = monotonic()
        assert app.interrupt() == 0
        assert monotonic() - began < CLOSING_SECONDS
        assert app.said().endswith("Closing.\n")


@pytest.mark.thorough
def test_what_an_ended_run_left_of_an_upload_is_gone_once_the_next_one_answers(tmp_path: Path) -> None:
    place = data_dir_or_default(tmp_path / "data")
    upload = uploads_dir(place) / ("a" * 64) / "chats.json"
    upload.parent.mkdir(parents=True)
    upload.write_text("My secret", encoding="utf-8")
    with AppProcess(place):
        assert not upload.exists()


@pytest.mark.skipif(sys.platform == "win32", reason="on Windows the profile protects the folder")
def test_what_the_app_and_its_libraries_write_is_the_owners_alone(tmp_path: Path) -> None:
    place = tmp_path / "data"
    with AppProcess(place) as app:
        upload = (
            b'--b\r\nContent-Disposition: form-data; name="files"; filename="a.txt"\r\n\r\nhi\r\n--b--\r\n'
        )
        address, _, key = app.url.partition("?key=")
        headers = {"Authorization": f"Bearer {key}", "Content-Type": "multipart/form-data; boundary=b"}
        urlopen(Request(f"{address}gradio_api/upload", upload, headers), timeout=SECONDS).close()
        modes = {path.name: path.stat().st_mode & 0o077 for path in (place, *place.rglob("*"))}
    assert {"data", "in-use.address", "foresight.sqlite-wal", "a.txt", "logs"} <= modes.keys()
    assert set(modes.values()) == {0}, modes
    assert data_dir_or_default(place) == place
    discard_all(place)
    assert not list(place.rglob("a.txt")), "Gradio's own names of uploads are known"


def said_by_a_command(expression: str, environment: dict[str, str]) -> str:
    """What a command of the app prints that prints this."""
    code = (
        f"import os, sys\nfrom app import main\n@main.cli.command()\ndef say(): print({expression})\n"
        "sys.argv = ['foresight', 'say']\nmain.main()"
    )
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout.strip()


def test_threads_of_the_page_hold_the_engine_back_for_less_than_a_millisecond() -> None:
    assert float(said_by_a_command("sys.getswitchinterval()", dict(os.environ))) < 0.001


def test_openmp_is_told_to_wait_briefly_before_torch_loads_it_unless_the_person_chose() -> None:
    told = "os.environ['GOMP_SPINCOUNT'], 'torch' in sys.modules"
    rest = {name: value for name, value in os.environ.items() if name != "GOMP_SPINCOUNT"}
    assert said_by_a_command(told, rest) == "1000 False"
    assert said_by_a_command(told, {**rest, "GOMP_SPINCOUNT": "7"}) == "7 False"


def test_a_data_folder_that_cannot_be_made_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with start(tmp_path / "file", 7860) as app:
        out, err = app.communicate(timeout=SECONDS)
    assert (app.returncode, out) == (1, "")
    assert err.startswith(f"Error: The data folder {tmp_path / 'file'} cannot be used (")
    assert err.endswith("Choose another one with --data-dir.\n")
    assert err.count("\n") == 1


def test_ctrl_c_while_the_app_is_imported_ends_it_without_a_traceback(tmp_path: Path) -> None:
    (tmp_path / "typer.py").write_text("raise KeyboardInterrupt", encoding="utf-8")
    ended = subprocess.run(
        [sys.executable, "run.py", "--help"], env=os.environ | {"PYTHONPATH": str(tmp_path)},
        capture_output=True, text=True, timeout=SECONDS,
    )  # fmt: skip
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "")
