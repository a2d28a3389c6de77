"""What is a schema that answers can be held to, and what is wrong with others."""

import json
from typing import Any

import pytest

from app.errors import BadOption
from app.values.json_answers import JsonAnswers, for_grammar, schema_problem
from app.values.logits import Grammar

SCHEMA = json.dumps({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]})


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('{"type": ', "The schema is not JSON ("),
        ("[" * 100_000, "The schema is not JSON ("),
        ("[]", "A JSON Schema is an object, such as"),
        ("true", "A JSON Schema is an object, such as"),
        ('{"a": "' + "x" * 500_000 + '"}', "The schema has 500,009 characters; at most 500,000 are allowed."),
    ],
)
def test_a_text_that_is_no_schema_gets_one_sentence(text: str, sentence: str) -> None:
    assert schema_problem(text).startswith(sentence)
    with pytest.raises(BadOption):
        _ = JsonAnswers(True, text).grammar
    assert JsonAnswers(False, text).grammar is None, "it is not used"


@pytest.mark.parametrize("text", ["", " \n", "{}", SCHEMA])
def test_a_schema_and_none_are_fine(text: str) -> None:
    assert schema_problem(text) == ""


def test_looking_at_a_schema_compiles_nothing() -> None:
    defs = {f"d{i}": {"$ref": f"#/$defs/d{i + 1}"} for i in range(5_000)}  # ends a process that compiles it
    assert schema_problem(json.dumps({"$ref": "#/$defs/d0", "$defs": defs})) == ""
    assert schema_problem('{"type": "strng"}') == "", "that is for the engine to say"


def test_answers_have_the_schema_or_are_any_object() -> None:
    assert JsonAnswers(True, f" {SCHEMA} ").grammar == Grammar("json_schema", SCHEMA)
    assert JsonAnswers(True).grammar == Grammar("json_schema", '{"type": "object"}')


CLOSED = {"additionalProperties": False}
BOOLEAN = {"type": "boolean"}


def translated(schema: Any) -> Any:
    found, left_out = for_grammar(schema)
    assert left_out == []
    return found


@pytest.mark.parametrize(
    "wrong",
    [
        {"properties": 5},
        {"properties": {"a": {}}, "required": 5},
        {"properties": {"a": {}}, "required": [{}]},
        {"allOf": 5},
        {"items": {"enum": [1]}, "uniqueItems": True, "maxItems": "x"},
        {"propertyNames": {"enum": 5}},
    ],
)
def test_a_keyword_whose_value_has_the_wrong_type_is_left_for_the_library_to_report(wrong: Any) -> None:
    assert for_grammar(wrong) == (wrong, [])
    assert translated({"properties": []}) == {"properties": {}, **CLOSED}, "PHP writes an empty object as []"


def test_formats_that_no_grammar_knows_are_notes() -> None:
    known, unknown = {"type": "string", "format": "uuid"}, {"type": "string", "format": "path"}
    properties = {"format": unknown, "id": known, "kind": {"enum": [{"format": "path"}]}}
    found = translated({"anyOf": [{"properties": properties}]})
    assert found == {"anyOf": [{"properties": {**properties, "format": {"type": "string"}}, **CLOSED}]}


def test_objects_are_closed_unless_they_say_otherwise() -> None:
    inner: dict[str, Any] = {"type": "object", "properties": {"b": {"type": "string"}}}
    schema = {
        "properties": {"a": inner, "list": {"items": inner}, "open": {**inner, "additionalProperties": True}}
    }
    found = translated(schema)
    assert found["additionalProperties"] is False
    assert found["properties"]["a"]["additionalProperties"] is False
    assert found["properties"]["list"]["items"]["additionalProperties"] is False
    assert found["properties"]["open"]["additionalProperties"] is True
    assert translated({"type": "object"}) == {"type": "object"}


@pytest.mark.parametrize(
    "schema",
    [
        {"allOf": [{"properties": {"a": {}}}, {"properties": {"b": {}}}]},
        {"properties": {"a": {}}, "anyOf": [{"required": ["a"]}]},
        {"properties": {"a": {}}, "required": ["b"]},
        {
            "properties": {"a": {"allOf": [{"$ref": "#/$defs/A"}, {"properties": {"b": {}}}]}},
            "$defs": {"A": {"properties": {"c": {}}}},
        },
    ],
)
def test_an_object_whose_properties_stand_in_several_places_stays_open(schema: Any) -> None:
    assert translated(schema) == schema


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ({"enum": ["a", "b"]}, {"properties": {"a": BOOLEAN, "b": BOOLEAN}}),
        ({"const": "a"}, {"properties": {"a": BOOLEAN}}),
        ({"$ref": "#/$defs/Name"}, {"properties": {"x": BOOLEAN}}),
        ({"pattern": "^a"}, {"patternProperties": {"^a": BOOLEAN}}),
    ],
)
def test_names_of_properties_are_allowed_as_they_are_listed(names: Any, expected: Any) -> None:
    defs = {"$defs": {"Name": {"enum": ["x"], "type": "string"}}}
    given = {"type": "object", "propertyNames": names, "additionalProperties": BOOLEAN, **defs}
    assert translated(given) == {"type": "object", **expected, **CLOSED, **defs}
    assert translated({"propertyNames": {"type": "string"}}) == {}


def test_what_is_not_enforced_is_named() -> None:
    assert for_grammar({"propertyNames": {"minLength": 2}}) == ({}, ["propertyNames"])
    assert for_grammar({"uniqueItems": True}) == ({}, ["uniqueItems"])
    decimal = {"type": "string", "pattern": r"^(?!^[-+.]*$)[+-]?0*\d*\.?\d*$"}  # pydantic 2.12 writes this
    assert for_grammar({"anyOf": [decimal]}) == ({"anyOf": [{"type": "string"}]}, ["pattern"])
    listed = {"items": {"enum": [1, 2]}, "uniqueItems": True}
    assert for_grammar(listed) == ({"items": {"enum": [1, 2]}, "maxItems": 2}, ["uniqueItems"])
    both = {"oneOf": [{"minimum": 2}, {"maximum": 5}]}
    assert for_grammar(both) == (both, ["oneOf"])
    apart = {"oneOf": [{"type": "integer"}, {"type": "string"}]}
    assert translated(apart) == apart
    assert translated({"properties": {"uniqueItems": BOOLEAN, "propertyNames": BOOLEAN}, **CLOSED})
