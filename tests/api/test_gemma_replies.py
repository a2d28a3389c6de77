"""Gemma 4's replies through the API: its thoughts and their switch, and its calls, whole and streamed."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import httpx
import pytest

from app.api.application import RunningApi, build_api
from app.api.services import ServedModel
from app.engine import Engine
from app.values.messages import ModelChoice
from app.web.listening import listen
from tests.api.conftest import KEY, services_of
from tests.engine.families import FAMILIES, ROME
from tests.engine.places import Places
from tests.engine.scripted import write_scripted

GEMMA = FAMILIES["Gemma 4"]
SWITCH = "{% if enable_thinking %}<|turn>system\n<|think|>\n<turn|>\n{% endif %}"
EMPTY = "{% if not enable_thinking %}<|channel>thought\n<channel|>{% endif %}"
TEMPLATE = SWITCH + GEMMA.template.removesuffix("{% endif %}") + EMPTY + "{% endif %}"
"""As published: thinking is asked for in the system turn, and a thought that is off is written empty."""
ON, OFF = {"reasoning_effort": "high"}, {"chat_template_kwargs": {"enable_thinking": False}}
CITY = {"type": "object", "properties": {"city": {"type": "string"}}}
TOOLS = [
    {"type": "function", "function": {"name": "weather", "description": "Of a city.", "parameters": CITY}}
]
REPLIES: dict[str, tuple[str, dict[str, Any], dict[str, Any], tuple[str, str, str]]] = {
    "on": (GEMMA.thinks, {"enable_thinking": True}, ON, ("Hm.", "Yes.", "")),
    "off": ("Yes.", {"enable_thinking": False}, OFF, ("", "Yes.", "")),
    "unasked": ("Yes.", {}, {}, ("", "Yes.", "")),
    "call": (
        GEMMA.calls, {"enable_thinking": True, "tools": TOOLS}, {**ON, "tools": TOOLS}, ("Hm.", "", ROME)
    ),
}  # fmt: skip


@pytest.fixture(scope="module", params=REPLIES)
def reply(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, str]]:
    """The address of the API of a model that writes one of REPLIES, and the name of the reply."""
    script, values, _, _ = REPLIES[request.param]
    folder = write_scripted(
        tmp_path_factory.mktemp("gemma") / "gemma", script, TEMPLATE, controls=(*GEMMA.controls, "<|think|>"),
        **values,
    )  # fmt: skip
    engine = Engine(Places({"gemma": folder.path}))
    served = ServedModel("gemma", ModelChoice("gemma", dtype="float32", device="cpu"))
    services = replace(services_of(engine, model=served), template=lambda _choice: TEMPLATE)
    running = RunningApi(build_api(services, KEY), listen(0))
    yield running.url, request.param
    running.close()
    engine.close()


def post(url: str, **fields: Any) -> httpx.Response:
    body = {"messages": [{"role": "user", "content": "Hi"}], "temperature": 0, "max_tokens": 150, **fields}
    head = {"Authorization": f"Bearer {KEY}"}
    return httpx.post(f"{url}/chat/completions", json=body, headers=head, timeout=300)


def parts(message: dict[str, Any]) -> tuple[str, str, str]:
    """The thought, the answer and the arguments of calls in a message or a delta."""
    called = "".join(call["function"]["arguments"] for call in message.get("tool_calls") or ())
    return message.get("reasoning_content") or "", message.get("content") or "", called


def test_a_reply_is_told_apart_and_counted_whole_and_streamed(reply: tuple[str, str]) -> None:
    url, name = reply
    _, _, fields, expected = REPLIES[name]
    whole = post(url, **fields).json()
    found = parts(whole["choices"][0]["message"])
    assert found == expected
    assert whole["choices"][0]["finish_reason"] == ("tool_calls" if found[2] else "stop")
    counted = whole["usage"]["completion_tokens_details"]["reasoning_tokens"]
    assert (counted > 0) == bool(found[0]) and counted < whole["usage"]["completion_tokens"]
    streamed = post(url, stream=True, **fields).text
    data = [line.removeprefix("data: ") for line in streamed.split("\n") if line.startswith("data: {")]
    deltas = [one["choices"][0]["delta"] for one in map(json.loads, data) if one["choices"]]
    assert tuple(map("".join, zip(*map(parts, deltas), strict=True))) == found


def test_thinking_is_switched_in_the_prompt(reply: tuple[str, str]) -> None:
    url, name = reply
    if name != "unasked":
        pytest.skip("another reply's model")
    sizes = [post(url, max_tokens=1, **one).json()["usage"]["prompt_tokens"] for one in ({}, ON, OFF)]
    assert sizes[0] == sizes[2] != sizes[1]


def test_a_stop_string_inside_arguments_ends_the_reply_without_a_call_to_make(reply: tuple[str, str]) -> None:
    url, name = reply
    if name != "call":
        pytest.skip("another reply's model")
    for stop, reason in (("om", "stop"), ("<tool_call|>", "tool_calls")):
        assert post(url, stop=[stop], **REPLIES[name][2]).json()["choices"][0]["finish_reason"] == reason
