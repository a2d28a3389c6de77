"""Values come back from JSON, and marks from their columns."""

import json
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from app.chats.message_table import marks_from_json, value_from_json, value_to_json
from app.values.chat import Provenance, TokenMark
from app.values.dataclass_json import read, to_dict
from app.values.messages import ModelInfo, Sampling, Split
from tests.chats.samples import PROVENANCE


def test_provenance_of_an_older_app_gets_defaults_and_of_a_newer_one_loses_what_is_unknown() -> None:
    found = json.loads(value_to_json(PROVENANCE) or "")
    del found["statistics"]["split"], found["model"]["revision"], found["app"]
    found["model"]["of_later"] = found["of_later"] = {"x": [1]}
    older = replace(
        PROVENANCE,
        model=replace(PROVENANCE.model, revision=""),
        statistics=replace(PROVENANCE.statistics, split=Split()),
        app="",
    )
    assert read(Provenance, found) == older


def test_notes_of_a_model_come_back_without_those_of_a_newer_app() -> None:
    model = PROVENANCE.model.with_note("device", "The card is too old.")
    found = to_dict(model)
    found["notes"] |= {"of-later": "Something new.", "heads": 3}
    assert read(ModelInfo, json.loads(json.dumps(found))) == model
    assert read(ModelInfo, found | {"notes": "none"}) == PROVENANCE.model


@pytest.mark.parametrize(
    "change", [{"decoder": "magic"}, {"reason": None}, {"options": {"sampling": {"temperature": -1}}}]
)
def test_provenance_that_would_be_untrue_is_none(change: dict[str, Any]) -> None:
    assert value_from_json(Provenance, json.dumps({**to_dict(PROVENANCE), **change})) is None


@pytest.mark.parametrize("text", ["", "{", "[]", "3", "null"])
def test_text_that_makes_no_sense_is_no_provenance_and_no_sampling(text: str) -> None:
    assert value_from_json(Provenance, text) is None
    assert value_from_json(Sampling, text) is None


@pytest.mark.parametrize("found", [True, "1", None, [], 10**400, float("nan"), float("inf")])
def test_what_is_no_number_is_the_default(found: object) -> None:
    assert read(Sampling, {"top_p": found, "top_k": 3}) == Sampling(top_k=3)


def test_an_integer_is_a_number_and_a_number_no_integer() -> None:
    assert read(Sampling, {"top_p": 1, "top_k": 3.0}) == Sampling(top_p=1.0)


@pytest.mark.parametrize(
    "text", ["{", "3", "[]", "null", '{"ends": [1]}', '{"ends": "x", "origins": 3, "steps": []}']
)
def test_marks_that_make_no_sense_are_none(text: str) -> None:
    assert marks_from_json(text) == ()


def test_an_origin_that_nobody_knows_is_the_models() -> None:
    assert marks_from_json('{"ends": [1], "origins": "?", "steps": [0]}') == (TokenMark(1, "model", 0),)


def test_a_field_of_a_type_that_json_cannot_give_is_refused() -> None:
    @dataclass
    class WithNumbers:
        numbers: dict[str, int] = field(default_factory=dict)

    with pytest.raises(TypeError, match="cannot be read from JSON"):
        read(WithNumbers, {"numbers": {"one": 1}})
