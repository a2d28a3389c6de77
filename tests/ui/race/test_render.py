"""Every state of a race, as HTML without a page."""

import re
from dataclasses import replace
from html import unescape

import pytest

from app.conversation import Reply
from app.conversation.race.race import LaneReply, RaceState
from app.conversation.race.race_setup import race_request
from app.conversation.race.remote_lane import reader_of
from app.ui.race.chart import chart_html
from app.ui.race.formatting import difference_words, rate, seconds, times
from app.ui.race.progress import finished_race, race_progress, thinned
from app.ui.race.remote_lane import live_output_html
from app.ui.race.render import notes_html, outputs_html, status_html, verdict_words
from app.values.messages import Failed, Finished, ModelChoice, Piece, Sampling, Statistics
from app.values.race import RaceResult, RemoteResult
from app.values.race_runs import LaneRun, RemoteRun
from app.values.trace import Margin
from tests.fakes import DEMO
from tests.racing import AUTO, HALF, LOOKAHEAD, PLAIN, LaneEngine, make_plan, run_race

TIED = Margin("four ", "<b>", 0.03)
FAR = ModelChoice("org/model", server="http://box:8000/v1")
PIECES = RemoteRun(FAR, text="Hello there.", curve=((0.0, 1), (0.5, 7)), reason="eos")
WROTE = replace(PIECES, counts_pieces=False)
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
    replies = tuple(LaneReply(lane, Reply()) for lane in plan.lanes[: len(ended) + 1])
    for heat in replies[:-1]:
        engine.submit(race_request(plan, heat.lane), heat.reply)
    return RaceState("racing", plan, replies)


def runs_of(state: RaceState) -> list[LaneRun | RemoteRun]:
    return [reader_of(heat.lane, heat.reply).read() for heat in state.replies]


def chart(state: RaceState) -> str:
    return chart_html(race_progress(state, runs_of(state)))


def statuses(shown: str) -> list[str]:
    return re.findall(r'class="lane (\w+)"', shown)


def test_before_the_first_race_it_is_explained() -> None:
    assert "two or three decoders" in text(chart(RaceState()))


def test_finished_lanes_are_shown_at_the_running_lanes_clock() -> None:
    state = racing("plain")
    shown = chart(state)
    assert re.findall(r'class="lane (\w+)"', shown) == ["finished", "running", "waiting"]
    # The second lane has not written anything yet: at its clock the first one had its first token.
    assert "1 of 8 tokens" in text(shown)


def test_a_running_race_has_speed_ups_as_soon_as_plain_has_run() -> None:
    state = racing("plain", "auto")
    speeds = re.findall(r'class="speed">([^<]*)<', chart(state))
    assert speeds[0] == "1.00x" and speeds[1].endswith("x") and speeds[2] == "—"


def test_a_second_round_begins_with_the_speed_ups_of_the_first() -> None:
    state = racing("plain", "auto", "lookahead")
    again = LaneReply(PLAIN, Reply(), 2)
    shown = chart(replace(state, replies=(*state.replies, again)))
    assert re.findall(r'class="lane (\w+)"', shown) == ["running", "waiting", "waiting"]
    assert "Round 2 of 3" in text(shown)
    speeds = re.findall(r'class="speed">([^<]*)<', shown)
    assert speeds[0] == "1.00x" and speeds[1].endswith("x"), "a lane that waits has that of the first round"


def test_a_finished_race_is_shown_at_the_time_of_the_winner(result: RaceResult) -> None:
    plain, auto = finished_race(result).lanes
    assert (auto.place.share, auto.is_winner, plain.is_winner) == (1.0, True, False)
    assert plain.place.tokens == result.lanes[0].run.tokens_at(auto.run.seconds if auto.run else 0)
    assert 0 < plain.place.share < plain.place.whole == 1.0


def test_a_finished_lane_has_all_its_numbers(result: RaceResult) -> None:
    shown = text(chart_html(finished_race(result)))
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
    shown = chart_html(finished_race(differing))
    assert "differs at token 4: margin 0.03" in text(shown)
    assert "<b>bold" not in shown and "close enough for rounding" in unescape(shown)


def test_a_margin_explains_no_sampled_token(differing: RaceResult) -> None:
    difference = differing.lanes[1].difference
    assert difference is not None
    assert "rounding" in difference_words(difference, Sampling())
    assert "rounding" not in difference_words(difference, Sampling(temperature=0.7))


def test_a_lane_that_fell_back_to_plain_decoding_says_so(result: RaceResult) -> None:
    lane = result.lanes[1]
    fell_back = replace(lane, run=replace(lane.run, decoder="plain"))
    shown = chart_html(finished_race(replace(result, lanes=(result.lanes[0], fell_back))))
    assert "plain decoding used" in text(shown)


def test_each_step_is_a_segment(result: RaceResult) -> None:
    paths = re.findall(r'<path d="([^"]*)"', chart_html(finished_race(result)))
    assert [path.count("M") for path in paths] == [len(lane.run.curve) - 1 for lane in result.lanes]


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
    assert "outside the race" in text(status_html(beside))
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
    assert 'winner"' not in chart_html(finished_race(result))


def test_the_measures_are_explained(result: RaceResult) -> None:
    assert "fastest plain run (one row per step): 100 tokens/s" in text(notes_html(result))
    half = run_race(LaneEngine(HALF), make_plan(PLAIN, AUTO))
    shown = text(notes_html(half))
    assert "(one row per step, run in addition to the lanes): 100 tokens/s" in shown
    assert "plain decoding in the same bucket" in shown
    assert notes_html(None) == ""


def test_a_very_short_race_has_a_warning(result: RaceResult) -> None:
    assert "less than a second" in text(notes_html(result))


