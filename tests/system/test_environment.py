"""Proxies, certificates and other variables of the shell: harmless, obeyed where they should be, or told of."""

import os
import socket
import socketserver
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import getproxies, urlopen

import pytest

from app.errors import NetworkSettingsUnusable
from app.system.child_process import importing_environment
from app.system.environment import (
    network_settings,
    prepare,
    proxy_for,
    without_network_settings,
    without_secrets,
)
from tests.commands.typed import CHECKOUT, Done, command
from tests.models_registry.hub_server import FakeHub, running
from tests.models_registry.model_files import model_files
from tests.models_registry.test_installed_models import CONFIG
from tests.support.app_process import AppProcess

NETWORK = (
    "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR", "SSLKEYLOGFILE",
)  # fmt: skip
DEAD = "127.0.0.1:9"


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A shell that says nothing of the network."""
    for name in NETWORK:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    return monkeypatch


def test_this_machine_is_asked_without_the_proxies_of_the_shell(shell: pytest.MonkeyPatch) -> None:
    shell.setenv("ALL_PROXY", f"socks5://{DEAD}")
    shell.setenv("NO_PROXY", "intranet")
    assert prepare(os.environ) == []
    assert getproxies()["no"] == "intranet,127.0.0.1,localhost,::1"
    assert os.environ["ALL_PROXY"] == f"socks5://{DEAD}"
    assert proxy_for("https://huggingface.co/org/model") == DEAD
    assert {proxy_for(f"http://{host}:8000/v1") for host in ("127.0.0.1", "localhost", "intranet")} == {""}


def test_a_shell_without_proxies_stays_so_that_the_systems_are_found() -> None:
    shell = {"PATH": "/bin", "HTTP_PROXY": ""}
    assert prepare(shell) == []
    assert shell == {"PATH": "/bin", "HTTP_PROXY": ""}


def test_a_number_that_is_none_is_told_and_left_out() -> None:
    shell = {"HF_HUB_DOWNLOAD_TIMEOUT": "abc", "HF_HUB_ETAG_TIMEOUT": "30", "PATH": "/bin"}
    assert prepare(shell) == ["HF_HUB_DOWNLOAD_TIMEOUT is 'abc' and not a whole number, so it is not used."]
    assert shell == {"HF_HUB_ETAG_TIMEOUT": "30", "PATH": "/bin"}


@pytest.mark.parametrize("address", ["", "garbage", "http://[", "https://", "ftp://hub", "http://hub:x"])
def test_no_other_hub_is_asked_where_the_one_of_the_shell_has_no_address(address: str) -> None:
    shell = {"HF_ENDPOINT": address}
    assert prepare(shell) == [
        f"HF_ENDPOINT is {address!r} and not an address, so no hub is asked for models."
    ]
    assert shell == {"HF_HUB_OFFLINE": "1"}
    mirror = {"HF_ENDPOINT": "https://mirror.example/hub/"}
    assert prepare(mirror) == [] and mirror == {"HF_ENDPOINT": "https://mirror.example/hub/"}


def test_proxies_and_certificates_are_hidden_for_a_while_and_come_back(shell: pytest.MonkeyPatch) -> None:
    given = {"all_proxy": "socks4://x", "HTTPS_PROXY": "::", "NO_PROXY": "[::1]", "SSL_CERT_FILE": "/nowhere"}
    for name, value in given.items():
        shell.setenv(name, value)
    before = dict(os.environ)
    with pytest.raises(KeyboardInterrupt), without_network_settings(os.environ):
        assert not given.keys() & os.environ.keys()
        assert getproxies() == {"no": "*"}
        raise KeyboardInterrupt
    assert dict(os.environ) == before


@pytest.mark.parametrize(
    ("proxy", "seen"),
    [
        ("http://user:secret@proxy.corp:3128", "proxy.corp:3128"),
        ("proxy.corp:3128", "proxy.corp:3128"),
        ("socks5h://proxy.corp", "proxy.corp"),
        ("http://[", ""),
        ("", ""),
    ],
)
def test_a_proxy_is_named_without_its_password(shell: pytest.MonkeyPatch, proxy: str, seen: str) -> None:
    shell.setenv("HTTPS_PROXY", proxy)
    assert proxy_for("https://huggingface.co") == seen
    assert proxy_for("no address") == ""


def test_whatever_a_library_says_of_the_shell_is_one_sentence(shell: pytest.MonkeyPatch) -> None:
    for name, value in {"https_proxy": "socks4://x", "SSL_CERT_FILE": "/nowhere"}.items():
        shell.setenv(name, value)
    for error, names in (
        (ImportError("No socksio."), "HTTPS_PROXY"),
        (FileNotFoundError("x"), "SSL_CERT_FILE"),
    ):
        with pytest.raises(NetworkSettingsUnusable) as caught, network_settings():
            raise error
        assert str(caught.value).endswith(f"Correct or unset {names}, then start Foresight again.")


def test_child_processes_get_no_secrets(shell: pytest.MonkeyPatch) -> None:
    secrets = {"HF_TOKEN": "x", "FORESIGHT_API_KEY": "x", "AWS_SECRET_ACCESS_KEY": "x", "Db_Password": "x"}
    kept = {"PATH": "/bin", "HF_TOKEN_PATH": "/t", "KEYBOARD": "de", "TOKENIZERS_PARALLELISM": "0"}
    assert without_secrets({**secrets, **kept}) == kept
    for name in secrets:
        shell.setenv(name, "x")
    assert not secrets.keys() & importing_environment().keys()


def environment_with(tmp_path: Path, **variables: str) -> dict[str, str]:
    """The shell of somebody who starts the app for the first time, with these variables."""
    own = {name: value for name, value in os.environ.items() if name.upper() not in NETWORK}
    own = {name: value for name, value in own.items() if not name.startswith("HF_")}
    places = {"XDG_DATA_HOME": str(tmp_path / "data"), "HF_HOME": str(tmp_path / "hf")}
    return {**own, **places, "CUDA_VISIBLE_DEVICES": "", **variables}


@pytest.mark.parametrize(
    "variables",
    [
        pytest.param(
            {"ALL_PROXY": f"socks5://{DEAD}", "SSLKEYLOGFILE": "/nowhere/keys", "PYTHONWARNINGS": "default"},
            id="socks",
            marks=pytest.mark.thorough,
        ),
        {
            "ALL_PROXY": "socks4://127.0.0.1:9",
            "https_proxy": "::",
            "NO_PROXY": "[::1],http://[",
            "SSL_CERT_FILE": "/nowhere.pem",
            "WEB_CONCURRENCY": "many",
            "HF_HUB_ETAG_TIMEOUT": "long",
            "GRADIO_SERVER_NAME": "0.0.0.0",
            "GRADIO_ROOT_PATH": "/elsewhere",
            "GRADIO_NUM_PORTS": "many",
            "GRADIO_SHARE": "True",
            "SYSTEM": "spaces",
            "SPACE_ID": "org/space",
        },
    ],
    ids=lambda _variables: "everything",
)
def test_the_page_starts_at_this_machine_alone_whatever_the_shell_says(
    tmp_path: Path, variables: dict[str, str]
) -> None:
    with AppProcess(tmp_path, environment_with(tmp_path, HF_HUB_OFFLINE="1", **variables)) as app:
        page = urlopen(app.url, timeout=300).read().decode()
        assert "Traceback" not in app.said()
        assert urlsplit(app.url).hostname == "127.0.0.1"
        assert "/elsewhere" not in page and "gradio.live" not in page
        others = {info[4][0] for info in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)}
        for address in others - {"127.0.0.1"}:
            with pytest.raises(OSError):
                socket.create_connection((str(address), app.port), 1)


class Relay(socketserver.BaseRequestHandler):
    """A SOCKS5 proxy that leads every connection to the hub of the test."""

    def handle(self) -> None:
        client, server = self.request, self.server
        assert isinstance(server, Socks)
        client.recv(2 + client.recv(2)[1])
        client.sendall(b"\x05\x00")
        head = client.recv(5)
        server.names.append(client.recv(head[4]).decode())
        client.recv(2)
        client.sendall(b"\x05\x00\x00\x01" + bytes(6))
        with socket.create_connection(("127.0.0.1", server.hub_port)) as hub:
            threading.Thread(target=pump, args=(hub, client), daemon=True).start()
            pump(client, hub)


def pump(source: socket.socket, target: socket.socket) -> None:
    """Passes on what comes until one side has ended."""
    try:
        while data := source.recv(65_536):
            target.sendall(data)
    except OSError:
        return


class Socks(socketserver.ThreadingTCPServer):
    """Remembers which hosts it was asked for."""

    daemon_threads = True

    def __init__(self, hub_port: int) -> None:
        super().__init__(("127.0.0.1", 0), Relay)
        self.hub_port, self.names = hub_port, list[str]()


@pytest.fixture
def hub() -> Iterator[FakeHub]:
    with running(FakeHub({"org/small": {**model_files(500_000), "config.json": CONFIG}})) as hub:
        yield hub


@pytest.fixture
def socks(hub: FakeHub) -> Iterator[Socks]:
    with Socks(urlsplit(hub.endpoint).port or 0) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def asked_hub(tmp_path: Path, *words: str, **variables: str) -> Done:
    """What a command says in a shell with these variables."""
    return subprocess.run(
        command("models", *words), cwd=CHECKOUT, env=environment_with(tmp_path, **variables),
        capture_output=True, encoding="utf-8", check=False, timeout=300,
    )  # fmt: skip


def test_the_hub_is_asked_and_a_model_downloaded_through_a_socks_proxy(tmp_path: Path, socks: Socks) -> None:
    proxy = f"socks5h://127.0.0.1:{socks.server_address[1]}"
    shell = {"HF_ENDPOINT": "http://hub.example", "ALL_PROXY": proxy}
    done = asked_hub(tmp_path, "download", "org/small", **shell)
    assert (done.returncode, done.stderr) == (0, "")
    assert "org/small is downloaded and verified" in done.stdout
    assert "hub.example" in socks.names


def test_a_hub_on_this_machine_is_asked_without_the_proxy(tmp_path: Path, hub: FakeHub) -> None:
    shell = {"HF_ENDPOINT": hub.endpoint, "ALL_PROXY": f"http://{DEAD}", "http_proxy": f"http://{DEAD}"}
    done = asked_hub(tmp_path, "info", "org/small", **shell)
    assert (done.returncode, done.stderr) == (0, "")
    assert "org/small" in done.stdout


@pytest.mark.parametrize(
    ("variables", "sentence"),
    [
        ({"ALL_PROXY": "socks4://u:secret@h"}, "Correct or unset ALL_PROXY, then start Foresight again."),
        ({"https_proxy": "::"}, "Correct or unset HTTPS_PROXY, then start Foresight again."),
        pytest.param(
            {"SSL_CERT_FILE": "/nowhere.pem"},
            "Correct or unset SSL_CERT_FILE, then start Foresight again.",
            marks=pytest.mark.thorough,
        ),
        ({"ALL_PROXY": f"socks5://{DEAD}"}, f"Can't reach Hugging Face through the proxy {DEAD}. Check"),
        pytest.param(
            {"HTTPS_PROXY": "http://127.0.0.1:99999"},
            "Correct or unset HTTPS_PROXY, then",
            marks=pytest.mark.thorough,
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, dict) else None,
)
def test_a_proxy_that_cannot_be_used_is_told_in_a_sentence(
    tmp_path: Path, variables: dict[str, str], sentence: str
) -> None:
    done = asked_hub(tmp_path, "info", "org/small", HF_ENDPOINT="https://hub.example", **variables)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert sentence in done.stderr and "secret" not in done.stderr
