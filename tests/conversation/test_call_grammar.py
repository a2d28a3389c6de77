"""A grammar forces calls in the model's own form, and what it forces is read as the call."""

import json
import re
from copy import deepcopy
from dataclasses import replace
from typing import Any

import jsonschema
import pytest
import torch
from llguidance import LLMatcher, LLTokenizer
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from app.conversation.call_grammar import calls_grammar, not_enforced
from app.conversation.reply_parsing import ParsedReply, ToolCallParser
from app.conversation.tool_use import FunctionFields, ToolUse
from app.engine.sampling.grammar_mask import Grammars
from app.engine.sampling.sampling import make_sampler
from app.settings import assets_dir
from app.values.chat_format import CallFormat
from app.values.logits import CONTROL_RULE, Grammar
from app.values.messages import Sampling
from tests.conversation.test_tool_call_patterns import FORMS, PARAMETERS
from tests.tiers import named, some


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerBase:
    """With Mistral's control tokens."""
    loaded: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(assets_dir() / "demo-model")
    loaded.add_tokens(["[TOOL_CALLS]", "[ARGS]"], special_tokens=True)
    return loaded


def forced(
    form: CallFormat, parameters: dict[str, Any], tokenizer: PreTrainedTokenizerBase
) -> tuple[ParsedReply, list[int]]:
    """What noise writes where a call is forced: as it is read, and its tokens."""
    grammar = Grammar("lark", calls_grammar({"weather": parameters}, 2 if form.can_repeat else 1, form))
    process = Grammars().compile(grammar, tokenizer, frozenset({tokenizer.eos_token_id}), 1)
    sampler = make_sampler(Sampling(temperature=1.0, seed=5), processes=[process])
    generator, tokens = torch.Generator().manual_seed(1), [5]
    while len(tokens) < 600 and tokens[-1] != tokenizer.eos_token_id:
        tokens.append(sampler(torch.randn(1, len(tokenizer), generator=generator) * 2).choose(0, tokens))
    assert tokens[-1] == tokenizer.eos_token_id
    text = str(tokenizer.decode(tokens[1:-1], clean_up_tokenization_spaces=False))
    parser, written = ToolCallParser(form, {"weather": parameters}), ParsedReply()
    for delta in (*parser.push(text), *parser.flush()):
        written.add(delta)
    assert written.calls and not written.text.strip()
    return written, tokens


PEOPLE = {
    "type": "object",
    "properties": {
        "who": {"$ref": "#/$defs/Person"},
        "unit": {"type": "string", "enum": ["C", "F"]},
        "days": {"anyOf": [{"type": "integer", "minimum": 0, "maximum": 99}, {"type": "null"}]},
        "note": {"type": "string", "minLength": 2, "maxLength": 9},
        "sort": {"const": "x", "type": "string"},
        "colour": {"$ref": "#/$defs/Colour"},
        "size": {"enum": ["S", "M"]},
        "mode": {"allOf": [{"$ref": "#/definitions/Mode"}], "default": "fast"},
        "sky": {"anyOf": [{"const": "clear"}, {"const": "grey"}]},
    },
    "required": ["who", "unit", "days", "note", "sort", "colour", "size", "mode", "sky"],
    "definitions": {"Mode": {"type": "string", "minLength": 1, "maxLength": 4}},
    "$defs": {
        "Colour": {"type": "string", "enum": ["red", "blue"]},
        "Person": {
            "type": "object",
            "properties": {"age": {"type": "integer", "minimum": 0, "maximum": 99}},
            "required": ["age"],
        },
    },
}


@pytest.mark.parametrize("name", some(named(FORMS), "hermes", "own tags", "gemma", "kimi"))
def test_forced_arguments_match_a_schema_with_definitions(
    name: str, tokenizer: PreTrainedTokenizerBase
) -> None:
    """As pydantic writes one."""
    written, _ = forced(FORMS[name], PEOPLE, tokenizer)
    for call in written.calls:
        jsonschema.validate(json.loads(call.arguments), PEOPLE)


@pytest.mark.parametrize("name", FORMS)
def test_forced_arguments_end_with_the_control_token_that_the_model_has(
    name: str, tokenizer: PreTrainedTokenizerBase
) -> None:
    form, tagged = FORMS[name], deepcopy(tokenizer)
    tags = re.findall(r"<[^<>\s\0\1]+>", "".join(form.texts))
    tagged.add_tokens(tags, special_tokens=True)
    written, tokens = forced(form, PEOPLE, tagged)
    for call in written.calls:
        jsonschema.validate(json.loads(call.arguments), PEOPLE)
    text = str(tokenizer.decode([token for token in tokens if token < len(tokenizer)]))
    assert not any(tag in text for tag in tags), "not its letters"


