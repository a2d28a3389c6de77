"""Calls are found while they are written. test_tool_call_patterns.py has the forms, cut into pieces anywhere."""

from dataclasses import replace

import pytest

from app.conversation.reply_parsing import ArgumentsDelta, CallDelta, TextDelta, ToolCallParser
from app.conversation.tool_call_patterns import typed
from app.values.chat_format import CallFormat


def test_arguments_are_given_out_while_they_are_written() -> None:
    parser = ToolCallParser()
    assert parser.push('<tool_call>{"name": "f", "arguments": ')[:1] == []
    begun = parser.push('{"a"')
    assert [type(delta) for delta in begun] == [CallDelta, ArgumentsDelta]
    assert parser.push(": 1") == [ArgumentsDelta(0, ": 1")]


def test_text_goes_out_at_once() -> None:
    parser = ToolCallParser()
    assert parser.push("Hello") == [TextDelta("Hello")]
    assert parser.push(" <") == [TextDelta(" ")]
    assert parser.push("b>") == [TextDelta("<b>")]


@pytest.mark.parametrize(("is_cut", "rest"), [(False, '<tool_call>{"name": "we'), (True, "")])
def test_a_call_that_is_cut_before_its_name_is_no_text(is_cut: bool, rest: str) -> None:
    parser = ToolCallParser()
    begun = parser.push('Hi <tool_call>{"name": "we')
    shown = [*begun, *parser.flush(is_cut)]
    assert "".join(delta.text for delta in shown if isinstance(delta, TextDelta)) == f"Hi {rest}"


@pytest.mark.parametrize(("rest", "arguments"), [("", '{"a": "b"}'), ("<parameter=c>d", '{"a": "b"')])
def test_an_argument_that_the_reply_does_not_end_is_no_text_and_leaves_the_arguments_open(
    rest: str, arguments: str
) -> None:
    tags = CallFormat("tags", "<call>", "<function=", ">", "</function></call>", before_key="<parameter=")
    parser = ToolCallParser(replace(tags, after_key=">", after_value="</parameter>"))
    found = [*parser.push(f"<call><function=f><parameter=a>b</parameter>{rest}"), *parser.flush()]
    assert not any(isinstance(delta, TextDelta) for delta in found)
    assert "".join(delta.text for delta in found if isinstance(delta, ArgumentsDelta)) == arguments


@pytest.mark.parametrize(
    ("schema", "text", "value"),
    [
        ({"type": "string"}, "123", "123"),
        ({"type": ["string", "null"]}, "123", "123"),
        ({"type": ["string", "null"]}, "null", None),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "123", "123"),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "123", 123),
        ({"type": ["integer", "string"]}, "123", 123),
        ({"type": ["integer", "string"]}, "1 or 2", "1 or 2"),
        ({"type": ["string", "number"]}, "123", 123),
        ({"type": ["string", "number"]}, "1.5", 1.5),
        ({"type": ["string", "integer"]}, "1.5", "1.5"),
        ({"type": ["string", "number"]}, "true", "true"),
        ({"oneOf": [{"type": "string"}, {"type": "number"}]}, "123", 123),
        ({"allOf": [{"type": "string"}, {"maxLength": 9}]}, "123", "123"),
        ({"enum": ["auto", 5]}, "5", 5),
        ({"enum": ["auto", None]}, "5", "5"),
        ({"type": "string", "enum": ["auto", None]}, "null", "null"),
        ({"enum": 5}, "5", 5),
        ({"const": "1"}, "1", "1"),
        ({"anyOf": [{"const": "1"}, {"const": 2}]}, "2", 2),
        ({"type": ["object", "string"]}, "123", "123"),
        ({"enum": ["1", "2"]}, "1", "1"),
        ({"$ref": "#/$defs/Code", "$defs": {"Code": {"type": "string"}}}, "123", "123"),
        ({"anyOf": [{"$ref": "#/definitions/A"}, {}], "definitions": {"A": {"const": "1"}}}, "1", "1"),
        (
            {"$ref": "#/$defs/A", "$defs": {"A": {"anyOf": [{"$ref": "#/$defs/A"}, {"type": "string"}]}}},
            "1",
            "1",
        ),
        ({"$ref": "#/$defs/A", "$defs": 5}, "123", 123),
        ({"$ref": "#"}, "123", 123),
        ({"$ref": 5}, "123", 123),
        ({"type": "integer"}, "many", "many"),
        ({"type": 5, "anyOf": 5}, "123", 123),
        ({}, "123", 123),
        (None, "123", "123"),
    ],
)
def test_an_argument_is_a_string_if_its_schema_allows_one(schema: object, text: str, value: object) -> None:
    assert typed(text, schema) == value
