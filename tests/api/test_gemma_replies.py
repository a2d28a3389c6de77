"""Gemma 4's replies through the API: its thoughts and their switch, whole and streamed."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from app.api.application import RunningApi, build_api
from app.api.services import ServedModel
from app.engine import Engine
from app.values.messages import ModelChoice
from app.web.listening import listen
from tests.api.conftest import KEY, services_of
from tests.engine.families import FAMILIES
from tests.engine.places import Places
from tests.engine.scripted import write_scripted

GEMMA = FAMILIES["Gemma 4"]
SWITCH = "{% if enable_thinking %}<|turn>system\n<|think|>\n<turn|>\n{% endif %}"
EMPTY = "{% if not enable_thinking %}<|channel>thought\n<channel|>{% endif %}"
TEMPLATE = SWITCH + GEMMA.template.removesuffix("{% endif %}") + EMPTY + "{% endif %}"
"""As published: thinking is asked for in the system turn, and a thought that is off is written empty."""
ON, OFF = {"reasoning_effort": "high"}, {"chat_template_kwargs": {"enable_thinking": False}}
REPLIES: dict[str, tuple[str, dict[str, Any], dict[str, Any], tuple[str, str]]] = {
    "on": (GEMMA.thinks, {"enable_thinking": True}, ON, ("Hm.", "Yes.")),
    "off": ("Yes.", {"enable_thinking": False}, OFF, ("", "Yes.")),
    "unasked": ("Yes.", {}, {}, ("", "Yes.")),
}


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
    running = RunningApi(build_api(services_of(engine, model=served), KEY), listen(0))
    yield running.url, request.param
    running.close()
    engine.close()


def post(url: str, **fields: Any) -> httpx.Response:
    body = {"messages": [{"role": "user", "content": "Hi"}], "temperature": 0, "max_tokens": 150, **fields}
    head = {"Authorization": f"Bearer {KEY}"}
    return httpx.post(f"{url}/chat/completions", json=body, headers=head, timeout=300)


def parts(message: dict[str, Any]) -> tuple[str, str]:
    """The thought and the answer in a message or a delta."""
    return message.get("reasoning_content") or "", message.get("content") or ""


def test_a_reply_is_told_apart_and_counted_whole_and_streamed(reply: tuple[str, str]) -> None:
    url, name = reply
    _, _, fields, (thought, answer) = REPLIES[name]
    whole = post(url, **fields).json()
    found = parts(whole["choices"][0]["message"])
    assert found == (thought, answer)
    counted = whole["usage"]["completion_tokens_details"]["reasoning_tokens"]
    assert (counted > 0) == bool(thought) and counted < whole["usage"]["completion_tokens"]
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
