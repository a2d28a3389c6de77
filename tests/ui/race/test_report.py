"""A race as a JSON file."""

import json
import re
from dataclasses import asdict, replace
from html import escape

import pytest

from app.conversation.race.remote_lane import remote_run
from app.ui.race.report import json_file, race_json
from app.values.messages import ModelChoice, Piece, Statistics
from app.values.race import RaceResult, RemoteResult
from tests.racing import AUTO, HALF, LOOKAHEAD, PLAIN, LaneEngine, make_plan, run_race

FAR = ModelChoice("org/model", server="http://box:8000/v1")


@pytest.fixture(scope="module")
def result() -> RaceResult:
    plan = make_plan(PLAIN, AUTO, LOOKAHEAD, text='Say <b>"it"</b> & more.')
    return replace(run_race(LaneEngine(HALF), plan), at=1_800_000_000.0)


def test_the_json_has_everything(result: RaceResult) -> None:
    seen = json.loads(race_json(result))
    assert seen["model"]["dtype"] == "bfloat16"
    assert seen["prompt"] == {"kind": "code", "text": 'Say <b>"it"</b> & more.'}
    lane = seen["lanes"][1]
    assert lane["name"] == "auto"
    assert lane["speed_up"] == asdict(result.lanes[1].speed_up)
    assert lane["tokens_per_second_by_round"] == list(result.lanes[1].speeds)
    assert lane["token_ids"] == list(result.lanes[1].run.token_ids)
    assert lane["curve"][-1][1] == 8
    assert seen["fastest_plain"]["decoding"]["same_text"] is False


def test_the_json_has_the_remote_lane_and_no_key(result: RaceResult) -> None:
    run = replace(remote_run(FAR, (Piece("Hi.", (), (), Statistics(seconds=1.0)),)), reason="eos")
    remote = RemoteResult(run, (41.3, 40.0), (0.1, 0.2), "Then it was gone.")
    (seen,) = json.loads(race_json(replace(result, remote=(remote,))))["remote"]
    assert seen["model"] == {"name": "org/model", "server": FAR.server}
    assert (seen["name"], seen["text"], seen["counts_pieces"]) == ("remote: org/model", "Hi.", True)
    assert seen["tokens_per_second_by_round"] == [41.3, 40.0]
    assert seen["seconds_to_first_token_by_round"] == [0.1, 0.2]
    assert seen["failure"] == "Then it was gone."


def test_the_file_is_named_after_its_race(result: RaceResult) -> None:
    assert re.search(r'data-file="foresight-race-code-2027-01-15-\d+\.json"', json_file(result))
    assert f'data-text="{escape(race_json(result))}"' in json_file(result)
