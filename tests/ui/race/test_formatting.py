"""Numbers and verdicts in words, and a race as a JSON file."""

import json
from dataclasses import asdict, replace

import pytest

from app.ui.race.formatting import difference_words, race_json
from app.values.messages import Sampling
from app.values.race import RaceResult
from tests.racing import AUTO, HALF, LOOKAHEAD, PLAIN, LaneEngine, make_plan, run_race


@pytest.fixture(scope="module")
def three_lanes() -> RaceResult:
    plan = make_plan(PLAIN, AUTO, LOOKAHEAD, text='Say <b>"it"</b> & more.')
    return replace(run_race(LaneEngine(HALF), plan), at=1_800_000_000.0)


def test_a_margin_explains_no_sampled_token(differing: RaceResult) -> None:
    lane, options = differing.lanes[1], differing.plan.options
    assert "rounding" in difference_words(lane, differing)
    sampled = replace(differing.plan, options=replace(options, sampling=Sampling(temperature=0.7)))
    assert "before sampling" in difference_words(lane, replace(differing, plan=sampled))
    assert difference_words(differing.lanes[0], differing) == ""


def test_the_json_has_everything(three_lanes: RaceResult) -> None:
    seen = json.loads(race_json(three_lanes))
    assert seen["model"]["dtype"] == "bfloat16"
    assert seen["prompt"] == {"kind": "code", "text": 'Say <b>"it"</b> & more.'}
    lane = seen["lanes"][1]
    assert lane["name"] == "auto"
    assert lane["speed_up"] == asdict(three_lanes.lanes[1].speed_up)
    assert lane["tokens_per_second_by_round"] == list(three_lanes.lanes[1].speeds)
    assert lane["token_ids"] == list(three_lanes.lanes[1].run.token_ids)
    assert lane["curve"][-1][1] == 8
    assert seen["fastest_plain"]["decoding"]["same_text"] is False
