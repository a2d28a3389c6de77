"""Every state of a race, as HTML without a page."""

from dataclasses import replace

import pytest

from app.conversation import Reply
from app.conversation.race.race import LaneReply, RaceState
from app.ui.race.chart import chart_html
from app.ui.race.formatting import times
from app.ui.race.render import (
    best_by_kind,
    history_html,
    history_summary,
    outputs_html,
    status_html,
    verdict_words,
)
from app.values.race import LaneSummary, RaceResult, RaceSummary, SpeedByKind
from tests.fakes import DEMO
from tests.racing import AUTO, LOOKAHEAD, PLAIN, LaneEngine, make_plan, run_race
from tests.ui.race.conftest import text

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


@pytest.mark.parametrize(
    ("phase", "words"),
    [("warming", "Warming up"), ("judging", "Comparing"), ("stopped", "Why."), ("failed", "Why.")],
)
def test_every_phase_has_its_sentence(phase: str, words: str) -> None:
    note = "Why." if phase in ("stopped", "failed") else ""
    shown = status_html(RaceState(phase, make_plan(), note=note))  # type: ignore[arg-type]
    assert words in shown and 'role="status"' in shown


def test_a_model_that_is_loaded_first_shows_how_far_it_is() -> None:
    assert "Loading it (40%)" in status_html(RaceState("warming", make_plan()), "Loading it (40%)")


def test_the_baseline_is_not_counted_as_a_lane() -> None:
    plan = make_plan(AUTO, LOOKAHEAD)
    beside = RaceState("racing", plan, replies=(LaneReply(PLAIN, Reply(), is_reference=True),))
    assert "not part of the race" in text(status_html(beside))
    first = replace(beside, replies=(*beside.replies, LaneReply(AUTO, Reply())))
    assert "Round 1 of 3: lane 1 " in text(status_html(first))
    again = tuple(replace(each, round=2) for each in first.replies)
    assert "Round 2 of 3: lane 1 " in text(status_html(replace(first, replies=(*first.replies, *again))))


def test_the_verdict_says_who_was_fastest_and_whether_the_texts_are_the_same(
    result: RaceResult, differing: RaceResult
) -> None:
    assert verdict_words(result).startswith(f"Auto was fastest: {times(result.lanes[1].speed_up.median)}")
    assert verdict_words(result).endswith("All lanes wrote the same text as plain decoding.")
    assert verdict_words(differing).endswith("Not all lanes wrote the same text as plain decoding.")
    slow = run_race(LaneEngine(paces={"auto": (0.02,)}), make_plan(PLAIN, AUTO))
    assert verdict_words(slow).startswith("Plain decoding was fastest.")


@pytest.mark.parametrize(
    ("engine", "words"),
    [
        (LaneEngine(paces={"auto": (0.01, 0.007, 0.013, 0.009)}), "Too close to call"),
        (LaneEngine(paces={"auto": (0.005,)}, single=("plain", "auto")), "No lane was faster"),
        (LaneEngine(texts={"plain": "one", "auto": "one"}), "The reply was too short"),
    ],
)
def test_without_a_clear_winner_nobody_is_called_fastest(engine: LaneEngine, words: str) -> None:
    result = run_race(engine, make_plan(PLAIN, AUTO))
    assert verdict_words(result).startswith(words) and "was fastest" not in verdict_words(result)
    assert 'winner"' not in chart_html(RaceState("done", result.plan, result=result), ())


def test_texts_have_a_mark_where_they_differ(differing: RaceResult) -> None:
    shown = outputs_html(differing)
    assert shown.count("<details>") == 2
    assert "<mark>&lt;b&gt;bold&lt;/b&gt; </mark>" in shown
    assert outputs_html(None) == ""


def test_the_summary_names_the_kinds_of_text_where_a_decoder_is_faster() -> None:
    assert (
        history_summary(best_by_kind(SPEEDS))
        == "Faster than plain decoding on code. Not enough races yet for chat and quoting."
    )
    several = [replace(one, races=3) for one in SPEEDS]
    assert (
        history_summary(best_by_kind(several))
        == "Faster than plain decoding on code and quoting. Not faster on chat."
    )
    assert history_summary({}) == ""


def test_one_lucky_race_does_not_beat_a_decoder_with_enough_of_them() -> None:
    lucky = (*SPEEDS, SpeedByKind("code", "jacobi", 9.0, 3.0, 1))
    assert best_by_kind(lucky)["code"].lane == "auto"


def test_a_decoder_that_writes_one_token_a_step_is_faster_on_nothing() -> None:
    idle = [replace(one, races=9, tokens_per_step=1.004) for one in SPEEDS]
    assert history_summary(best_by_kind(idle)) == "Not faster on chat, code and quoting."
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
