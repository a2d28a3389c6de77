"""Speed-ups by kind of text, and the last races."""

from dataclasses import replace

from app.ui.race.history import best_by_kind, history_html, summary
from app.values.race import LaneSummary, RaceSummary, SpeedByKind
from tests.fakes import DEMO
from tests.ui.race.test_render import text

SPEEDS = (
    SpeedByKind("chat", "auto", 0.98, 1.4, 2),
    SpeedByKind("chat", "plain", 1.0, 1.0, 2),
    SpeedByKind("code", "auto", 1.74, 2.5, 3),
    SpeedByKind("code", "lookahead 5/4/5", 1.5, 2.1, 1),
    SpeedByKind("quoting", "auto", 2.1, 3.3, 1),
)
RACE = RaceSummary(
    0.0, "code", 'Say "<it>".', (LaneSummary("plain", 1, 9, 1, True), LaneSummary("auto", 1.7, 9, 2, False))
)


def test_the_summary_names_the_kinds_of_text_where_a_decoder_is_faster() -> None:
    assert summary(best_by_kind(SPEEDS)) == "Faster on code. Too few races to tell on chat and quoting."
    several = [replace(one, races=3) for one in SPEEDS]
    assert summary(best_by_kind(several)) == "Faster on code and quoting. Not faster on chat."
    assert summary({}) == ""


def test_one_lucky_race_does_not_beat_a_decoder_with_enough_of_them() -> None:
    lucky = (*SPEEDS, SpeedByKind("code", "jacobi", 9.0, 3.0, 1))
    assert best_by_kind(lucky)["code"].lane == "auto"


def test_a_decoder_that_writes_one_token_a_step_is_faster_on_nothing() -> None:
    idle = [replace(one, races=9, tokens_per_step=1.004) for one in SPEEDS]
    assert summary(best_by_kind(idle)) == "Not faster on chat, code and quoting."
    assert "best" not in history_html(DEMO, idle, [RACE])
    drafting = SpeedByKind("code", "jacobi", 1.1, 1.3, 3)
    assert best_by_kind((*idle, drafting))["code"] is drafting


def test_the_chart_has_the_best_decoder_of_a_kind_first_and_no_plain() -> None:
    shown = text(history_html(DEMO, SPEEDS, [RACE]))
    assert "Code Auto 1.74x Lookahead 5/4/5 1.50x Quoting Auto 2.10x" in shown
    assert "Plain" not in shown


def test_last_races_show_their_lanes_and_whether_texts_differed() -> None:
    html = history_html(DEMO, SPEEDS, [RACE])
    assert "plain: 1.00x · auto: 1.70x · texts differ" in text(html)
    assert "<it>" not in html


def test_a_remote_lane_is_listed_with_its_speed_and_never_as_a_text_that_differs() -> None:
    lanes = (
        LaneSummary("plain", 1, 9, 1, True),
        LaneSummary("remote: far", 0, 41.3, 2, False, "box:8000"),
        LaneSummary("remote: near", 0, 12.5, 0, False, "box:8000", counts_pieces=True),
        LaneSummary("remote: gone", 0, 0, 0, False, "box:8000"),
    )
    shown = text(history_html(DEMO, SPEEDS, [replace(RACE, lanes=lanes)]))
    assert (
        "plain: 1.00x · remote: far: 41.3 tokens/s · remote: near: 12.5 pieces/s · remote: gone: no result"
        in shown
    )
    assert "texts differ" not in shown


def test_without_races_or_a_model_it_says_so() -> None:
    assert "No races yet with demo, float32 on cpu." in text(history_html(DEMO, (), ()))
    assert "Load a model" in text(history_html(None, (), ()))
