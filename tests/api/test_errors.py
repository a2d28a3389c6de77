"""What is refused is told in OpenAI's form: the status, the parameter, a code that clients know."""

import json
from typing import Any

import openai
import pytest

from app.api.application import RunningApi
from tests.api.test_chat_completions import WEATHER, ask
from tests.engine.text.test_sandbox import chained_references

NO_SCHEMA = {"type": "object", "properties": {"a": {"type": "nonsense"}}}
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no messages": ({"messages": []}, "messages"),
    "an image": (
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]},
        "messages[0].content[0]",
    ),
    "a negative temperature": ({"temperature": -1}, "temperature"),
    "too many choices": ({"n": 1000}, "n"),
    "a tiny penalty": ({"repetition_penalty": 5e-324}, "repetition_penalty"),
    "arguments that are no object": (
        {"tools": [{"type": "function", "function": {"name": "x", "parameters": {"type": "string"}}}]},
        "tools[0].function.parameters",
    ),
    "sound": ({"modalities": ["text", "audio"]}, "modalities"),
    "functions of old": ({"functions": [{"name": "x"}]}, "functions"),
    "an unknown tool": (
        {"tools": [WEATHER], "tool_choice": {"type": "function", "function": {"name": "x"}}},
        "tool_choice",
    ),
    "top_logprobs alone": ({"top_logprobs": 2}, "top_logprobs"),
    "a bias of no token": ({"logit_bias": {"x": 1}}, "logit_bias"),
    "a schema that ends the process that compiles it": (
        {
            "response_format": {
                "type": "json_schema",
                "json_schema": {"schema": json.loads(chained_references(4_500))},
            }
        },
        "response_format",
    ),
    "a broken regex": ({"response_format": {"type": "regex", "regex": "(a"}}, "response_format"),
    "a broken schema": (
        {"response_format": {"type": "json_schema", "json_schema": {"schema": {"type": "nonsense"}}}},
        "response_format",
    ),
    "a schema that no grammar can hold an answer to": (
        {"response_format": {"type": "json_schema", "json_schema": {"schema": {"not": {}}}}},
        "response_format",
    ),
    "properties without names": (
        {
            "tools": [{"type": "function", "function": {"name": "x", "parameters": {"properties": [1]}}}],
            "tool_choice": "required",
        },
        "tools[0].function.parameters",
    ),
    "a schema with a keyword of another type": (
        {"response_format": {"type": "json_object", "schema": {"properties": {"a": {}}, "required": 5}}},
        "response_format",
    ),
    "a format in a field of vLLM's": ({"guided_json": {"type": "object"}}, "guided_json"),
    "a format in another field of vLLM's": ({"structured_outputs": {"regex": "a"}}, "structured_outputs"),
    "a format in a field of llama.cpp's": ({"grammar": 'root ::= "a"'}, "grammar"),
    "a broken schema of a tool": (
        {
            "tools": [{"type": "function", "function": {"name": "x", "parameters": NO_SCHEMA}}],
            "tool_choice": "required",
        },
        "tools",
    ),
}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("kind", REFUSED)
def test_what_cannot_be_done_names_its_parameter(client: openai.OpenAI, kind: str, stream: bool) -> None:
    body, param = REFUSED[kind]
    with pytest.raises(openai.BadRequestError) as refused:
        ask(client, **{"extra_body": {**body, "stream": stream}})
    assert refused.value.param == param
    assert refused.value.type == "invalid_request_error"
    assert refused.value.message


def test_a_prompt_longer_than_the_context_is_refused(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="context") as refused:
        ask(client, messages=[{"role": "user", "content": "word " * 5000}])
    assert refused.value.code == "context_length_exceeded"


def test_a_wrong_key_is_no_fault_of_the_request(server: RunningApi) -> None:
    stranger = openai.OpenAI(base_url=server.url, api_key="sk-other", max_retries=0)
    with stranger, pytest.raises(openai.AuthenticationError) as refused:
        stranger.models.list()
    assert (refused.value.type, refused.value.code) == ("authentication_error", "invalid_api_key")


def test_an_unknown_model_is_not_found(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as missing:
        ask(client, model="org/unknown")
    assert (missing.value.code, missing.value.param) == ("model_not_found", "model")
