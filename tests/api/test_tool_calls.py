"""Calls are found in a text however it is cut into pieces."""

import itertools
import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.api.tool_calls import ArgumentsDelta, CallDelta, Delta, ParsedReply, TextDelta, ToolCallParser

CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Ro{m\\"e}"}}\n</tool_call>'
OTHER = '<tool_call>\n{"arguments": {"a": [1, 2]}, "name": "sum"}\n</tool_call>'
TEXTS: dict[str, tuple[str, list[tuple[str, dict[str, object]]]]] = {
    "Only text with a < in it.": ("Only text with a < in it.", []),
    CALL: ("", [("weather", {"city": 'Ro{m"e}'})]),
    f"I look.{CALL}": ("I look.", [("weather", {"city": 'Ro{m"e}'})]),
    f"{CALL}\n{CALL}": ("", [("weather", {"city": 'Ro{m"e}'})] * 2),
    OTHER: ("", [("sum", {"a": [1, 2]})]),
    "<tool_call>nothing": ("<tool_call>nothing", []),
    "<tool_call>{'no': json}</tool_call>!": ("<tool_call>{'no': json}</tool_call>!", []),
    "<tool_call>\n": ("<tool_call>\n", []),
    "cut <tool_ca": ("cut <tool_ca", []),
}


def parsed(pieces: Sequence[str]) -> tuple[list[Delta], ParsedReply]:
    parser, written = ToolCallParser(), ParsedReply()
    deltas = [delta for piece in pieces for delta in parser.push(piece)] + parser.flush()
    for delta in deltas:
        written.add(delta)
    return deltas, written


@pytest.mark.parametrize("text", TEXTS)
@given(data=st.data())
def test_pieces_make_no_difference(text: str, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.sets(st.integers(0, len(text)), max_size=12)) | {0, len(text)})
    pieces = [text[start:end] for start, end in itertools.pairwise(cuts)]
    expected, calls = TEXTS[text]
    deltas, written = parsed(pieces)
    assert written.text == expected
    assert [(call.name, json.loads(call.arguments)) for call in written.calls] == calls
    assert len([delta for delta in deltas if isinstance(delta, CallDelta)]) == len(calls)


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


@given(st.text(alphabet='<tool_cal>/{}"\\n :,ne', max_size=60))
def test_nothing_breaks_the_parser(text: str) -> None:
    whole, cut = parsed([text])[1], parsed(list(text))[1]
    assert whole.text == cut.text
