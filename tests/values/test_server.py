"""Addresses of servers as people type them, and what is said of them."""

import pytest

from app.errors import BadOption
from app.values.messages import ModelChoice
from app.values.server import Server, read_address, remote_info


@pytest.mark.parametrize(
    ("typed", "address"),
    [
        ("http://127.0.0.1:8000", "http://127.0.0.1:8000/v1"),
        (" localhost:8080/ ", "http://localhost:8080/v1"),
        ("http://GPU-box:30000/v1/chat/completions", "http://gpu-box:30000/v1"),
        ("192.168.1.20:8000/v1/models", "http://192.168.1.20:8000/v1"),
        ("api.example.com/openai", "https://api.example.com/openai"),
        ("https://api.example.com/v1/", "https://api.example.com/v1"),
        ("http://[::1]:8000", "http://[::1]:8000/v1"),
    ],
)
def test_an_address_is_completed(typed: str, address: str) -> None:
    assert read_address(typed) == address


@pytest.mark.parametrize(
    "typed", ["", "http://", "ftp://box/v1", "my box", "http://box:99999", "http://[::1"]
)
def test_what_is_no_address_is_refused_with_an_example(typed: str) -> None:
    with pytest.raises(BadOption, match=r"http://192\.168\.1\.20:8000/v1"):
        read_address(typed)


def test_a_password_in_an_address_is_refused_and_not_repeated() -> None:
    with pytest.raises(BadOption, match="use the box for the key") as refused:
        read_address("https://me:hunter2@example.com/v1")
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    ("address", "warns"),
    [
        ("http://example.com/v1", True), ("http://8.8.8.8:8000/v1", True), ("https://example.com/v1", False),
        ("http://localhost:8000/v1", False), ("http://10.1.2.3:8000/v1", False),
        ("http://100.100.1.2:8000/v1", False), ("http://gpu-box:8000/v1", False),
        ("http://box.local:8000/v1", False), ("http://[fd00::1]:8000/v1", False),
        ("http://[2606:4700::1111]/v1", True),
    ],
)  # fmt: skip
def test_an_open_connection_beyond_the_private_network_is_warned_of(address: str, warns: bool) -> None:
    assert Server(address).warning.startswith("The connection to ") == warns


def test_what_is_on_this_machine_is_known() -> None:
    here = ("http://localhost:1/v1", "http://127.3.2.1/v1", "http://[::1]/v1")
    assert all(Server(address).is_here for address in here)
    assert not Server("http://gpu-box/v1").is_here


def test_a_key_is_never_shown() -> None:
    assert "sk-1" not in repr(Server("http://box/v1", "sk-1"))
    with pytest.raises(ValueError, match="ASCII") as refused:
        Server("http://box/v1", "sk-é")
    assert "sk-é" not in str(refused.value)


def test_a_remote_model_says_where_it_runs_and_what_does_not_apply() -> None:
    info = remote_info(ModelChoice("org/model", server="https://box.example:8000/v1"))
    assert (info.name, info.label, info.device) == ("org/model", "remote", "box.example:8000")
    assert info.note("lookahead").startswith(
        "This model runs on box.example:8000. Lookahead, the X-ray and the same-text setting do"
    )
    assert info.refusals == {}
