"""What a chat's plan reads of the model before it is written."""

import asyncio

import pytest

from app.api.chat_completions import ChatCompletionPlan
from app.api.engine_request import ChatRequest, chat_plan
from app.api.services import ApiServices, served_model
from app.engine import Engine
from app.values.messages import ModelChoice


@pytest.mark.parametrize(
    ("message", "tools", "form", "is_read"),
    [
        ({"role": "user", "content": "Hi"}, [], None, False),
        ({"role": "user", "content": "Hi"}, [{"function": {"name": "tool"}}], None, True),
        ({"role": "tool", "content": "21", "tool_call_id": "1"}, [], None, True),
        ({"role": "user", "content": "Hi"}, [], {"type": "json_object"}, True),
    ],
)
def test_a_template_is_read_only_for_tools_or_a_form_of_the_answer(
    engine: Engine, message: dict[str, str], tools: list[object], form: object, is_read: bool
) -> None:
    choices = list[ModelChoice]()

    def template(choice: ModelChoice) -> str:
        choices.append(choice)
        return ""

    model = served_model(ModelChoice("demo"))
    services = ApiServices(engine, lambda: model, list, lambda: None, template)
    asked = ChatRequest.model_validate({"messages": [message], "tools": tools, "response_format": form})
    asyncio.run(chat_plan(services, asked, ChatCompletionPlan))
    assert bool(choices) == is_read
