"""How clients choose a level of thinking and a budget, under each server's own names."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from pydantic import ValidationError

from app.api.application import RunningApi, build_api
from app.api.chat_completions import ChatRequest, engine_requests
from app.api.errors import ApiError
from app.api.responses import ResponseRequest
from app.api.services import ServedModel
from app.conversation.tool_use import ToolUse
from app.engine import Engine
from app.values.chat_format import Thinking
from app.values.messages import Message, ModelChoice
from app.web.listening import listen
from tests.api.conftest import KEY, services_of
from tests.engine.places import Places
from tests.engine.scripted import write_scripted

ASKED = [{"role": "user", "content": "Hi"}]
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "<|im_start|>assistant\n"
    "{{ '<think>\n\n</think>\n\n' if enable_thinking is defined and not enable_thinking }}"
)


def chosen(**fields: Any) -> Thinking:
    return ChatRequest.model_validate({"messages": ASKED, **fields}).thinking


@pytest.mark.parametrize(
    ("fields", "thinking"),
    [
        ({}, Thinking()),
        ({"reasoning_effort": "high"}, Thinking("high")),
        ({"reasoning_effort": "none"}, Thinking("off")),
        ({"reasoning_effort": "xhigh"}, Thinking("max")),
        ({"reasoning": {"effort": "low", "max_tokens": 70}}, Thinking("low", 70)),
        ({"enable_thinking": False}, Thinking("off")),
        ({"chat_template_kwargs": {"enable_thinking": False}}, Thinking("off")),
        ({"chat_template_kwargs": {"thinking": True}}, Thinking("on")),
        ({"chat_template_kwargs": {"reasoning_effort": "low"}}, Thinking("low")),
        ({"chat_template_kwargs": {"reasoning_effort": {"a": 1}, "other": "x"}}, Thinking()),
        ({"thinking_budget": 300}, Thinking(budget=300)),
        ({"thinking_budget": 0}, Thinking("off")),
        ({"thinking_budget": -1}, Thinking()),
        ({"max_thinking_tokens": 300, "reasoning_effort": "low"}, Thinking("low", 300)),
    ],
)
def test_a_choice_is_read_from_every_field_that_servers_have_for_it(
    fields: dict[str, Any], thinking: Thinking
) -> None:
    assert chosen(**fields) == thinking
    asked = ResponseRequest.model_validate({"input": "Hi", **fields})
    assert asked.thinking == thinking


@pytest.mark.parametrize(
    "fields", [{"reasoning_effort": "banana"}, {"thinking_budget": -4}, {"chat_template_kwargs": "x"}]
)
def test_nonsense_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        chosen(**fields)


def test_variables_go_to_the_template_but_not_those_that_the_app_sets() -> None:
    values = {"enable_thinking": False, "persona": "pirate"}
    asked = ChatRequest.model_validate({"messages": ASKED, "chat_template_kwargs": values})
    model = ServedModel("m", ModelChoice("m"), Thinking("high"))
    (request,) = engine_requests(asked, model, (Message("user", "Hi"),), ToolUse(), None)
    assert (json.loads(request.variables), request.options.thinking) == (values, Thinking("off"))
    unchosen = ChatRequest.model_validate({"messages": ASKED})
    (request,) = engine_requests(unchosen, model, (Message("user", "Hi"),), ToolUse(), None)
    assert (request.variables, request.options.thinking) == ("", Thinking("high"))
    asked = ChatRequest.model_validate({"messages": ASKED, "chat_template_kwargs": {"messages": []}})
    with pytest.raises(ApiError, match="chat_template_kwargs: messages is set by Foresight: leave it out"):
        engine_requests(asked, model, (Message("user", "Hi"),), ToolUse(), None)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = write_scripted(
        tmp_path_factory.mktemp("api") / "thinks", "<think>\nSo hm.\n</think>\n\nHello!", TEMPLATE
    )
    engine = Engine(Places({"thinks": folder.path}))
    served = ServedModel("thinks", ModelChoice("thinks", dtype="float32", device="cpu"))
    running = RunningApi(build_api(services_of(engine, model=served), KEY), listen(0))
    yield running.url
    running.close()
    engine.close()


def post(url: str, **fields: Any) -> httpx.Response:
    head = {"Authorization": f"Bearer {KEY}"}
    body = {"messages": ASKED, "temperature": 0, "max_tokens": 60, **fields}
    return httpx.post(f"{url}/chat/completions", json=body, headers=head, timeout=300)


def test_a_request_switches_thinking_and_limits_it(url: str) -> None:
    usual = post(url).json()["usage"]["prompt_tokens"]
    for fields in ({"reasoning_effort": "none"}, {"chat_template_kwargs": {"enable_thinking": False}}):
        assert post(url, **fields).json()["usage"]["prompt_tokens"] > usual
    assert post(url, reasoning_effort="high").json()["usage"]["prompt_tokens"] == usual
    short, whole = post(url, thinking_budget=3).json(), post(url).json()
    assert short["choices"][0]["message"] != whole["choices"][0]["message"]
    refused = post(url, reasoning_effort="banana")
    assert refused.status_code == 400
    assert "reasoning_effort" in refused.json()["error"]["message"]


def test_a_reply_that_was_cut_in_its_thought_continues_in_it(url: str) -> None:
    cut = post(url, max_tokens=12).json()["choices"][0]["message"]
    assert (cut["reasoning_content"], cut["content"]) == ("So h", "")
    rest = post(url, messages=[*ASKED, cut]).json()
    message, usage = rest["choices"][0]["message"], rest["usage"]
    assert (message["reasoning_content"], message["content"]) == ("m.", "Hello!")
    counted = usage["completion_tokens_details"]["reasoning_tokens"]
    assert 0 < counted < usage["completion_tokens"]


def test_a_switch_of_another_type_is_refused() -> None:
    asked = ChatRequest.model_validate(
        {"messages": ASKED, "chat_template_kwargs": {"enable_thinking": {"a": 1}}}
    )
    with pytest.raises(ApiError, match="chat_template_kwargs: enable_thinking must be a word, true or false"):
        _ = asked.template_variables
    empty = {"enable_thinking": None, "thinking": "deep"}
    assert ChatRequest.model_validate({"messages": ASKED, "chat_template_kwargs": empty}).template_variables
