"""Servers that answer as none does: lists and replies end soon, with a sentence, after not too many bytes."""

import json
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, repeat
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest

from app.conversation import Reply
from app.errors import ServerError
from app.remote import Servers
from app.values.messages import Failed, Finished, Message, ModelChoice, Piece, Request
from app.values.server import Limits
from tests.odd_server import ODD, OK, Answer, OddServer, answer, is_sentence, odd_server, once, refusal
from tests.remote.fake_server import added
from tests.support.waiting import PATIENCE
from tests.tiers import pairwise

QUICK = Limits(connect=1, listing=1, silence=1)
MOST_TAKEN = 25_000_000
"""Bytes of an answer that have left the server; a system's buffers take some millions."""
STREAM = (OK + "Content-Type: text/event-stream\r\n\r\n").encode()
SECRET = "sk-secret-of-the-server"
ODD_IN_DEPTH = ("a body that drips", "compressed", "a page", "brackets without end", "a refusal without end")


def told_of_list(server: OddServer, folder: Path, limits: Limits = QUICK) -> str:
    servers = Servers(folder, limits=limits)
    with pytest.raises(ServerError) as refused:
        servers.add(server.host)
    assert servers.servers() == ()
    return str(refused.value)


def reply_of(server: OddServer, folder: Path, limits: Limits = QUICK) -> tuple[str, Finished | Failed]:
    """The text of a reply, and how it ended."""
    address = f"http://{server.host}/v1"
    reply = Reply()
    request = Request(ModelChoice("m", server=address), (Message("user", "Hi"),))
    Servers(added(folder, address, SECRET), limits=limits).submit(request, reply)
    events = list(reply.events())
    assert isinstance(events[-1], Finished | Failed)
    return "".join(event.text for event in events if isinstance(event, Piece)), events[-1]


def told_of_reply(server: OddServer, folder: Path) -> str:
    text, end = reply_of(server, folder)
    assert isinstance(end, Failed) and text == "" and SECRET not in end.sentence
    return end.sentence


@pairwise(odd=ODD, ask={"list": told_of_list, "reply": told_of_reply}, deep=ODD_IN_DEPTH)
def test_an_odd_answer_is_told(odd: Answer, ask: Callable[[OddServer, Path], str], tmp_path: Path) -> None:
    begun = monotonic()
    with odd_server(odd) as server:
        told = ask(server, tmp_path)
        assert max(server.taken, default=0) < MOST_TAKEN
    assert is_sentence(told) and server.host in told, told
    assert monotonic() - begun < PATIENCE


def event(chunk: Any) -> bytes:
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"


def delta(**values: Any) -> bytes:
    return event({"choices": [{"index": 0, "delta": values}]})


def stream(*events: bytes) -> Answer:
    """An event stream that begins well, goes on with these, and ends."""
    return lambda: chain([STREAM, delta(content="Hello ")], events)


def slow(pieces: Iterable[bytes]) -> Iterator[bytes]:
    for piece in pieces:
        yield piece
        sleep(0.02)


ODD_STREAMS: dict[str, Answer] = {
    "a list": stream(event([1, 2])),
    "a number": stream(event(5)),
    "a text": stream(event("x")),
    "null": stream(event(None)),
    "choices of a number": stream(event({"choices": 5})),
    "choices of texts": stream(event({"choices": ["x", 5]})),
    "choices by name": stream(event({"choices": {"delta": {"content": "x"}}})),
    "a delta of text": stream(event({"choices": [{"delta": "x"}]})),
    "a delta of a list": stream(event({"choices": [{"delta": ["x"]}]})),
    "content of a number": stream(delta(content=5)),
    "content of parts": stream(delta(content=[{"type": "text", "text": "x"}])),
    "a thought of a number": stream(delta(reasoning_content={"a": 1})),
    "an end of a list": stream(event({"choices": [{"delta": {}, "finish_reason": ["stop"]}]})),
    "an end of a number": stream(event({"choices": [{"delta": {}, "finish_reason": 5}]})),
    "an error of a number": stream(event({"error": 5})),
    "an error of a list": stream(event({"error": [{"message": 5}]})),
    "an error in colours": stream(event({"error": {"message": "\x1b[31mred\x00"}})),
    "an error of threads": stream(b"event: thread.x\n" + event({"error": {"message": "x"}})),
    "no JSON": stream(b"data: {not\n\n"),
    "a huge number": stream(b"data: " + b"9" * 100_000 + b"\n\n"),
    "brackets without end": stream(b"data: " + b"[" * 200_000 + b"\n\n"),
    "no UTF-8": stream(b"data: \xff\xfe\n\n"),
    "a page": stream(b"<!doctype html><html></html>\n\n"),
    "no end": stream(),
    "an event without end": lambda: chain([STREAM], repeat(b"data: " + b"x" * 65_536)),
    "an event of lines without end": lambda: chain([STREAM], repeat(b"data: xxxxxxxxxxxxx\n" * 4000)),
    "comments without end": lambda: chain([STREAM], repeat(b": ping\n\n" * 8000)),
    "comments that drip": lambda: chain([STREAM, delta(content="Hello ")], slow(repeat(b": ping\n\n"))),
    "empty events that drip": lambda: chain([STREAM], slow(repeat(delta(content="")))),
    "an event that drips": lambda: chain([STREAM], slow(repeat(b"x"))),
    "a text without end": lambda: chain([STREAM], repeat(delta(content="x" * 100_000))),
}


