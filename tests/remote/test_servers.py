"""Servers on this machine that behave and misbehave, asked by the real client."""

import logging
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.conversation import Reply
from app.conversation.call_grammar import NOTHING, calls_grammar
from app.errors import BadOption, ServerError, SettingsNotSaved
from app.remote.servers import ServerFile, Servers
from app.system.network_log import NetworkLog
from app.values.json_answers import JsonAnswers
from app.values.logits import Grammar, LogitsSettings
from app.values.messages import (
    Failed,
    Finished,
    Loading,
    Message,
    ModelChoice,
    Options,
    Piece,
    Request,
    Sampling,
)
from app.values.server import Limits, Server
from tests.remote.fake_server import SENTENCES, FakeServer, Misbehaviour, added, host, running, told_of
from tests.support.waiting import new_threads, until

KEY = "sk-secret-of-the-server"
CHAT = (Message("system", "Be brief."), Message("user", "Hi"))
QUICK = Limits(connect=2, listing=0.3, silence=0.3)
"""For servers that say nothing: the others would be cut off on a loaded machine."""
UNUSED = "http://127.0.0.1:1/v1"


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with running(FakeServer()) as server:
        yield server


@pytest.fixture
def servers(tmp_path: Path, server: FakeServer) -> Servers:
    return Servers(added(tmp_path, server.address))


def request_to(address: str, **changes: Any) -> Request:
    model = ModelChoice("org/model", server=address)
    return Request(**{"model": model, "prompt": CHAT, **changes})


def ask(servers: Servers, address: str, **changes: Any) -> tuple[str, Finished | Failed]:
    """The text of a reply, and how it ended."""
    reply = Reply()
    servers.submit(request_to(address, **changes), reply)
    events = list(reply.events())
    end = events[-1]
    assert isinstance(end, Finished | Failed)
    return "".join(event.text for event in events if isinstance(event, Piece)), end


def failure(servers: Servers, address: str) -> str:
    _, end = ask(servers, address)
    assert isinstance(end, Failed)
    return end.sentence


def test_an_added_server_lists_its_models_and_is_kept_with_its_key_for_this_user_alone(
    server: FakeServer, tmp_path: Path
) -> None:
    server.key = KEY
    servers = Servers(tmp_path)
    added = servers.add(host(server), KEY)
    assert added.models == ("org/model", "other") and added.address == server.address
    again = Servers(tmp_path)
    assert again.servers() == (added,)
    server.models = ("new",)
    assert again.add(server.address).models == ("new",), "by the kept key"
    assert stat.S_IMODE((tmp_path / "servers.json").stat().st_mode) == 0o600
    assert KEY not in repr(again.servers())
    again.remove(server.address)
    assert Servers(tmp_path).servers() == () and KEY not in (tmp_path / "servers.json").read_text()


def test_a_reply_is_a_log_of_pieces_with_the_servers_counts(servers: Servers, server: FakeServer) -> None:
    reply = Reply()
    servers.submit(request_to(server.address), reply)
    events = list(reply.events())
    assert events[0] == Loading(f"Waiting for {host(server)}")
    assert [event.text for event in events if isinstance(event, Piece)] == ["Hello ", "there", "."]
    end = events[-1]
    assert isinstance(end, Finished) and end.reason == "eos"
    assert (end.model.name, end.model.label, end.model.server) == ("org/model", "remote", server.address)
    numbers = end.statistics
    assert (numbers.prompt_tokens, numbers.tokens, numbers.steps) == (12, 6, 0)
    assert numbers.time_to_first_token > 0 and numbers.tokens_per_second > 0