def test_texts_have_a_mark_where_they_differ(differing: RaceResult) -> None:
    shown = outputs_html(differing)
    assert shown.count("<details>") == 2
    assert "<mark>&lt;b&gt;bold&lt;/b&gt; </mark>" in shown
    assert outputs_html(None) == ""


def remote_race(remote: RemoteResult) -> RaceResult:
    """A finished race of plain and auto with this remote lane."""
    result = run_race(LaneEngine(), make_plan(PLAIN, AUTO))
    return replace(result, plan=replace(result.plan, remote=(FAR,)), remote=(remote,))


@pytest.mark.parametrize(
    ("remote", "words"),
    [
        (
            RemoteResult(WROTE, (20.0, 24.0, 22.0)),
            "wrote 22.0 tokens/s (20.0 to 24.0). It is another model or",
        ),
        (RemoteResult(PIECES, (20.0,)), "wrote 20.0 pieces/s (20.0 to 20.0). It is another"),
        (
            RemoteResult(WROTE, (10.0, 90.0, 80.0)),
            "80.0 tokens/s (10.0 to 90.0), but 10.0 in the first round. It is another",
        ),
        (RemoteResult(RemoteRun(FAR, reason="eos"), (0.0,)), "wrote too little to measure. It is another"),
        (RemoteResult(WROTE, (20.0,), failure="It is gone."), "The remote lane failed."),
    ],
)
def test_the_remote_lane_has_a_sentence_beside_the_verdict(remote: RemoteResult, words: str) -> None:
    verdict = verdict_words(remote_race(remote))
    assert verdict.startswith("Auto was fastest: ") and words in verdict
    assert "All local lanes wrote the same text as plain decoding." in verdict


def test_a_finished_remote_lane_is_compared_with_nothing() -> None:
    result = remote_race(RemoteResult(WROTE, (20.0, 24.0, 22.0), (0.3, 0.2, 0.4)))
    shown = chart_html(finished_race(result))
    assert "Remote: org/model text may differ 1 of 7 tokens 20.0 to 24.0 22.0 tokens/s" in text(shown)
    assert "tokens/s 22.0 tokens per step — rows per step — first token 300 ms time 500 ms" in text(shown)
    assert shown.count("identical text") == 2 and "When the fastest local lane finished" in shown
    assert "box:8000 got the same prompt" in notes_html(result) and "counted." in notes_html(result)
    assert "Hello there." in outputs_html(result)


def test_a_remote_lane_that_failed_shows_its_sentence_and_what_it_wrote() -> None:
    failed = RemoteRun(FAR, text="Hel<lo", failure="It is <gone>.")
    result = remote_race(RemoteResult(failed, failure=failed.failure))
    for shown in (chart_html(finished_race(result)), outputs_html(result)):
        assert "It is &lt;gone&gt;." in shown and "text may differ" not in shown
    assert "Hel&lt;lo" in outputs_html(result)


def test_a_running_remote_lane_waits_runs_and_ends() -> None:
    state, reply = racing("plain", "auto", "lookahead"), Reply()
    state = replace(state, plan=make_plan(PLAIN, AUTO, LOOKAHEAD, remote=(FAR,)))
    assert statuses(chart(state))[2:] == ["running", "waiting"]
    state = replace(state, replies=(*state.replies, LaneReply(FAR, reply)))
    assert statuses(chart(state))[3] == "running"
    assert "the remote lane is running, on box:8000" in text(status_html(state))
    reply.append(Piece("Hel<lo", (), (), Statistics(seconds=0.5, time_to_first_token=0.1)))
    assert "1 piece " in text(chart(state)) and "Hel&lt;lo" in live_output_html(runs_of(state))
    reply.append(Failed("It is gone."))
    assert statuses(chart(state))[3] == "failed" and "It is gone." in chart(state)
    again = replace(state, replies=(*state.replies, LaneReply(PLAIN, Reply(), 2)))
    assert statuses(chart(again))[3] == "failed", "also while the others run their next round"


def test_a_remote_lane_that_waits_for_its_next_round_shows_what_it_measured_in_its_unit() -> None:
    state, reply = racing("plain", "auto", "lookahead"), Reply()
    reply.append(Piece("Hello there.", (), (), Statistics(seconds=0.5)))
    reply.append(Finished("eos", Statistics(tokens=6, seconds=0.5), DEMO, "auto"))
    replies = (*state.replies, LaneReply(FAR, reply), LaneReply(PLAIN, Reply(), 2))
    plan = make_plan(PLAIN, AUTO, LOOKAHEAD, remote=(FAR,))
    state = replace(state, plan=plan, replies=replies)
    assert "Remote: org/model waiting 12.0 tokens/s" in text(chart(state))
    state = replace(state, replies=(*replies, LaneReply(FAR, Reply(), 2)))
    assert "Remote: org/model running 0 tokens 12.0 tokens/s" in text(chart(state))


def test_before_the_remote_lane_writes_no_text_is_shown() -> None:
    assert live_output_html(runs_of(racing("plain", "auto"))) == ""


def test_numbers_have_sensible_digits() -> None:
    assert [rate(value) for value in (0, 41.27, 412.4, 1203)] == ["—", "41.3", "412", "1,203"]
    assert [seconds(value) for value in (0.084, 1.244, 63)] == ["84 ms", "1.24 s", "63.0 s"]
    assert [times(value) for value in (0, 1.736)] == ["—", "1.74x"]


def test_a_long_curve_is_thinned_and_keeps_its_end() -> None:
    curve = tuple((float(i), i) for i in range(1000))
    thin = thinned(curve, 100)
    assert len(thin) <= 101 and thin[-1] == curve[-1]
    assert thinned(curve[:50], 100) == curve[:50]
