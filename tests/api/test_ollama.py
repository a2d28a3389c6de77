"""Ollama's routes have the texts of the other routes, as lines of JSON."""

import json
from typing import Any

import httpx
import openai
import pytest

from app.api.application import RunningApi
from app.values.messages import ModelFolder
from tests.api.conftest import KEY
from tests.api.test_chat_completions import WEATHER, ask

ASKED = [{"role": "user", "content": "Say hello"}]
COLD = {"temperature": 0, "num_predict": 24}


def call(server: RunningApi, path: str, **fields: Any) -> httpx.Response:
    url = server.url.removesuffix("/v1") + path
    headers = {"Authorization": f"Bearer {KEY}"}
    return httpx.request("POST" if fields else "GET", url, json=fields or None, headers=headers, timeout=300)


def lines(answer: httpx.Response) -> list[dict[str, Any]]:
    assert answer.headers["content-type"].startswith("application/x-ndjson")
    return [json.loads(line) for line in answer.text.splitlines()]


def test_a_chat_has_the_text_of_a_chat_completion(server: RunningApi, client: openai.OpenAI) -> None:
    expected = ask(client, messages=ASKED, temperature=0)
    whole = call(server, "/api/chat", model="demo", messages=ASKED, options=COLD, stream=False).json()
    assert whole["message"] == {"role": "assistant", "content": expected.choices[0].message.content}
    assert whole["done"] and whole["done_reason"] == expected.choices[0].finish_reason
    assert whole["prompt_eval_count"] == expected.usage.prompt_tokens
    assert whole["eval_count"] == expected.usage.completion_tokens
    *parts, last = lines(call(server, "/api/chat", model="demo:latest", messages=ASKED, options=COLD))
    assert "".join(part["message"]["content"] for part in parts) == whole["message"]["content"]
    assert not any(part["done"] for part in parts) and last["done"]
    assert last["eval_count"] == whole["eval_count"]


def test_a_prompt_is_answered_or_continued(server: RunningApi, client: openai.OpenAI) -> None:
    fields = {"model": "demo", "prompt": "Say hello", "options": COLD}
    answered = call(server, "/api/generate", **fields, stream=False).json()
    assert answered["response"] == ask(client, messages=ASKED, temperature=0).choices[0].message.content
    continued = client.completions.create(model="demo", prompt="Say hello", temperature=0, max_tokens=24)
    parts = lines(call(server, "/api/generate", **fields, raw=True))
    assert "".join(part["response"] for part in parts) == continued.choices[0].text


def test_a_call_and_its_result_are_part_of_the_prompt(server: RunningApi) -> None:
    called = {"function": {"name": "weather", "arguments": {"city": "Rome"}}}
    turns = [
        *ASKED,
        {"role": "assistant", "tool_calls": [called]},
        {"role": "tool", "content": "21", "tool_name": "weather"},
    ]
    fields: dict[str, Any] = {"model": "demo", "tools": [WEATHER], "options": COLD, "stream": False}
    shorter, longer = (call(server, "/api/chat", messages=one, **fields).json() for one in (ASKED, turns))
    assert longer["prompt_eval_count"] > shorter["prompt_eval_count"] + 10


FIVE = {"type": "object", "properties": {"a": {"const": 5}}, "required": ["a"], "additionalProperties": False}


@pytest.mark.parametrize("form", ["json", FIVE])
def test_an_answer_is_json_if_asked(server: RunningApi, form: Any) -> None:
    options = {**COLD, "num_predict": 200, "seed": 3}
    answer = call(
        server, "/api/chat", model="demo", messages=ASKED, format=form, options=options, stream=False
    )
    found = json.loads(answer.json()["message"]["content"])
    assert isinstance(found, dict) and (form == "json" or found == {"a": 5})


def test_models_are_listed_and_described(server: RunningApi) -> None:
    assert call(server, "/api/chat", model="demo", messages=[], stream=False).json()["done_reason"] == "load"
    assert call(server, "/").status_code == 200  # what Ollama's command line asks first
    assert call(server, "/api/version").json()["version"]
    headers = {"Authorization": f"Bearer {KEY}"}
    for path in ("/api/version", "/api/tags"):
        assert httpx.head(server.url.removesuffix("/v1") + path, headers=headers).status_code == 200
    assert [model["model"] for model in call(server, "/api/tags").json()["models"]] == ["demo"]
    assert call(server, "/api/chat", model="demo", messages=ASKED, options=COLD).status_code == 200
    shown = call(server, "/api/show", model="demo").json()
    assert call(server, "/api/show", model="", name="demo:latest").json() == shown  # as older clients send it
    family = shown["model_info"]["general.architecture"]
    assert shown["model_info"][f"{family}.context_length"] > 0
    assert {"completion", "tools"} <= set(shown["capabilities"])


def test_texts_are_embedded(server: RunningApi, embedder: ModelFolder | None) -> None:
    if embedder is None:
        answer = call(server, "/api/embed", model="x", input="Hello")
        assert answer.status_code == 404 and "embedding model" in answer.json()["error"]
        return
    both = call(server, "/api/embed", model="x", input=["Hello", "There"]).json()["embeddings"]
    one = call(server, "/api/embed", model="x", input="Hello").json()["embeddings"]
    assert one[0] == pytest.approx(both[0], abs=1e-5)


@pytest.mark.parametrize(
    ("path", "fields", "status", "words"),
    [
        ("/api/chat", {"model": "nothing", "messages": ASKED}, 404, "no model 'nothing'"),
        ("/api/chat", {"messages": ASKED, "options": {"temperature": -1}}, 400, "options.temperature:"),
        ("/api/chat", {"messages": ASKED, "options": {"num_predict": "many"}}, 400, "options.num_predict:"),
        ("/api/chat", {"messages": ASKED, "think": "very"}, 400, "think: "),
        ("/api/chat", {"messages": ASKED, "format": "xml"}, 400, 'format: must be "json" or a JSON Schema'),
        ("/api/chat", {"messages": ASKED, "response_format": {"type": "json_object"}}, 400, "send format."),
        ("/api/chat", {"messages": [{"role": "user", "content": "x", "images": ["aa"]}]}, 400, "images"),
        ("/api/chat", {"messages": ASKED, "tools": [{"function": {}}]}, 400, "tools[0].function.name"),
        ("/api/generate", {"prompt": "x", "suffix": "y"}, 400, "suffix"),
        ("/api/embed", {"input": []}, 400, "input"),
        ("/api/pull", {"model": "x"}, 404, "POST /api/pull"),
    ],
)
def test_errors_have_ollamas_form(
    server: RunningApi, path: str, fields: dict[str, Any], status: int, words: str
) -> None:
    answer = call(server, path, **fields)
    assert answer.status_code == status and words in answer.json()["error"]


def test_only_the_health_of_the_server_is_told_without_a_key(server: RunningApi) -> None:
    url = server.url.removesuffix("/v1")
    assert httpx.get(f"{url}/health").json() == {"status": "ok"}
    refused = httpx.get(f"{url}/api/tags")
    assert refused.status_code == 401 and "key" in refused.json()["error"]
