"""Every state of a race, as HTML without a page."""

import re
from dataclasses import replace
from html import unescape

import pytest

from app.conversation import Reply
from app.conversation.decoder_comparison import read_lane
from app.conversation.race import LaneReply, RaceState
from app.conversation.race_setup import race_request
from app.messages import Sampling
from app.race_messages import Margin, RaceResult
from app.ui.race.board import board_html, notes_html, status_html, verdict_words
from app.ui.race.course import course, photo_finish, thinned
from app.ui.race.texts import texts_html
from app.ui.race.words import difference_words, rate, seconds, times
from tests.racing import AUTO, HALF, LOOKAHEAD, PLAIN, LaneEngine, make_plan, run_race

TIED = Margin("four ", "<b>", 0.03)
TEXTS = {"auto": "one two three <b>bold</b>"}


def text(html: str) -> str:
    """What a person reads."""
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", html)).split())


@pytest.fixture(scope="module")
def result() -> RaceResult:
    return run_race(LaneEngine(), make_plan(PLAIN, AUTO))


@pytest.fixture(scope="module")
def differing() -> RaceResult:
    engine = LaneEngine(texts=TEXTS)
    engine.closeness = TIED
    return run_race(engine, make_plan(PLAIN, AUTO))


def racing(*ended: str) -> RaceState:
    """A race of three whose named lanes have run; the next one has begun."""
    engine, plan = LaneEngine(), make_plan(PLAIN, AUTO, LOOKAHEAD)
    heats = tuple(LaneReply(lane, Reply()) for lane in plan.lanes[: len(ended) + 1])
    for heat in heats[:-1]:
        engine.submit(race_request(plan, heat.decoding), heat.reply)
    return RaceState("racing", plan, heats)


def board(state: RaceState) -> str:
    return board_html(course(state, [read_lane(heat.decoding, heat.reply) for heat in state.replies]))


def test_before_the_first_race_the_board_says_what_a_race_is() -> None:
    assert "two or three decoders" in text(board(RaceState()))


def test_lanes_that_have_run_are_ghosts_at_the_running_lanes_clock() -> None:
    state = racing("plain")
    shown = board(state)
    assert re.findall(r'class="lane (\w+)"', shown) == ["ghost", "running", "waiting"]
    # The second lane has not written anything yet: at its clock the first one had its first token.
    assert "1 of 8 tokens" in text(shown)


def test_a_running_race_has_speed_ups_as_soon_as_plain_has_run() -> None:
    state = racing("plain", "auto")
    speeds = re.findall(r'class="speed">([^<]*)<', board(state))
    assert speeds[0] == "1.00x" and speeds[1].endswith("x") and speeds[2] == "—"


def test_the_photo_finish_is_when_the_winner_was_there(result: RaceResult) -> None:
    plain, auto = photo_finish(result).runners
    assert (auto.share, auto.is_winner, plain.is_winner) == (1.0, True, False)
    assert plain.tokens == result.lanes[0].run.tokens_at(auto.run.seconds if auto.run else 0)
    assert 0 < plain.share < plain.whole == 1.0


def test_a_finished_lane_has_all_its_numbers(result: RaceResult) -> None:
    shown = text(board_html(photo_finish(result)))
    speed = times(result.lanes[1].speed_up)
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
    shown = board_html(photo_finish(differing))
    assert "differs at token 4: margin 0.03" in text(shown)
    assert "<b>bold" not in shown and "close enough for rounding" in unescape(shown)


def test_a_margin_explains_no_token_that_was_drawn(differing: RaceResult) -> None:
    difference = differing.lanes[1].difference
    assert difference is not None
    assert "rounding" in difference_words(difference, Sampling())
    assert "rounding" not in difference_words(difference, Sampling(temperature=0.7))


def test_a_lane_that_could_not_branch_says_so(result: RaceResult) -> None:
    lane = result.lanes[1]
    fell_back = replace(lane, run=replace(lane.run, decoder="plain"))
    shown = board_html(photo_finish(replace(result, lanes=(result.lanes[0], fell_back))))
    assert "decoded plainly" in text(shown)


def test_each_forward_pass_is_a_segment(result: RaceResult) -> None:
    paths = re.findall(r'<path d="([^"]*)"', board_html(photo_finish(result)))
    assert [path.count("M") for path in paths] == [len(lane.run.curve) - 1 for lane in result.lanes]


@pytest.mark.parametrize(
    ("phase", "words"),
    [("warming", "Warming up"), ("judging", "Comparing"), ("stopped", "Why."), ("failed", "Why.")],
)
def test_every_phase_has_its_sentence(phase: str, words: str) -> None:
    note = "Why." if phase in ("stopped", "failed") else ""
    shown = status_html(RaceState(phase, make_plan(), note=note))  # type: ignore[arg-type]
    assert words in shown and 'role="status"' in shown


def test_a_plain_beside_is_told_apart_from_the_lanes() -> None:
    plan = make_plan(AUTO, LOOKAHEAD)
    beside = RaceState("racing", plan, (LaneReply(PLAIN, Reply(), True),))
    assert "beside the race" in text(status_html(beside))
    first = RaceState("racing", plan, (*beside.replies, LaneReply(AUTO, Reply())))
    assert "Lane 1" in text(status_html(first))


def test_the_verdict_says_who_was_fastest_and_whether_the_texts_are_the_same(
    result: RaceResult, differing: RaceResult
) -> None:
    assert verdict_words(result).startswith(f"Auto was fastest: {times(result.lanes[1].speed_up)}")
    assert verdict_words(result).endswith("All lanes wrote plain's text.")
    assert verdict_words(differing).endswith("Not all lanes wrote plain's text.")
    slow = replace(result, lanes=(result.lanes[0],) * 2)
    assert verdict_words(slow).startswith("Plain was fastest here.")


def test_both_measures_are_explained_in_a_line_each(result: RaceResult) -> None:
    assert "fastest plain (one row a step): 100 tokens/s" in text(notes_html(result))
    half = run_race(LaneEngine(HALF), make_plan(PLAIN, AUTO))
    shown = text(notes_html(half))
    assert "(one row a step, run beside the lanes): 100 tokens/s" in shown
    assert "plain of the same width class" in shown
    assert notes_html(None) == ""


def test_a_race_of_a_moment_is_called_one(result: RaceResult) -> None:
    assert "less than a second" in text(notes_html(result))


def test_texts_are_folded_with_a_mark_where_they_leave_plains(differing: RaceResult) -> None:
    shown = texts_html(differing)
    assert shown.count("<details>") == 2
    assert "<mark>&lt;b&gt;bold&lt;/b&gt; </mark>" in shown
    assert texts_html(None) == ""


def test_numbers_are_written_as_people_read_them() -> None:
    assert [rate(value) for value in (0, 41.27, 412.4, 1203)] == ["—", "41.3", "412", "1,203"]
    assert [seconds(value) for value in (0.084, 1.244, 63)] == ["84 ms", "1.24 s", "63.0 s"]
    assert [times(value) for value in (0, 1.736)] == ["—", "1.74x"]


def test_a_long_curve_is_thinned_and_keeps_its_end() -> None:
    curve = tuple((float(i), i) for i in range(1000))
    thin = thinned(curve, 100)
    assert len(thin) <= 101 and thin[-1] == curve[-1]
    assert thinned(curve[:50], 100) == curve[:50]
