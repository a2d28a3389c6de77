"""Answers have the form of a schema: with its own properties, however ordinary types write it."""

import json
from typing import Any

import openai
import pytest

from app.api.answers import NOT_ENFORCED
from app.api.errors import ApiError
from app.api.tool_fields import ResponseFormat, form_grammar
from app.values.logits import Grammar
from tests.api.test_chat_completions import ask

SCHEMA = {"type": "object", "properties": {"hi": {"const": "yes"}}}


def form(schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}


@pytest.mark.parametrize("seed", range(4))
def test_an_object_has_no_properties_but_those_of_its_schema(client: openai.OpenAI, seed: int) -> None:
    schema = {"type": "object", "properties": {"x": {"type": "boolean"}}, "required": ["x"]}
    given: dict[str, Any] = {"response_format": form(schema), "seed": seed, "max_tokens": 60}
    answer = ask(client, **given)
    assert answer.choices[0].finish_reason == "stop"
    assert json.loads(answer.choices[0].message.content).keys() == {"x"}
    plain = ask(client, **given, extra_body={"foresight": {"decoder": "plain"}})
    assert plain.choices[0].message.content == answer.choices[0].message.content


def test_names_and_different_items_are_kept_as_far_as_a_grammar_can(client: openai.OpenAI) -> None:
    schema = {
        "type": "object",
        "properties": {
            "set": {"type": "array", "items": {"enum": ["a", "b"]}, "uniqueItems": True},
            "by_name": {
                "type": "object",
                "propertyNames": {"enum": ["k"]},
                "additionalProperties": {"type": "boolean"},
            },
        },
        "required": ["set", "by_name"],
    }
    given: Any = {
        "model": "demo",
        "messages": [{"role": "user", "content": "x"}],
        "max_tokens": 90,
        "seed": 2,
    }
    raw = client.chat.completions.with_raw_response.create(**given, response_format=form(schema))
    assert raw.headers[NOT_ENFORCED] == "uniqueItems"
    found = json.loads(raw.parse().choices[0].message.content or "")
    assert len(found["set"]) <= 2 and found["by_name"].keys() <= {"k"}
    assert NOT_ENFORCED not in client.chat.completions.with_raw_response.create(**given).headers


@pytest.mark.parametrize(
    "given",
    [
        {"type": "json_schema", "json_schema": {"schema": SCHEMA}},
        {"type": "json_schema", "schema": SCHEMA},
        {"type": "json_object", "schema": SCHEMA},
    ],
)
def test_a_schema_is_applied_wherever_servers_take_it(given: dict[str, Any]) -> None:
    assert form_grammar(ResponseFormat.model_validate(given)) == Grammar("json_schema", json.dumps(SCHEMA))


def test_an_empty_list_is_an_empty_object_as_php_writes_it(client: openai.OpenAI) -> None:
    parameters: Any = {"type": "object", "properties": [], "required": []}
    sent: dict[str, Any] = {
        "chat_template_kwargs": [],
        "stream_options": [],
        "reasoning": [],
        "foresight": [],
    }
    for schema in (parameters, []):
        tool = {"type": "function", "function": {"name": "now", "parameters": schema}}
        answer = ask(client, tools=[tool], tool_choice="required", max_tokens=60, extra_body=sent)
        [call] = answer.choices[0].message.tool_calls
        assert json.loads(call.function.arguments) == {}


@pytest.mark.parametrize("kind", ["regex", "grammar", "json_schema"])
def test_a_form_without_its_source_is_refused(kind: Any) -> None:
    with pytest.raises(ApiError, match=kind):
        form_grammar(ResponseFormat(type=kind))
