"""Races are kept by the model as it ran, and tell on which kind of text a decoder pays."""

from dataclasses import replace

import pytest

from app.conversation.race.race_log import PROMPT_EXCERPT, RaceLog
from app.database.database import Database
from app.values.messages import ModelInfo
from app.values.race import RacePrompt, RaceResult, SpeedByKind, Spread, TextKind
from tests.fakes import DEMO
from tests.racing import AUTO, HALF, LOOKAHEAD, PLAIN, LaneEngine, make_plan, run_race


@pytest.fixture
def log(database: Database) -> RaceLog:
    return RaceLog(database)


def make_result(kind: TextKind = "code", speed_up: float = 1.5, model: ModelInfo = DEMO) -> RaceResult:
    """A race of plain and auto in which auto was so many times as fast."""
    result = run_race(LaneEngine(model), make_plan(PLAIN, AUTO))
    plain, auto = result.lanes
    plan = replace(result.plan, prompt=RacePrompt(kind, "Say it."))
    ratios = [Spread(ratio, ratio, ratio) for ratio in (1.0, speed_up)]
    lanes = (replace(plain, speed_up=ratios[0]), replace(auto, speed_up=ratios[1]))
    return replace(result, plan=plan, lanes=lanes)


def test_the_newest_races_come_first_with_all_lanes(log: RaceLog) -> None:
    for kind in ("code", "maths", "own"):
        log.add(make_result(kind))
    races = log.last(DEMO, 2)
    assert [race.kind for race in races] == ["own", "maths"]
    assert [(lane.name, lane.speed_up, lane.is_identical) for lane in races[0].lanes] == [
        ("plain", 1.0, True),
        ("auto", 1.5, True),
    ]


def test_what_a_lane_measured_comes_back_as_it_was(log: RaceLog) -> None:
    result = run_race(LaneEngine(), make_plan(PLAIN, AUTO, LOOKAHEAD))
    log.add(result)
    (race,) = log.last(DEMO, 9)
    numbers = [(lane.tokens_per_second, lane.tokens_per_step) for lane in race.lanes]
    assert numbers == [(one.speed.median, one.run.statistics.tokens_per_step) for one in result.lanes]
    assert (race.at, race.prompt) == (result.at, "Say it.")


def test_the_summary_is_the_median_by_kind_and_decoder(log: RaceLog) -> None:
    for speed_up in (1.2, 9.0, 1.6):
        log.add(make_result("code", speed_up))
    log.add(make_result("chat", 0.9))
    assert log.summary(DEMO) == [
        SpeedByKind("chat", "auto", 0.9, 1.75, 1),
        SpeedByKind("chat", "plain", 1.0, 1.0, 1),
        SpeedByKind("code", "auto", 1.6, 1.75, 3),
        SpeedByKind("code", "plain", 1.0, 1.0, 3),
    ]


def test_a_speed_that_nobody_knew_is_no_speed_of_zero(log: RaceLog) -> None:
    log.add(make_result(speed_up=0.0))
    assert [one.lane for one in log.summary(DEMO)] == ["plain"]


def test_each_model_as_it_runs_has_races_of_its_own(log: RaceLog) -> None:
    log.add(make_result(model=HALF))
    assert (log.last(DEMO, 9), log.summary(DEMO)) == ([], [])
    assert len(log.last(HALF, 9)) == 1
    assert log.last(replace(HALF, device="cuda:0"), 9) == []


def test_a_remote_lane_of_an_older_version_is_skipped(log: RaceLog, database: Database) -> None:
    log.add(make_result())
    with database.writing() as connection:
        connection.execute(
            "INSERT INTO race_lanes VALUES (1, 2, 'remote: org/model', 0.0, 10.0, 2.0, 0, 'box:8000', 1)"
        )
    (race,) = log.last(DEMO, 9)
    assert [lane.name for lane in race.lanes] == ["plain", "auto"]
    assert [one.lane for one in log.summary(DEMO)] == ["auto", "plain"]


def test_of_a_long_prompt_the_beginning_is_kept(log: RaceLog) -> None:
    log.add(run_race(LaneEngine(), make_plan(text="x" * 5000)))
    assert len(log.last(DEMO, 1)[0].prompt) == PROMPT_EXCERPT


def test_a_deleted_race_takes_its_lanes_along(log: RaceLog, database: Database) -> None:
    log.add(make_result())
    with database.writing() as connection:
        connection.execute("DELETE FROM races")
        assert connection.execute("SELECT count(*) FROM race_lanes").fetchone()[0] == 0
