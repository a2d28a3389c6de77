"""A race as a picture and as JSON: whole, self-contained, safe."""

import json
import re
from dataclasses import replace
from html import escape
from xml.etree import ElementTree

import pytest

from app.race_messages import RaceResult
from app.ui.race.picture import race_svg
from app.ui.race.report import json_file, picture_file, race_json
from tests.racing import AUTO, HALF, LOOKAHEAD, PLAIN, LaneEngine, make_plan, run_race

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def result() -> RaceResult:
    plan = make_plan(PLAIN, AUTO, LOOKAHEAD, text='Say <b>"it"</b> & more.')
    return replace(run_race(LaneEngine(HALF), plan), at=1_800_000_000.0)


def test_the_picture_is_one_file_with_all_that_is_needed_to_judge_it(result: RaceResult) -> None:
    picture = ElementTree.fromstring(race_svg(result))
    words = " ".join(node.text or "" for node in picture.iter(f"{SVG}text"))
    for said in ("Plain", "Auto", "Lookahead 5/4/5", "identical text", "demo · bfloat16 · cpu · a cpu", "greedy",
                 "same text on", "at most 64 tokens", "2027", "Foresight", 'Say <b>"it"</b> & more.'):  # fmt: skip
        assert said in words
    links = [value for node in picture.iter() for key, value in node.attrib.items() if "href" in key]
    assert links == [] and "url(" not in race_svg(result)


def test_the_json_has_everything(result: RaceResult) -> None:
    told = json.loads(race_json(result))
    assert told["model"]["dtype"] == "bfloat16"
    assert told["prompt"] == {"kind": "code", "text": 'Say <b>"it"</b> & more.'}
    lane = told["lanes"][1]
    assert lane["name"] == "auto"
    assert lane["speed_up"] == result.lanes[1].speed_up
    assert lane["token_ids"] == list(result.lanes[1].run.token_ids)
    assert lane["curve"][-1][1] == 8
    assert told["fastest_plain"]["decoding"]["same_text"] is False


def test_files_are_named_by_their_race(result: RaceResult) -> None:
    for file, ending in ((picture_file(result), ".svg"), (json_file(result), ".json")):
        assert re.search(rf'data-file="foresight-race-code-2027-01-15-\d+\{ending}"', file)
    assert f'data-text="{escape(race_json(result))}"' in json_file(result)
