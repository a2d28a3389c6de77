"""What tool_choice and response_format make of a request."""

import json
from typing import Any

import pytest

from app.api.errors import ApiError
from app.api.tool_fields import ResponseFormat, form_grammar, tool_use
from app.conversation.tool_use import FunctionFields
from app.values.logits import Grammar

TOOLS = [
    FunctionFields(name="one", parameters={"type": "object", "properties": {"a": {}}}),
    FunctionFields(name="two"),
]


def test_free_tools_force_nothing() -> None:
    use = tool_use(TOOLS, None, None, None)
    assert use.grammar is None and "one" in use.prompt and "two" in use.prompt
    assert tool_use(TOOLS, "none", None, None).prompt == ""
    assert tool_use([], "auto", None, None).prompt == ""


def test_a_forced_call_is_one_unless_several_are_asked_for() -> None:
    one, several = (tool_use(TOOLS, "required", parallel, None).grammar for parallel in (None, True))
    assert one and several and "{0," not in one.source and "{0,7}" in several.source
    named = tool_use(TOOLS, {"type": "function", "function": {"name": "two"}}, True, None)
    assert named.grammar and '\\"one\\"' not in named.grammar.source and len(named.offered) == 2


def test_a_form_with_free_tools_is_the_form_or_a_call() -> None:
    form = form_grammar(ResponseFormat(type="json_object"))
    assert form == Grammar("json_schema", json.dumps({"type": "object"}))
    both = tool_use(TOOLS, "auto", None, form).grammar
    assert both and both.source.startswith("start: (form | calls)\n")
    assert tool_use([], None, None, form).grammar == form


@pytest.mark.parametrize(
    ("tools", "choice"),
    [([], "required"), (TOOLS, "some"), (TOOLS, {"function": {"name": "x"}}), (TOOLS, {})],
)
def test_a_choice_that_cannot_be_is_refused(tools: list[FunctionFields], choice: Any) -> None:
    with pytest.raises(ApiError) as refused:
        tool_use(tools, choice, None, None)
    assert refused.value.param == "tool_choice"


def test_a_choice_may_allow_some_of_the_tools() -> None:
    allowed = [{"type": "function", "function": {"name": "two"}}]
    choice = {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": allowed}}
    found = tool_use(TOOLS, choice, None, None)
    assert [one.name for one in found.offered] == [one.name for one in found.forced] == ["two"]
    flat = {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "one"}]}
    found = tool_use(TOOLS, flat, None, None)
    assert [one.name for one in found.offered] == ["one"] and not found.forced
    for wrong in ({**flat, "tools": [{"name": "none"}]}, {"type": "allowed_tools"}):
        with pytest.raises(ApiError):
            tool_use(TOOLS, wrong, None, None)
