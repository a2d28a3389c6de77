"""What the engine reads of a client's messages."""

from dataclasses import replace
from time import process_time

import pytest

from app.api.chat_messages import ChatMessage, engine_messages
from app.api.errors import ApiError
from app.values.chat_format import HERMES as EXPLAINED
from app.values.chat_format import CallFormat, ChatFormat, ReplyFormat
from app.values.messages import Message


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


def test_a_system_message_alone_is_a_chat() -> None:
    assert read({"role": "system", "content": "Be brief."}) == [("system", "Be brief.")]
    assert read({"role": "developer", "content": "Be brief."}) == [("system", "Be brief.")]


def test_an_empty_reply_is_nothing_to_go_on_from() -> None:
    assert read({"role": "user", "content": "Hi"}, {"role": "assistant", "content": None}) == [("user", "Hi")]
    assert read({"role": "user", "content": "Hi"}, {"role": "assistant", "content": "He"})[-1] == (
        "assistant",
        "He",
    )


@pytest.mark.parametrize(
    "given", [[{"role": "system", "content": ""}], [{"role": "user", "content": [{"type": "input_audio"}]}]]
)
def test_what_cannot_be_read_names_its_place(given: list[dict[str, object]]) -> None:
    with pytest.raises(ApiError) as refused:
        read(*given)
    assert refused.value.param and refused.value.param.startswith("messages")


HERMES = replace(EXPLAINED, shows_tools=True)
LLAMA, FUNCTIONARY = replace(HERMES, can_repeat=False), replace(HERMES, takes_text=True)


def native(form: CallFormat, *given: dict[str, object]) -> tuple[Message, ...]:
    chat_format = ChatFormat(ReplyFormat(calls=form))
    return engine_messages([ChatMessage.model_validate(one) for one in given], "", chat_format)


def calls_of(*calls: tuple[str | None, str]) -> dict[str, object]:
    made = [{"id": name, "function": {"name": "f", "arguments": arguments}} for name, arguments in calls]
    return {"role": "assistant", "content": None, "tool_calls": made}


def result(name: str | None, text: str) -> dict[str, object]:
    return {"role": "tool", "tool_call_id": name, "content": text}


GO = {"role": "user", "content": "Go"}


def test_a_template_gets_calls_and_results_as_such() -> None:
    _, said, second, first = native(
        HERMES,
        GO,
        calls_of(("call_a", '{"a": 1}'), ("call_b", "")),
        result("call_b", "B"),
        result("call_a", "A"),
    )
    assert [call.arguments for call in said.calls] == ['{"a": 1}', "{}"] and said.content == ""
    assert (second.call_id, first.call_id) == (said.calls[1].id, said.calls[0].id)
    assert (first.role, first.name, first.content) == ("tool", "f", "A")
    assert all(len(call.id) == 9 and call.id.isalnum() for call in said.calls)


def test_calls_without_ids_are_answered_in_their_order() -> None:
    turn = (calls_of((None, "{}"), (None, "{}")), result(None, "A"), result(None, "B"))
    messages = native(HERMES, GO, *turn, *turn)
    made = [call.id for message in messages for call in message.calls]
    assert [message.call_id for message in messages if message.role == "tool"] == made
    assert len(set(made)) == 4


def test_a_template_that_takes_one_call_gets_each_with_its_result() -> None:
    messages = native(
        LLAMA, GO, calls_of(("a", "{}"), ("b", "{}")), result("a", "A"), result("b", "B"), result("c", "C")
    )
    assert [(message.role, message.content) for message in messages] == [
        ("user", "Go"), ("assistant", ""), ("tool", "A"), ("assistant", ""), ("tool", "B"), ("tool", "C"),
    ]  # fmt: skip


def test_thousands_of_calls_and_results_are_put_together_in_no_time() -> None:
    ids = [str(number) for number in range(10_000)]
    calls, results = [calls_of((one, "{}")) for one in ids], [result(one, one) for one in reversed(ids)]
    began = process_time()
    _, said, *answers = native(HERMES, GO, *calls, *results)
    texts = read({"role": "user", "content": "Go"}, *calls, *results)
    separate = native(LLAMA, GO, *calls, *results)
    assert process_time() - began < 5, "it takes the square of their number"
    assert [call.id for call in said.calls] == [one.call_id for one in reversed(answers)]
    assert [one.content for one in answers] == ids[::-1]
    assert [role for role, _ in texts] == ["user", "assistant", "user"]
    assert [one.content for one in separate[2::2]] == ids


def test_a_template_that_wants_arguments_as_text_gets_them() -> None:
    assert native(FUNCTIONARY, GO, calls_of(("a", "{}")))[1].calls[0].arguments_as_text
    assert not native(HERMES, GO, calls_of(("a", "{}")))[1].calls[0].arguments_as_text


def test_a_thought_that_a_client_sends_back_is_the_templates() -> None:
    turn = {**calls_of(("a", "{}")), "reasoning_content": "Hm."}
    assert native(HERMES, GO, turn, result("a", "A"))[1].thought == "Hm."
    assert native(HERMES, GO, {**turn, "reasoning_content": None, "reasoning": "So."})[1].thought == "So."
    begun = [
        ChatMessage.model_validate({**GO, "role": "assistant", "content": "Yes", "reasoning_content": "Hm."})
    ]
    thinks = ChatFormat(ReplyFormat("<think>", "</think>"))
    [found] = engine_messages(begun, "", thinks)
    assert found.content == "<think>\nHm.\n</think>\n\nYes", "it is continued after its thought"
    [found] = engine_messages(begun, "", ChatFormat())
    assert found.content == "Yes", "the template has no thoughts"
    begun[0].content = ""
    [found] = engine_messages(begun, "", ChatFormat())
    assert found.content == "<think>\nHm.", "a thought that is continued is one of the model's own"
