"""What the engine reads of a client's messages."""

import pytest

from app.api.chat_messages import ChatMessage, engine_messages
from app.api.errors import ApiError
from app.messages import Message


def read(*given: dict[str, object], system: str = "") -> list[tuple[str, str]]:
    messages = engine_messages([ChatMessage.model_validate(one) for one in given], system)
    assert all(isinstance(message, Message) for message in messages)
    return [(message.role, message.content) for message in messages]


def call(name: str, arguments: str) -> dict[str, object]:
    return {"role": "assistant", "tool_calls": [{"function": {"name": name, "arguments": arguments}}]}


def test_system_prompts_are_one_at_the_beginning() -> None:
    assert read(
        {"role": "user", "content": "Hi"},
        {"role": "developer", "content": "Be brief."},
        {"role": "system", "content": "Be kind."},
        system="Tools",
    ) == [("system", "Be brief.\n\nBe kind.\n\nTools"), ("user", "Hi")]


def test_parts_of_text_are_lines() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert read({"role": "user", "content": parts}) == [("user", "a\nb")]


def test_calls_and_results_are_written_as_the_models_know_them() -> None:
    shown = '<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>'
    other = '<tool_call>\n{"name": "g", "arguments": {}}\n</tool_call>'
    assert read(
        {"role": "user", "content": "Go"},
        call("f", '{"a": 1}'),
        call("g", ""),
        {"role": "tool", "content": "one"},
        {"role": "tool", "content": "two"},
    ) == [
        ("user", "Go"),
        ("assistant", f"{shown}\n{other}"),
        ("user", "<tool_response>\none\n</tool_response>\n<tool_response>\ntwo\n</tool_response>"),
    ]


def test_an_empty_reply_is_nothing_to_go_on_from() -> None:
    assert read({"role": "user", "content": "Hi"}, {"role": "assistant", "content": None}) == [("user", "Hi")]
    assert read({"role": "user", "content": "Hi"}, {"role": "assistant", "content": "He"})[-1] == (
        "assistant",
        "He",
    )


@pytest.mark.parametrize(
    "given", [[{"role": "system", "content": "x"}], [{"role": "user", "content": [{"type": "input_audio"}]}]]
)
def test_what_cannot_be_read_names_its_place(given: list[dict[str, object]]) -> None:
    with pytest.raises(ApiError) as refused:
        read(*given)
    assert refused.value.param and refused.value.param.startswith("messages")
