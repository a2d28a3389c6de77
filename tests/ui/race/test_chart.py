"""The lanes of a race as bars: at the running lane's clock, and when the fastest lane finished."""

import re
from dataclasses import replace
from html import unescape

from app.conversation import Reply
from app.conversation.race.lane_comparison import read_lane
from app.conversation.race.race import LaneReply, RaceState, race_request
from app.ui.race.chart import chart_html
from app.ui.race.formatting import times
from app.values.race import RaceResult
from tests.racing import AUTO, LOOKAHEAD, PLAIN, LaneEngine, make_plan
from tests.ui.race.conftest import text


def racing(*ended: str) -> RaceState:
    """A race of three whose named lanes have run; the next one has begun."""
    engine, plan = LaneEngine(), make_plan(PLAIN, AUTO, LOOKAHEAD)
    replies = tuple(LaneReply(lane, Reply()) for lane in plan.lanes[: len(ended) + 1])
    for heat in replies[:-1]:
        engine.submit(race_request(plan, heat.lane), heat.reply)
    return RaceState("racing", plan, replies)


def chart(state: RaceState) -> str:
    runs = [read_lane(heat.lane, heat.reply) for heat in state.replies]
    return chart_html(state, runs)


def finished(result: RaceResult) -> str:
    return chart_html(RaceState("done", result.plan, result=result), ())


def test_a_running_race_has_speed_ups_as_soon_as_plain_has_run() -> None:
    state = racing("plain", "auto")
    speeds = re.findall(r'class="speed">([^<]*)<', chart(state))
    assert speeds[0] == "1.00x" and speeds[1].endswith("x") and speeds[2] == "—"


def test_a_finished_race_is_shown_at_the_time_of_the_winner(result: RaceResult) -> None:
    plain, auto = re.findall(r"--done:([\d.]+)%;--whole:100.00%", finished(result))
    share = result.lanes[0].run.tokens_at(result.leader.run.seconds) / result.lanes[0].run.tokens
    assert (float(plain), auto) == (round(100 * share, 2), "100.00") and 0 < share < 1
    assert re.findall(r'class="lane (\w+ ?\w*)"', finished(result)) == ["done", "done winner"]


def test_a_finished_lane_has_all_its_numbers(result: RaceResult) -> None:
    shown = text(finished(result))
    speed = times(result.lanes[1].speed_up.median)
    for words in (
        "identical text",
        speed,
        "tokens/s",
        "tokens per step 1.75",
        "first token 50 ms",
        "time 48 ms",
    ):
        assert words in shown


def test_a_difference_is_a_badge_with_its_token_and_margin(differing: RaceResult) -> None:
    shown = finished(differing)
    assert "differs at token 4: margin 0.03" in text(shown)
    assert "<b>bold" not in shown and "close enough for rounding" in unescape(shown)


def test_a_lane_that_fell_back_to_plain_decoding_says_so(result: RaceResult) -> None:
    lane = result.lanes[1]
    fell_back = replace(lane, run=replace(lane.run, decoder="plain"))
    shown = finished(replace(result, lanes=(result.lanes[0], fell_back)))
    assert "plain decoding used" in text(shown)
