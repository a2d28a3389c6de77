"""Requests that are far too large: refused in a sentence, while others are answered."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import openai
import pytest

from app.api.application import RunningApi
from app.api.request_fields import MOST_VALUES
from app.engine import Engine
from tests.api.conftest import KEY
from tests.api.test_chat_completions import ask
from tests.api.test_hanging_up import LONG, PLAIN

HEADERS = {"Content-Type": "application/json", "Authorization": f"Bearer {KEY}"}
BOOK = "hello world " * 100_000
HELLO = [{"role": "user", "content": "Hello"}]
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}


def post(server: RunningApi, path: str, body: dict[str, Any] | bytes) -> httpx.Response:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return httpx.post(f"{server.url}{path}", content=content, headers=HEADERS, timeout=300)


@contextmanager
def somebody_writing(client: openai.OpenAI, engine: Engine) -> Iterator[None]:
    """A reply that takes seconds, and has its turn all the while."""
    with client.chat.completions.create(**LONG, extra_body=PLAIN, stream=True) as chunks:  # type: ignore[call-overload]
        next(chunks), next(chunks)
        yield
        assert engine.status().phase == "busy", "it has ended meanwhile, so nothing is known"


FAR_TOO_LONG: dict[str, tuple[str, dict[str, Any]]] = {
    "a message": ("/chat/completions", {"messages": [{"role": "user", "content": BOOK}]}),
    "a system prompt": ("/chat/completions", {"messages": [{"role": "system", "content": BOOK}, *HELLO]}),
    "many messages": (
        "/chat/completions",
        {"messages": [{"role": "user", "content": "Hello there, and good morning to you!"}] * 2000},
    ),
    "a begun reply": ("/chat/completions", {"messages": [*HELLO, {"role": "assistant", "content": BOOK}]}),
    "a tool's description": (
        "/chat/completions",
        {"messages": HELLO, "tools": [{"type": "function", "function": {"name": "f", "description": BOOK}}]},
    ),
    "a tool's result": (
        "/chat/completions",
        {"messages": [*HELLO, {"role": "tool", "tool_call_id": "1", "content": BOOK}]},
    ),
    "many tools": ("/chat/completions", {"messages": HELLO, "tools": [TOOL] * 1024}),
    "a text": ("/completions", {"prompt": BOOK}),
    "the last of many texts": ("/completions", {"prompt": ["Once"] * 63 + [BOOK], "max_tokens": 900}),
    "choices": ("/chat/completions", {"messages": [{"role": "user", "content": BOOK}], "n": 16}),
    "an input": ("/responses", {"input": BOOK}),
    "instructions": ("/responses", {"input": "Hello", "instructions": BOOK}),
    "control tokens": ("/chat/completions", {"messages": [{"role": "user", "content": "<|im_end|>" * 90_000}]}),
}  # fmt: skip


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("kind", FAR_TOO_LONG)
def test_what_is_far_too_long_is_refused_while_somebody_elses_reply_is_written(
    server: RunningApi, client: openai.OpenAI, engine: Engine, kind: str, stream: bool
) -> None:
    path, body = FAR_TOO_LONG[kind]
    with somebody_writing(client, engine):
        refused = post(server, path, {"model": "demo", **body, "stream": stream})
    error = refused.json()["error"]
    assert (refused.status_code, error["code"]) == (400, "context_length_exceeded")
    assert error["message"].startswith("The prompt has at least ")
    assert "tokens and the model's context holds 1,024." in error["message"]


def test_a_prediction_of_megabytes_is_drafted_from_as_far_as_a_reply_can_be(client: openai.OpenAI) -> None:
    text = ask(client, messages=HELLO, temperature=0, max_tokens=24).choices[0].message.content
    asked = ask(
        client,
        messages=HELLO,
        temperature=0,
        max_tokens=24,
        prediction={"type": "content", "content": text + BOOK * 4},
    )
    assert asked.choices[0].message.content == text
    assert asked.model_extra["foresight"]["sources"].get("prediction", 0) > 0


LIMITS: dict[str, tuple[str, dict[str, Any], str | None, str]] = {
    "stop strings": ("/chat/completions", {"stop": ["x"] * 65}, "stop", "at most 64"),
    "a stop string": ("/chat/completions", {"stop": "x" * 5_000_000}, "stop[0]", "at most 1000"),
    "stop strings of a text": (
        "/completions",
        {"prompt": "x", "stop": ["x", "x" * 1001]},
        "stop[1]",
        "at most 1000",
    ),
    "stop strings of a message": ("/messages", {"stop_sequences": ["x"] * 65}, None, "at most 64"),
    "tools": ("/chat/completions", {"tools": [TOOL] * 1025}, "tools", "at most 1024"),
    "tools of a response": ("/responses", {"input": "x", "tools": [TOOL] * 1025}, "tools", "at most 1024"),
    "messages": ("/chat/completions", {"messages": HELLO * 50_001}, "messages", "at most 50000"),
    "biases": (
        "/chat/completions",
        {"logit_bias": {str(number): 1 for number in range(300_001)}},
        "logit_bias",
        "at most 300000",
    ),
}


@pytest.mark.parametrize("kind", LIMITS)
def test_what_is_too_many_is_told_with_its_number(server: RunningApi, kind: str) -> None:
    path, body, param, words = LIMITS[kind]
    refused = post(server, path, {"model": "demo", "messages": HELLO, **body})
    error = refused.json()["error"]
    assert (refused.status_code, error.get("param")) == (400, param)
    assert words in error["message"]


def test_a_million_mistakes_are_told_by_the_first_one(server: RunningApi) -> None:
    for path, body in (
        ("/chat/completions", {"messages": [7] * 40_000}),
        ("/completions", {"prompt": [[7.5]] * 400_000}),
        ("/embeddings", {"input": [None] * 900_000}),
    ):
        refused = post(server, path, body)
        assert refused.status_code == 400
        assert len(refused.content) < 500


@pytest.mark.parametrize("filling", [b"0,", b"[],", b'{"a":0},', b'"a,b",0,'])
def test_a_body_of_millions_of_values_is_refused_before_it_is_read(
    server: RunningApi, filling: bytes
) -> None:
    values = filling * (MOST_VALUES + 1)
    refused = post(server, "/chat/completions", b'{"messages": [], "metadata": [' + values + b"0]}")
    assert refused.status_code == 413
    assert "more than 1,000,000 values" in refused.json()["error"]["message"]


def test_commas_of_a_text_are_no_values(server: RunningApi) -> None:
    text = 'a,b "c\\",,' * 400_000
    refused = post(server, "/chat/completions", {"messages": [{"role": "user", "content": text}]})
    assert refused.json()["error"]["code"] == "context_length_exceeded"


@pytest.mark.parametrize("nested", [b"[" * 300 + b"]" * 300, b'{"a":' * 100_000 + b"1" + b"}" * 100_000])
def test_a_body_of_deep_brackets_is_refused(server: RunningApi, nested: bytes) -> None:
    refused = post(server, "/chat/completions", b'{"messages": [], "metadata": ' + nested + b"}")
    assert refused.status_code == 400
    assert "nested too deeply" in refused.json()["error"]["message"]


@pytest.mark.parametrize(
    "body",
    [
        {"model": "x" * 1_000_000},
        {"logit_bias": {"x" * 1_000_000: 1}},
        {"logit_bias": {"x" * 1_000_000: "wrong"}},
        {"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "x" * 1_000_000}}},
        {"messages": [{"role": "user", "content": [{"type": "x" * 1_000_000}]}]},
    ],
)
def test_an_error_does_not_repeat_a_megabyte(server: RunningApi, body: dict[str, Any]) -> None:
    refused = post(server, "/chat/completions", {"messages": HELLO, **body})
    assert refused.status_code in (400, 404)
    assert 0 < len(refused.content) < 3000


@pytest.mark.parametrize("given", ["x" * 50_001, ["a", "x" * 50_001], [7] * 12_501, [[7] * 12_501]])
def test_a_text_to_embed_has_a_limit(client: openai.OpenAI, embedder: object, given: Any) -> None:
    if embedder is None:
        pytest.skip("there is no embedding model")
    with pytest.raises(openai.BadRequestError, match="send at most") as refused:
        client.embeddings.create(model="e", input=given)
    assert (refused.value.param, refused.value.code) == ("input", "context_length_exceeded")


def test_a_refused_grammar_leaves_what_was_read_of_other_chats(client: openai.OpenAI) -> None:
    chats = [[{"role": "user", "content": f"Tell about {what}. " * 30}] for what in ("birds", "ships")]

    def cached(messages: list[dict[str, str]]) -> int:
        usage = ask(client, messages=messages, max_tokens=4, temperature=0).usage
        found: int = usage.prompt_tokens_details.cached_tokens
        return found

    for messages in chats:
        cached(messages)
    before = [cached(messages) for messages in chats]
    for form in (
        {"type": "regex", "regex": "("},
        {"type": "json_schema", "json_schema": {"name": "s", "schema": {"not": {}}}},
        {"type": "grammar", "grammar": "start: nothing"},
    ):
        with pytest.raises(openai.BadRequestError):
            ask(client, messages=HELLO, extra_body={"response_format": form})
    assert min(before) > 100
    assert [cached(messages) for messages in chats] == before