def test_the_request_has_what_every_server_knows_and_nothing_else(
    servers: Servers, server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"):
        monkeypatch.setenv(name, "of-another-service")
    sampling = Sampling(0.5, top_k=7, top_p=0.9, min_p=0.1, repetition_penalty=1.1, seed=3)
    ask(servers, server.address, options=Options(sampling, max_new_tokens=9, stop=("END",)))
    assert server.asked == [
        {
            "model": "org/model", "stream": True, "stream_options": {"include_usage": True},
            "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}],
            "temperature": 0.5, "top_p": 0.9, "seed": 3, "max_tokens": 9, "stop": ["END"],
        }
    ]  # fmt: skip
    (headers,) = server.headers
    assert "authorization" not in headers
    assert not [name for name in headers if name.startswith(("x-stainless", "openai"))]
    assert headers["user-agent"].startswith("Foresight/") and "of-another-service" not in headers.values()


def test_without_a_limit_the_server_is_told_none(servers: Servers, server: FakeServer) -> None:
    ask(servers, server.address, options=Options())
    assert "max_tokens" not in server.asked[0]


def test_a_form_and_the_beginning_of_an_answer_are_sent_in_the_words_of_the_field(
    servers: Servers, server: FakeServer
) -> None:
    for schema in ("", '{"type": "string"}'):
        grammar = JsonAnswers(True, schema).grammar
        ask(servers, server.address, logits=LogitsSettings(grammar=grammar))
    ask(servers, server.address, prompt=(*CHAT, Message("assistant", "Hello")))
    any_object, schema, going_on = server.asked
    assert any_object["response_format"] == {"type": "json_object"}
    assert schema["response_format"]["json_schema"]["schema"] == {"type": "string"}
    assert going_on["continue_final_message"] is True and going_on["add_generation_prompt"] is False


def test_a_grammar_that_openais_api_does_not_have_is_not_sent(servers: Servers, server: FakeServer) -> None:
    grammar = calls_grammar({"add": NOTHING}, 1)
    ask(servers, server.address, logits=LogitsSettings(grammar=Grammar("lark", grammar)))
    assert "response_format" not in server.asked[0]


def test_what_a_model_thinks_stands_in_tags(servers: Servers, server: FakeServer) -> None:
    server.deltas = [
        {"reasoning_content": "Hm"},
        {"reasoning_content": "."},
        {"content": "Yes"},
        {"content": "."},
    ]
    assert ask(servers, server.address)[0] == "<think>\nHm.\n</think>\n\nYes."


@pytest.mark.parametrize("misbehaviour", SENTENCES)
def test_a_server_that_misbehaves_is_told_in_a_sentence_and_nothing_is_lost(
    misbehaviour: Misbehaviour, server: FakeServer, tmp_path: Path
) -> None:
    server.misbehaves = misbehaviour
    limits = QUICK if misbehaviour == "silent" else Limits()
    text, end = ask(Servers(added(tmp_path, server.address), limits=limits), server.address)
    assert end == Failed(told_of(misbehaviour, server))
    begun = {"no json", "cut off", "no end", "error in stream", "filtered"}
    assert text.startswith("Hello there") == (misbehaviour in begun)


STATUSES = {
    403: "asks for a key (403)",
    429: "takes no more requests at the moment (429): slow down. Wait a little, then try again.",
    400: "refused the request (400 Bad Request): slow down.",
    500: "failed (500 Internal Server Error): slow down. Try again, or look at its log.",
    503: "failed (503 Service Unavailable): slow down.",
    404: "has no model org/model (404).",
}


@pytest.mark.parametrize("status", STATUSES)
def test_a_refusal_is_told_with_the_servers_words(servers: Servers, server: FakeServer, status: int) -> None:
    server.status, server.error = status, {"error": {"message": "slow down."}}
    assert failure(servers, server.address).startswith(f"{host(server)} {STATUSES[status]}")


def test_a_server_that_does_not_continue_replies_is_told(servers: Servers, server: FakeServer) -> None:
    server.status, server.error = 422, {"detail": "Unexpected fields"}
    _, end = ask(servers, server.address, prompt=(*CHAT, Message("assistant", "Hello")))
    assert isinstance(end, Failed) and end.sentence == (
        f"{host(server)} does not continue a reply (422 Unprocessable Entity): Unexpected fields. "
        "Regenerate the reply instead."
    )


def test_words_of_a_server_are_shortened_and_never_hold_the_key(server: FakeServer, tmp_path: Path) -> None:
    servers = Servers(added(tmp_path, server.address, KEY))
    server.status, server.error = 500, {"detail": f"{KEY} is {'very ' * 200}bad"}
    told = failure(servers, server.address)
    assert KEY not in told and "…" in told and len(told) < 450
    server.error = "<html>Bad Gateway</html>"
    assert failure(servers, server.address) == (
        f"{host(server)} failed (500 Internal Server Error). Try again, or look at its log."
    )


def test_a_wrong_key_is_refused_in_a_sentence_and_written_nowhere(
    server: FakeServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    server.key = "sk-the-right-one"
    told = failure(Servers(added(tmp_path / "wrong", server.address, KEY)), server.address)
    servers = Servers(tmp_path)
    assert told.startswith(f"{host(server)} refused the key (401). Enter the right one with the address")
    with pytest.raises(ServerError, match="asks for a key"):
        servers.add(server.address)
    assert servers.servers() == ()
    assert KEY not in caplog.text and "sk-the-right-one" not in told


def test_where_nobody_answers_the_sentence_says_why(tmp_path: Path) -> None:
    servers = Servers(added(tmp_path, UNUSED))
    refused = (
        "Can't reach 127.0.0.1:1 (Connection refused). Check the address, and that the server is running."
    )
    assert failure(servers, UNUSED) == refused
    with pytest.raises(ServerError, match="refused"):
        servers.add(UNUSED)
    with pytest.raises(ServerError, match=r"no-such-host\.invalid"):
        servers.add("http://no-such-host.invalid/v1")


def test_https_to_a_server_without_it_is_told(server: FakeServer, tmp_path: Path) -> None:
    address = server.address.replace("http:", "https:")
    told = failure(Servers(added(tmp_path, address)), address)
    assert told.startswith(f"No encrypted connection to {host(server)} (")


@pytest.mark.parametrize("misbehaviour", ["page", "no json", "silent", "redirect"])
def test_a_list_of_models_that_is_none_adds_no_server(
    misbehaviour: Misbehaviour, server: FakeServer, tmp_path: Path
) -> None:
    server.misbehaves = misbehaviour
    servers = Servers(tmp_path, limits=QUICK if misbehaviour == "silent" else Limits())
    with pytest.raises(ServerError) as refused:
        servers.add(server.address)
    expected = told_of(misbehaviour, server)
    assert str(refused.value) == expected and servers.servers() == ()


def test_a_server_without_models_is_told(servers: Servers, server: FakeServer) -> None:
    server.models = ()
    with pytest.raises(ServerError, match="lists no models"):
        servers.add(server.address)


@pytest.mark.parametrize("pauses", [True, False])
def test_stopping_ends_the_connection_and_keeps_what_was_written(
    servers: Servers, server: FakeServer, pauses: bool
) -> None:
    server.pauses, server.misbehaves = pauses, "" if pauses else "silent"
    reply = Reply()
    servers.submit(request_to(server.address), reply)
    until(lambda: len(reply.wait(0, timeout=0)) == (3 if pauses else 1) and bool(server.asked))
    reply.stop()
    *_, end = reply.events()
    assert isinstance(end, Finished) and end.reason == "stopped"
    assert server.is_left.wait(300), "the server sees that its client has gone"


def test_many_replies_are_written_at_once(servers: Servers, server: FakeServer) -> None:
    server.pauses = True
    slow = Reply()
    servers.submit(request_to(server.address), slow)
    until(lambda: len(slow.wait(0, timeout=0)) == 3)
    server.pauses = False
    assert ask(servers, server.address)[0] == "Hello there." and not slow.is_done
    slow.stop()
    assert isinstance(list(slow.events())[-1], Finished)


def test_offline_nothing_leaves_this_machine(server: FakeServer, tmp_path: Path) -> None:
    contacted: list[str] = []
    folder = added(added(tmp_path, server.address), "http://192.0.2.7:80/v1")
    servers = Servers(folder, lambda: True, lambda name, _why: contacted.append(name))
    sentence = "Foresight is set to offline, so 192.0.2.7:80 is not asked: turn Offline off"
    assert failure(servers, "http://192.0.2.7:80/v1").startswith(sentence)
    with pytest.raises(ServerError, match="offline"):
        servers.add("192.0.2.7:80")
    assert contacted == []
    assert ask(servers, server.address)[0] == "Hello there.", "on this machine it is no traffic"


def test_the_log_of_contacts_names_the_server_and_why(tmp_path: Path) -> None:
    contacts = NetworkLog({})
    contacts.watch()
    address = "http://no-such-host.invalid:8000/v1"
    failure(Servers(added(tmp_path, address), explain=contacts.explain, limits=QUICK), address)
    (contact,) = [one for one in contacts.contacts() if one.host == "no-such-host.invalid"]
    assert contact.why == "a server that you added, for its models or a reply"


def test_an_address_that_is_none_is_refused_before_anything_is_asked(servers: Servers) -> None:
    with pytest.raises(BadOption, match="Enter the address of a server"):
        servers.add("ftp://x")
    with pytest.raises(BadOption, match="contains characters that a key cannot have"):
        servers.add(UNUSED, "sk-é")


def test_a_server_that_was_removed_gets_nothing(servers: Servers, server: FakeServer) -> None:
    servers.remove(server.address)
    sentence = f"{server.address} was removed. Add it again, or choose another model."
    assert failure(servers, server.address) == sentence and server.asked == []


def test_no_thread_is_left(servers: Servers, server: FakeServer) -> None:
    before = new_threads([])
    ask(servers, server.address)
    until(lambda: not [one for one in new_threads(before) if one.name == "remote reply"])


@pytest.mark.parametrize(
    ("proxy", "sentence"),
    [
        ("socks4://u:secret@127.0.0.1:9", "Correct or unset ALL_PROXY, then start Foresight again."),
        ("::", "Correct or unset ALL_PROXY, then start Foresight again."),
        ("socks5://127.0.0.1:9", "Can't reach far.example through the proxy 127.0.0.1:9 ("),
        ("http://127.0.0.1:9", "Can't reach far.example through the proxy 127.0.0.1:9 ("),
    ],
)
def test_a_proxy_of_the_shell_that_does_not_work_is_told_and_this_machine_is_asked_without(
    servers: Servers, server: FakeServer, monkeypatch: pytest.MonkeyPatch, proxy: str, sentence: str
) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    monkeypatch.setenv("ALL_PROXY", proxy)
    with pytest.raises(ServerError) as caught:
        servers.add("https://far.example/v1")
    assert sentence in str(caught.value) and "secret" not in str(caught.value)
    assert ask(servers, server.address)[0] == "Hello there."


def test_what_the_shell_says_to_openais_client_reaches_no_server(
    servers: Servers, server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = ("API_KEY", "ADMIN_KEY", "ORG_ID", "PROJECT_ID", "CUSTOM_HEADERS", "WEBHOOK_SECRET")
    for name in said:
        monkeypatch.setenv(
            f"OPENAI_{name}", "x-leak: of-the-shell" if name == "CUSTOM_HEADERS" else "of-the-shell"
        )
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
    monkeypatch.setenv("OPENAI_LOG", "perhaps")
    assert ask(servers, server.address)[0] == "Hello there."
    assert "of-the-shell" not in str(server.headers)


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[1]",
        "5",
        "[" * 100_000,
        "\0",
        '[{"address": "http://x"}]',
        '[{"address": "", "key": ""}]',
        '[{"address": "http://x", "key": 5, "models": []}]',
        '[{"address": "http://x", "key": "", "models": "abc"}]',
        '[{"address": "http://x", "key": "", "models": [1]}]',
    ],
)
def test_a_file_that_makes_no_sense_is_set_aside(tmp_path: Path, text: str) -> None:
    file = ServerFile(tmp_path)
    file.path.write_text(text, encoding="utf-8")
    assert file.read() == () and not file.path.exists()
    assert (tmp_path / "servers.json.broken").exists()


def test_a_folder_that_takes_no_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "taken").touch()
    with pytest.raises(SettingsNotSaved, match="could not be saved"):
        ServerFile(tmp_path / "taken").write((Server("http://box/v1"),))
