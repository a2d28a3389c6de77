"""Grammars are tried in a process of their own: whatever they do there, the app goes on and says what is wrong."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.engine.text.sandbox import LONGEST_GRAMMAR, Sandbox
from app.errors import EngineClosed, GrammarRefused, ModelBroken, ProcessNotStarted
from app.values.logits import Grammar, GrammarKind, control_rule
from tests.support.waiting import until

CLOSED = {"type": "object", "additionalProperties": False}


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    sandbox = Sandbox()
    yield sandbox
    sandbox.close()


def chained_references(count: int) -> str:
    """A schema each of whose definitions refers to the next one."""
    defs: dict[str, Any] = {f"d{i}": {"$ref": f"#/$defs/d{i + 1}"} for i in range(count)}
    return json.dumps({"$ref": "#/$defs/d0", "$defs": {**defs, f"d{count}": {"type": "string"}}})


def chained_rules(count: int, name: str = "r") -> str:
    """A grammar each of whose rules is the next one."""
    rules = "".join(f"{name}{i}: {name}{i + 1}\n" for i in range(count))
    return f'start: {name}0\n{rules}{name}{count}: "x"\n'


def nested_objects(depth: int) -> str:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(depth):
        schema = {**CLOSED, "properties": {"x": schema}}
    return json.dumps(schema)


@pytest.mark.parametrize(
    ("kind", "source"),
    [
        ("json_schema", chained_references(1_000)),
        ("json_schema", chained_references(4_500)),
        ("json_schema", nested_objects(200)),
        ("json_schema", json.dumps({**CLOSED, "properties": {f"p{i}": {"type": "string"} for i in range(8_000)}})),
        ("lark", chained_rules(20_000)),
        ("lark", chained_rules(20_000, "T")),
        ("lark", "start: " + "(" * 20_000 + '"x"' + ")" * 20_000),
        ("lark", f"start: %json {chained_references(2_000)}"),
        ("regex", "(" * 20_000 + "x" + ")" * 20_000),
    ],
    ids=lambda value: value if len(value) < 20 else value[:30],
)  # fmt: skip
def test_a_grammar_that_overflows_the_stack_is_refused_and_the_next_one_is_checked(
    sandbox: Sandbox, kind: GrammarKind, source: str
) -> None:
    with pytest.raises(GrammarRefused, match=r"cannot be used \(.+\): change it, or leave it out\.$"):
        sandbox.check_grammar(Grammar(kind, source))
    sandbox.check_grammar(Grammar("json_schema", '{"type": "object"}'))


@pytest.mark.parametrize(
    ("kind", "source", "sentence"),
    [
        ("json_schema", '{"type": "strng"}', "The JSON schema cannot be used (Invalid type: strng)"),
        ("json_schema", '{"$ref": "#/nowhere"}', "JSON schema cannot be used (Pointer '/nowhere' does not exist)"),
        ("json_schema", '{"type": "string", "pattern": "("}', "The JSON schema cannot be used (regex parse error"),
        ("json_schema", "{", "The JSON schema cannot be used (Expecting property name"),
        ("regex", "(", "The regular expression cannot be used ("),
        ("lark", "start: nowhere", "The grammar cannot be used ("),
        ("lark", 'start: "' + "x" * LONGEST_GRAMMAR + '"', "The grammar cannot be used (it has 500,009 bytes"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_grammar_is_said(
    sandbox: Sandbox, kind: GrammarKind, source: str, sentence: str
) -> None:
    for _ in range(2):
        with pytest.raises(GrammarRefused) as refused:
            sandbox.check_grammar(Grammar(kind, source))
        assert sentence in str(refused.value)


@pytest.mark.parametrize(
    ("kind", "source"),
    [
        ("json_schema", nested_objects(40)),
        ("json_schema", chained_references(50)),
        ("json_schema", json.dumps({"enum": [f"value {i}" for i in range(5_000)]})),
        ("json_schema", json.dumps({"type": "object", "properties": {f"p{i}": {} for i in range(300)}})),
        ("lark", f'start: {control_rule("<tool_call>")} "x" {control_rule("</tool_call>")}'),
        ("lark", 'start: <|im_start|> "x"'),
        ("lark", "start: <[49000]>"),
        ("regex", r"(\w{1,50} ){1,50}"),
    ],
)
def test_large_and_special_grammars_are_good(sandbox: Sandbox, kind: GrammarKind, source: str) -> None:
    sandbox.check_grammar(Grammar(kind, source))


def test_a_grammar_that_takes_too_long_is_refused_this_time_only() -> None:
    slow = Grammar("lark", "start: " + " | ".join(f'"{i}x"' for i in range(3_000)))
    hasty = Sandbox({"grammar": 0.001})
    with pytest.raises(GrammarRefused, match=r"takes more than 0\.001 seconds"):
        hasty.check_grammar(slow)
    hasty.close()
    patient = Sandbox()
    patient.check_grammar(slow)
    patient.close()


def test_libraries_that_take_too_long_to_import_are_not_a_fault_of_the_grammar() -> None:
    hasty = Sandbox({"import": 0.001, "grammar": 60.0})
    for _ in range(2):
        with pytest.raises(ProcessNotStarted, match=r"could not be imported in time\): close other"):
            hasty.check_grammar(Grammar("regex", "a"))
    hasty.close()


def test_libraries_that_could_not_be_imported_are_imported_once_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "llguidance.py").write_text("raise ImportError('a part is missing')", encoding="utf-8")
    sandbox = Sandbox()
    with monkeypatch.context() as patched:
        patched.setenv("PYTHONPATH", str(tmp_path))
        for _ in range(2):
            with pytest.raises(ProcessNotStarted, match=r"\(a part is missing\): close other"):
                sandbox.check_grammar(Grammar("regex", "a"))
    sandbox.check_grammar(Grammar("regex", "a"))
    sandbox.close()


def test_a_process_that_was_killed_between_two_jobs_is_not_a_fault_of_the_next_one() -> None:
    sandbox = Sandbox()
    sandbox.check_grammar(Grammar("regex", "a"))
    process = sandbox._grammars._process
    assert process
    os.kill(process.pid, signal.SIGTERM)
    until(lambda: not process.is_running)
    sandbox.check_grammar(Grammar("regex", "b"))
    sandbox.close()


def test_a_verdict_is_remembered() -> None:
    sandbox = Sandbox()
    good, bad = Grammar("regex", "a+"), Grammar("regex", "(")
    sandbox.check_grammar(good)
    with pytest.raises(GrammarRefused):
        sandbox.check_grammar(bad)
    sandbox.close()
    sandbox.check_grammar(good)
    with pytest.raises(GrammarRefused):
        sandbox.check_grammar(bad)
    with pytest.raises(EngineClosed):
        sandbox.check_grammar(Grammar("regex", "b+"))


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        ("{% macro again() %}{{ again() }}{% endmacro %}{{ again() }}", "it is nested too deeply"),
        ("{{ 'x' * 50_000_001 }}", "its text has more than 50,000,000 characters"),
    ],
)
def test_what_a_template_does_too_much_is_said(sandbox: Sandbox, template: str, reason: str) -> None:
    with pytest.raises(ModelBroken) as refused:
        sandbox.check_template("some-model", template, {})
    assert f"The chat template of some-model cannot be used ({reason})" in str(refused.value)