@pytest.mark.parametrize("name", FORMS)
def test_what_a_grammar_forces_is_read_as_the_call(name: str, tokenizer: PreTrainedTokenizerBase) -> None:
    form = FORMS[name]
    written, tokens = forced(form, PARAMETERS, tokenizer)
    for call in written.calls:
        arguments = json.loads(call.arguments)
        assert call.name == "weather" and set(arguments) == {"city", "days"}
        assert 0 <= arguments["days"] <= 99
    has_token = tokenizer.convert_tokens_to_ids("[TOOL_CALLS]") in tokens
    assert has_token == (form.opening == "[TOOL_CALLS]"), "not its letters"


def integer(most: int) -> dict[str, Any]:
    return {"type": "integer", "minimum": 0, "maximum": most}


NESTED: dict[str, dict[str, Any]] = {
    "object": {
        "type": "object",
        "properties": {
            "words": {
                "type": "array",
                "items": {"type": "string", "maxLength": 4},
                "minItems": 1,
                "maxItems": 2,
            },
            "my key": {"enum": ["x y", 3, None, {"a": ["b"]}]},
            "@type": {"type": ["string", "null"], "maxLength": 3},
            "7": {"type": "boolean"},
        },
        "required": ["words", "my key", "@type", "7"],
    },
    "tree": {
        "type": "object",
        "properties": {
            "n": integer(9),
            "kids": {"type": "array", "items": {"$ref": "#/$defs/tree"}, "maxItems": 1},
        },
        "required": ["n"],
    },
    "alternatives": {"anyOf": [{"type": "string", "maxLength": 2}, {"type": "array", "maxItems": 0}]},
    "pattern": {"type": "array", "items": {"type": "string", "pattern": "^[ab]{2}$"}, "maxItems": 2},
    "first": {"type": "array", "prefixItems": [integer(3)], "items": False, "minItems": 1},
}


@pytest.mark.parametrize("name", NESTED)
@pytest.mark.parametrize("form", ["gemma", "pythonic", "own tags", "kimi"])
def test_nested_arguments_are_forced_as_their_schema_says(
    form: str, name: str, tokenizer: PreTrainedTokenizerBase
) -> None:
    member = {"$ref": "#/$defs/tree"} if name == "tree" else NESTED[name]
    schema = {
        "type": "object",
        "properties": {"a": member},
        "required": ["a"],
        "$defs": {"tree": NESTED["tree"]},
    }
    written, _ = forced(FORMS[form], schema, tokenizer)
    for call in written.calls:
        jsonschema.validate(json.loads(call.arguments), schema)


def test_nested_arguments_are_written_as_the_model_writes_them() -> None:
    """Gemma 4's strings have a quote of their own, and its keys have none."""
    object_ = {"type": "object", "properties": {"b": {"type": "string"}}, "required": ["b"]}
    schema = {"type": "object", "properties": {"a": {"type": "array", "items": object_}}, "required": ["a"]}
    given = {"a": [{"b": 'x}, "]\n'}, {"b": ""}]}
    text = FORMS["gemma"].written([("f", json.dumps(given))])
    assert text == '<|tool_call>call:f{a:[{b:<|"|>x}, "]\n<|"|>},{b:<|"|><|"|>}]}<tool_call|>'
    assert is_allowed(text, calls_grammar({"f": schema}, 1, FORMS["gemma"]))
    parser, read = ToolCallParser(FORMS["gemma"], {"f": schema}), ParsedReply()
    for delta in (*parser.push(text), *parser.flush()):
        read.add(delta)
    assert json.loads(read.calls[0].arguments) == given


@pytest.mark.parametrize("schema", [{}, {"type": "object"}, {"type": "array"}])
def test_values_without_a_schema_may_be_anything(schema: dict[str, Any]) -> None:
    value = (
        [{"7": {"x-y": [1.5, None, True, "s"]}}, []] if schema.get("type") != "object" else {"a": {"b": []}}
    )
    tools = {"f": {"type": "object", "properties": {"a": schema}, "required": ["a"]}}
    text = FORMS["gemma"].written([("f", json.dumps({"a": value}))])
    assert is_allowed(text, calls_grammar(tools, 1, FORMS["gemma"]))