@pytest.mark.parametrize("odd", ODD_STREAMS)
def test_an_odd_event_ends_a_reply_with_a_sentence_and_keeps_its_text(odd: str, tmp_path: Path) -> None:
    begun = monotonic()
    with odd_server(ODD_STREAMS[odd]) as server:
        text, end = reply_of(server, tmp_path)
        assert max(server.taken, default=0) < MOST_TAKEN
    assert isinstance(end, Failed), odd
    assert is_sentence(end.sentence) and server.host in end.sentence and end.sentence.isprintable()
    assert "without end" in odd or "drip" in odd or text == "Hello "
    assert monotonic() - begun < PATIENCE


STOP = event({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
TOLERATED: dict[str, Answer] = {
    "nulls": stream(
        event({"id": None, "choices": [{"delta": None}]}), event({"choices": None, "usage": None}), STOP
    ),
    "huge counts": stream(
        STOP,
        event({"choices": [], "usage": {"prompt_tokens": 2**63, "completion_tokens": 10**300}}),
        event(
            {
                "timings": {"draft_n": 10**300, "draft_n_accepted": -5},
                "foresight": {"tokens_per_step": 10**300},
            }
        ),
    ),
    "counts that are none": stream(
        STOP,
        b'data: {"choices": [], "usage": {"completion_tokens": NaN, "prompt_tokens": "12"}, "timings": [], '
        b'"foresight": {"tokens_per_step": Infinity}, "metrics": {"speculative_decoding": 5}}\n\n',
    ),
    "more parts than can be": stream(STOP, *(event({f"part{number}": {"a": 1}}) for number in range(500))),
    "an end that is not said": lambda: chain(
        [STREAM, delta(content="Hello "), STOP], slow(repeat(b": ping\n\n"))
    ),
    "an unknown end": stream(event({"choices": [{"delta": {}, "finish_reason": "x" * 1000}]})),
    "half of a pair": stream(b'data: {"choices": [{"delta": {"content": "\\ud800"}}]}\n\n', STOP),
}


@pytest.mark.parametrize("odd", TOLERATED)
def test_what_does_no_harm_is_left_out(odd: str, tmp_path: Path) -> None:
    with odd_server(TOLERATED[odd]) as server:
        text, end = reply_of(server, tmp_path, QUICK if odd == "an end that is not said" else Limits())
    assert isinstance(end, Finished) and end.reason == "eos", end
    assert text.rstrip("\N{REPLACEMENT CHARACTER}") == "Hello " and text.encode()
    assert max(end.statistics.tokens, end.statistics.prompt_tokens, end.statistics.steps) <= 10**9


def test_of_a_list_of_models_only_names_are_taken(tmp_path: Path) -> None:
    ids: list[Any] = ["a", "a", 5, None, {}, "", "b" * 1000, "c\nd", "\x1b[31m", "\ud800", "org/é", True]
    body = json.dumps({"data": [None, 5, [], {}, *({"id": one} for one in ids)]}).encode()
    with odd_server(once(answer(body))) as server:
        assert Servers(tmp_path).add(server.host).models == ("a", "org/é")


def test_more_models_than_can_be_shown_are_refused(tmp_path: Path) -> None:
    body = json.dumps({"data": [{"id": f"m{number}"} for number in range(3_000)]}).encode()
    with odd_server(once(answer(body))) as server:
        assert told_of_list(server, tmp_path, Limits()) == (
            f"{server.host} lists 3,000 models, of which no more than 2,000 can be shown. Check the address, or "
            "update the server."
        )


@pytest.mark.parametrize(
    "status", ["301 Moved", "302 Found", "307 Temporary Redirect", "308 Permanent Redirect"]
)
def test_the_key_goes_to_no_other_server(status: str, tmp_path: Path) -> None:
    with odd_server(once(answer(b"{}"))) as other:
        away = refusal(status, Location=f"http://{other.host}/v1/x", **{"Content-Length": "0"})
        with odd_server(once(away)) as server:
            _, end = reply_of(server, tmp_path, Limits())
            told = told_of_list(server, tmp_path / "new", Limits())
    number = status[:3]
    assert (
        told
        == f"{server.host} redirects to another address ({number}). Enter that address under Models → Installed."
    )
    assert isinstance(end, Failed) and end.sentence == told
    assert other.asked == [] and SECRET.encode() in server.asked[0]
