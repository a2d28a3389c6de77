"""Anthropic's messages have the text of chat completions, in Anthropic's form, and so do their errors."""

import json
from typing import Any

import httpx
import openai
import pytest

from app.api.application import RunningApi
from tests.api.conftest import KEY
from tests.api.test_chat_completions import ask

ASKED = [{"role": "user", "content": [{"type": "text", "text": "Say hello"}]}]
WEATHER = {
    "name": "weather",
    "input_schema": {
        "type": "object",
        "properties": {"city": {"type": "string", "maxLength": 4}},
        "required": ["city"],
    },
}


def post(server: RunningApi, path: str = "/messages", **fields: Any) -> httpx.Response:
    body = {"model": "demo", "max_tokens": 24, "temperature": 0, "messages": ASKED, **fields}
    return httpx.post(server.url + path, json=body, headers={"x-api-key": KEY}, timeout=300)


def events(server: RunningApi, **fields: Any) -> list[dict[str, Any]]:
    lines = post(server, stream=True, **fields).text.splitlines()
    found = [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]
    names = [line.removeprefix("event: ") for line in lines if line.startswith("event: ")]
    assert names == [event["type"] for event in found]
    return found


def test_a_message_has_the_text_of_a_chat_completion(server: RunningApi, client: openai.OpenAI) -> None:
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Say hello"}]
    expected = ask(client, messages=messages, temperature=0)
    found = post(server, system="Be brief.").json()
    assert found["content"] == [{"type": "text", "text": expected.choices[0].message.content}]
    assert (found["type"], found["role"], found["model"]) == ("message", "assistant", "demo")
    assert found["stop_reason"] in ("end_turn", "max_tokens")
    used = found["usage"]
    assert used["input_tokens"] + used["cache_read_input_tokens"] == expected.usage.prompt_tokens
    assert used["output_tokens"] == expected.usage.completion_tokens
    counted = post(server, "/messages/count_tokens", system="Be brief.").json()
    assert counted == {"input_tokens": expected.usage.prompt_tokens}


@pytest.mark.parametrize(
    "fields", [{}, {"tools": [WEATHER], "tool_choice": {"type": "any"}, "max_tokens": 90}]
)
def test_events_tell_what_the_whole_message_has(server: RunningApi, fields: dict[str, Any]) -> None:
    whole, found = post(server, **fields).json(), events(server, **fields)
    assert [found[0]["type"], found[-2]["type"], found[-1]["type"]] == [
        "message_start", "message_delta", "message_stop",
    ]  # fmt: skip
    assert found[-2]["delta"]["stop_reason"] == whole["stop_reason"]
    starts = [event["content_block"] for event in found if event["type"] == "content_block_start"]
    ends = [event["index"] for event in found if event["type"] == "content_block_stop"]
    assert ends == list(range(len(starts))) and len(starts) == len(whole["content"])
    for index, (start, block) in enumerate(zip(starts, whole["content"], strict=True)):
        deltas = [
            event["delta"] for event in found
            if event["type"] == "content_block_delta" and event["index"] == index
        ]  # fmt: skip
        written = "".join(delta.get("text", delta.get("partial_json", "")) for delta in deltas)
        assert start["type"] == block["type"]
        assert (json.loads(written) if "input" in block else written) == block.get("input", block.get("text"))
    assert not fields or (whole["stop_reason"] == "tool_use" and whole["content"][0]["name"] == "weather")


def test_a_call_and_its_result_come_back(server: RunningApi) -> None:
    call = {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Rome"}}
    thought = {"type": "thinking", "thinking": "Hm.", "signature": ""}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": "21"}]}
    turns = [
        *ASKED,
        {"role": "assistant", "content": [thought, call]},
        {"role": "user", "content": [result, {"type": "text", "text": "Thanks"}]},
    ]
    shorter, longer = (
        post(server, "/messages/count_tokens", messages=turns[:count], tools=[WEATHER]).json()["input_tokens"]
        for count in (1, 3)
    )
    assert longer > shorter + 10
    assert post(server, messages=turns, tools=[WEATHER]).status_code == 200


def test_a_stop_sequence_is_named_as_the_end(server: RunningApi) -> None:
    text = post(server).json()["content"][0]["text"]
    found = post(server, stop_sequences=[text[3:6]]).json()
    assert (found["stop_reason"], found["stop_sequence"]) == ("stop_sequence", text[3:6])
    assert found["content"][0]["text"] == text[: text.index(text[3:6])]


def test_an_answer_has_the_form_of_a_schema(server: RunningApi) -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"const": 5}},
        "required": ["a"],
        "additionalProperties": False,
    }
    form = {"format": {"type": "json_schema", "schema": schema}}
    for fields in ({"output_config": form}, {"output_format": form["format"]}):
        found = post(server, **fields, thinking={"type": "disabled"})
        assert json.loads(found.json()["content"][0]["text"]) == {"a": 5}


IMAGE = [{"role": "user", "content": [{"type": "image", "source": {}}]}]


@pytest.mark.parametrize(
    ("fields", "status", "kind", "words"),
    [
        ({"model": "nothing"}, 404, "not_found_error", "no model 'nothing'"),
        ({"messages": IMAGE}, 400, "invalid_request_error", "messages[0].content[0]: Foresight reads only text"),
        ({"temperature": -1}, 400, "invalid_request_error", "temperature"),
        ({"system": 5}, 400, "invalid_request_error", "system: must be a text or a list of blocks."),
        ({"tools": [{"type": "web_search_1", "name": "x"}]}, 400, "invalid_request_error", "web_search_1"),
        ({"tools": [{"input_schema": {}}]}, 400, "invalid_request_error", "tools[0].name"),
        (
            {"output_config": {"format": {"type": "json_schema", "schema": {"type": "x"}}}},
            400, "invalid_request_error", "schema",
        ),
    ],
)  # fmt: skip
@pytest.mark.parametrize("stream", [False, True])
def test_errors_have_anthropics_form(
    server: RunningApi, fields: dict[str, Any], status: int, kind: str, words: str, stream: bool
) -> None:
    answer = post(server, stream=stream, **fields)
    assert (answer.status_code, answer.json()["type"], answer.json()["error"]["type"]) == (
        status,
        "error",
        kind,
    )
    assert words in answer.json()["error"]["message"]


def test_without_the_key_the_error_has_anthropics_form(server: RunningApi) -> None:
    answer = httpx.post(server.url + "/messages", json={}, headers={"x-api-key": "wrong"})
    assert (answer.status_code, answer.json()["error"]["type"]) == (401, "authentication_error")
