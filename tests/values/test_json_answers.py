"""What is a schema that answers can be held to, and what is wrong with others."""

import json

import pytest

from app.errors import BadOption
from app.values.json_answers import JsonAnswers, schema_problem
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