OPTIONAL = {key: integer(9) for key in "abc"}


@pytest.mark.parametrize("name", ["gemma", "pythonic", "glm"])
@pytest.mark.parametrize("required", ["", "b"])
def test_arguments_that_may_be_left_out_have_separators_only_between_them(name: str, required: str) -> None:
    schema = {"type": "object", "properties": OPTIONAL, "required": [*required]}
    grammar = calls_grammar({"f": schema}, 1, FORMS[name])
    order = [*required, *(key for key in "abc" if key not in required)]
    for place, count in ((0, 1), (1, 1), (1, 2), (2, 1), (0, 3)):
        keys = dict.fromkeys([*required, *order[place : place + count]])
        assert is_allowed(FORMS[name].written([("f", json.dumps(dict.fromkeys(keys, 1)))]), grammar)
    if FORMS[name].after_value.strip() == ",":
        whole = FORMS[name].written([("f", '{"a": 1}')])
        head = f"a{FORMS[name].after_key}"
        assert is_allowed(whole, grammar) == (not required)
        assert not is_allowed(whole.replace(head, FORMS[name].after_value + head), grammar)


@pytest.mark.parametrize("name", FORMS)
def test_calls_may_end_after_any_number_and_begin_with_a_line_end(name: str) -> None:
    form = FORMS[name]
    schema = {"type": "object", "properties": OPTIONAL, "required": ["a"]}
    grammar = calls_grammar({"f": schema}, 3, form)
    for count in range(1, 4 if form.can_repeat else 2):
        text = form.written([("f", '{"a": 1}')] * count).lstrip("\n")
        assert is_allowed(text, grammar)
        begins_in_header = text.startswith(" ")
        assert is_allowed(f"\n{text}", grammar) != begins_in_header


def test_values_may_be_written_in_pythons_notation() -> None:
    schema = {"type": "object", "properties": {"a": {"type": ["boolean", "null"]}}, "required": ["a"]}
    for name in ("glm", "qwen coder", "pythonic"):
        text = FORMS[name].written([("f", '{"a": 1}')])
        for value, meant in (("True", True), ("true", True), ("None", None), ("yes", ...)):
            written = text.replace("1", value)
            assert is_allowed(written, calls_grammar({"f": schema}, 1, FORMS[name])) == (meant is not ...)
            assert meant is ... or read(FORMS[name], schema, written) == {"a": meant}
    single, words = (
        replace(FORMS["pythonic"], quote="'"),
        {"properties": {"a": {"type": "string"}}, "required": ["a"]},
    )
    written = single.written([("f", '{"a": 1}')]).replace("1", """'it\\'s\n"x"'""")
    assert is_allowed(written, calls_grammar({"f": words}, 1, single))
    assert read(single, words, written) == {"a": 'it\'s\n"x"'}
    only = {"properties": {"a": {"type": "boolean", "const": True}}, "required": ["a"]}
    grammar = calls_grammar({"f": only}, 1, FORMS["glm"])
    assert not is_allowed(FORMS["glm"].written([("f", '{"a": 1}')]).replace("1", "False"), grammar)


def read(form: CallFormat, schema: dict[str, Any], text: str) -> Any:
    parser, written = ToolCallParser(form, {"f": schema}), ParsedReply()
    for delta in (*parser.push(text), *parser.flush()):
        written.add(delta)
    return json.loads(written.calls[0].arguments)


def test_what_a_call_does_not_enforce_is_named() -> None:
    texts = {"a": {"type": "string", "pattern": "^x"}, "b": {"type": "string", "format": "date"}}
    schema = {"properties": {**texts, "c": {"type": "string", "format": "of our own"}}, "minProperties": 1}
    assert not_enforced(schema, FORMS["glm"]) == {"pattern", "format", "minProperties"}
    assert not_enforced(schema, FORMS["pythonic"]) == {"minProperties"}
    assert not_enforced(schema, FORMS["hermes"]) == set()
    tools = [FunctionFields(name="f", parameters={"type": "object", **schema})]
    assert ToolUse(forced=tuple(tools)).not_enforced == []


def is_allowed(text: str, source: str) -> bool:
    """Whether a grammar allows exactly this text."""
    as_text = re.sub(CONTROL_RULE, lambda found: json.dumps(found[1]), source)
    matcher = LLMatcher(LLTokenizer("byte"), LLMatcher.grammar_from_lark(as_text))
    return matcher.consume_tokens(list(text.encode())) and matcher.is_accepting()
