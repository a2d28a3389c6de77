"""A race is fair, measures against the right plains in rounds, can be stopped, and leaves the chat in peace."""

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import closing
from dataclasses import replace
from math import inf

import pytest

from app.chats.chats import Chats
from app.conversation import ChatStores, Conversations, NewChat
from app.conversation.race.lane_comparison import WARM_UP_TOKENS
from app.conversation.race.race import BUSY, RACING, REMOTE, ROUNDS, UNKNOWN_MARGINS
from app.database.database import MEMORY, Database
from app.errors import RaceRefused
from app.values.chat import ChatVersion
from app.values.messages import Decoding, ModelChoice, Request
from app.values.race import LONGEST_PROMPT, Difference, lane_name
from app.values.reply_statistics import Margin
from tests.conversation.people import ASKED
from tests.fakes import DEMO, FakeDocumentSearch, chat_tools
from tests.racing import (
    AUTO,
    HALF,
    JACOBI,
    LOOKAHEAD,
    PLAIN,
    LaneEngine,
    RememberedRaces,
    SlowEngine,
    make_plan,
    make_race,
    run_race,
)
from tests.support.waiting import until

TIED = Margin("four", "vier", 0.03)


@pytest.fixture
def engine() -> SlowEngine:
    return SlowEngine()


@pytest.fixture
def chats(engine: SlowEngine, database: Database) -> Iterator[Conversations]:
    with closing(Database(MEMORY)) as memory:
        yield Conversations(
            engine, ChatStores(Chats(database), Chats(memory)), FakeDocumentSearch(), chat_tools()
        )


def heats(engine: LaneEngine) -> list[tuple[str, bool]]:
    """The heats after the warm-up: decoder, and whether its text had to be the same."""
    real = [one.options for one in engine.requests if one.options.max_new_tokens > WARM_UP_TOKENS]
    return [(one.decoding.decoder, one.decoding.same_text) for one in real]


def test_lanes_run_one_after_the_other_cold_and_with_one_seed() -> None:
    engine = LaneEngine()
    result = run_race(engine, make_plan(PLAIN, AUTO, LOOKAHEAD))
    assert ROUNDS >= 3
    assert heats(engine) == [("plain", True), ("auto", True), ("lookahead", True)] * ROUNDS
    assert all(request.is_cold for request in engine.requests)
    assert len({request.options.sampling for request in engine.requests}) == 1
    assert [lane.run.name for lane in result.lanes] == ["plain", "auto", "lookahead 5/4/5"]


def test_every_heat_is_warmed_up_before_the_first_one_counts() -> None:
    engine = LaneEngine(HALF)
    run_race(engine, make_plan(PLAIN, AUTO))
    lengths = [request.options.max_new_tokens for request in engine.requests]
    assert lengths == [WARM_UP_TOKENS] * 3 + [64] * 3 * ROUNDS
    warmed, raced = (
        [one.options.decoding for one in part] for part in (engine.requests[:3], engine.requests[3:])
    )
    assert set(warmed) == set(raced)


@pytest.mark.parametrize(
    ("model", "same_text", "lanes", "expected"),
    [
        (DEMO, True, (PLAIN, AUTO), [("plain", True), ("auto", True)]),
        (DEMO, True, (AUTO, LOOKAHEAD), [("plain", True), ("auto", True), ("lookahead", True)]),
        (HALF, True, (PLAIN, AUTO), [("plain", False), ("plain", True), ("auto", True)]),
        (HALF, True, (AUTO, JACOBI), [("plain", False), ("plain", True), ("auto", True), ("jacobi", True)]),
        (HALF, False, (PLAIN, AUTO), [("plain", False), ("auto", False)]),
        (HALF, False, (AUTO, JACOBI), [("plain", False), ("auto", False), ("jacobi", False)]),
    ],
)
def test_the_plains_that_are_no_lanes_run_beside(model, same_text, lanes, expected) -> None:  # type: ignore[no-untyped-def]
    engine = LaneEngine(model)
    run_race(engine, make_plan(*lanes, same_text=same_text))
    assert heats(engine) == expected * ROUNDS


def test_speed_is_measured_against_the_fastest_plain_and_not_against_the_padded_one() -> None:
    result = run_race(LaneEngine(HALF), make_plan(PLAIN, AUTO))
    plain, auto = result.lanes
    assert not result.fastest_plain.decoding.same_text
    assert plain.speed_up.median == pytest.approx(0.5)
    assert auto.speed_up.median == pytest.approx(auto.run.statistics.tokens_per_second / 100)
    assert result.winner is auto


def test_a_lanes_speed_up_is_the_median_of_rounds_each_against_its_own_plain() -> None:
    """A machine that slows down halfway slows both lanes."""
    engine = LaneEngine(paces={"plain": (9, 0.01, 0.02, 0.04), "auto": (9, 0.005, 0.01, 0.02)})
    plain, auto = run_race(engine, make_plan(PLAIN, AUTO)).lanes
    assert (auto.speed_up.low, auto.speed_up.median, auto.speed_up.high) == pytest.approx((2.0, 2.0, 2.0))
    assert plain.speeds == pytest.approx((100, 50, 25))
    assert plain.run.statistics.tokens_per_second == pytest.approx(50), "the run of median speed is shown"


@pytest.mark.parametrize(
    ("auto", "winner"),
    [
        ((0.0050, 0.0052, 0.0048), "auto"),
        ((0.0200, 0.0210, 0.0190), "plain"),
        ((0.0095, 0.0096, 0.0095), "auto"),
        ((0.0099, 0.0100, 0.0098), ""),  # 1% is noise
        ((0.0070, 0.0130, 0.0090), ""),  # faster in two rounds of three
        ((0.0060, 0.0092, 0.0097), ""),  # faster in each, but by less than it differs from round to round
    ],
)
def test_a_lane_wins_by_more_than_its_speed_differs_from_round_to_round(
    auto: tuple[float, ...], winner: str
) -> None:
    result = run_race(LaneEngine(paces={"auto": (0.01, *auto)}), make_plan(PLAIN, AUTO))
    assert (result.winner.run.name if result.winner else "") == winner


def test_a_decoder_that_writes_one_token_a_step_never_wins() -> None:
    result = run_race(LaneEngine(paces={"auto": (0.005,)}, single=("plain", "auto")), make_plan(PLAIN, AUTO))
    assert result.leader.run.name == "auto" and result.leader.speed_up.median == pytest.approx(2.0)
    assert result.winner is None


def test_a_text_that_differs_in_one_round_is_no_identical_text() -> None:
    engine = LaneEngine()

    def change(_request: Request) -> None:
        engine.texts = {"auto": "one two drei"} if len(heats(engine)) == 2 * ROUNDS else {}

    engine.on_submit = change
    auto = run_race(engine, make_plan(PLAIN, AUTO)).lanes[1]
    assert auto.difference is not None and auto.difference.index == 2
    assert auto.run.text.startswith("one two drei")


def test_the_first_differing_token_is_told_with_what_was_said_and_how_close_it_was() -> None:
    engine = LaneEngine(texts={"auto": "one two three vier fünf"})
    engine.closeness = TIED
    plain, auto = run_race(engine, make_plan(PLAIN, AUTO)).lanes
    assert plain.difference is None and auto.difference is not None
    assert auto.difference == Difference(3, "vier ", "four ", TIED)
    assert engine.weighed == [(engine.requests[-1], auto.run.token_ids[:3])], "once, not in every round"


def test_a_text_that_ends_earlier_differs_where_it_ends() -> None:
    plain, auto = run_race(LaneEngine(texts={"auto": "one two three"}), make_plan(PLAIN, AUTO)).lanes
    assert plain.is_identical and auto.difference == Difference(3, "", "four ")


def test_a_lanes_clock_starts_at_its_first_token() -> None:
    run = run_race(LaneEngine(), make_plan(PLAIN, AUTO)).lanes[1].run
    assert run.curve[0] == (0.0, 1)
    assert run.curve[-1] == (pytest.approx(4 * 0.012), 8)
    assert [run.tokens_at(seconds) for seconds in (-1, 0, 0.013, 9)] == [0, 1, 3, 8]


def test_a_finished_race_is_kept_with_what_it_ran_on() -> None:
    race = make_race(LaneEngine())
    race.start(make_plan())
    race.wait(300)
    assert isinstance(race.log, RememberedRaces)
    (kept,) = race.log.results
    assert kept is race.state.result
    assert (kept.machine, kept.model) == ("a cpu", DEMO)


def test_a_race_is_refused_while_a_reply_is_written(chats: Conversations, engine: SlowEngine) -> None:
    race = make_race(engine, lambda: chats.is_busy)
    engine.step_limit = 1
    chats.start(NewChat(ChatVersion(), ASKED, "Hi"))
    with pytest.raises(RaceRefused, match=BUSY):
        race.start(make_plan())
    chats.stop_all()
    chats.close()
    race.start(make_plan())
    with pytest.raises(RaceRefused, match=RACING):
        race.start(make_plan())
    engine.step_limit = inf
    race.wait(300)
    assert race.state.phase == "done"


def test_a_chat_goes_on_after_a_race(chats: Conversations, engine: SlowEngine) -> None:
    race = make_race(engine, lambda: chats.is_busy)
    engine.step_limit = 1
    race.start(make_plan())
    place = chats.start(NewChat(ChatVersion(), ASKED, "Hi"))
    engine.step_limit = inf
    race.wait(300)
    chats.close()
    assert chats.thread(place.chat, 1).messages[0].text == engine.text


def test_a_stopped_race_counts_for_nothing_and_another_can_begin() -> None:
    engine = SlowEngine(step_limit=1)
    race = make_race(engine)
    race.start(make_plan())
    race.stop()
    race.wait(300)
    assert (race.state.phase, race.state.result) == ("stopped", None)
    engine.step_limit = inf
    race.start(make_plan())
    race.wait(300)
    assert race.state.phase == "done"


class WeighingEngine(LaneEngine):
    """Never answers how close two tokens were."""

    asked: Future[Margin]

    def margin(self, request: Request, written: Sequence[int]) -> Future[Margin]:
        self.weighed.append((request, tuple(written)))
        self.asked = Future()
        return self.asked


def test_a_race_that_is_stopped_while_texts_are_compared_ends_with_its_result() -> None:
    engine = WeighingEngine(texts={"auto": "one two drei", "lookahead": "eins"})
    race = make_race(engine)
    race.start(make_plan(PLAIN, AUTO, LOOKAHEAD))
    until(lambda: engine.weighed)
    race.stop()
    race.wait(300)
    assert engine.asked.cancelled() and len(engine.weighed) == 1, (
        "nothing is left running, and nothing is begun"
    )
    assert (race.state.phase, race.state.note) == ("done", UNKNOWN_MARGINS)
    assert race.state.result and not any(
        lane.difference and lane.difference.margin for lane in race.state.result.lanes
    )
    assert isinstance(race.log, RememberedRaces) and race.log.results == [race.state.result]


def test_a_closed_race_has_ended_whether_it_was_begun_or_not() -> None:
    race = make_race(SlowEngine(step_limit=1))
    race.close()
    race.start(make_plan())
    race.close()
    assert race.state.phase == "stopped"


def test_a_race_stopped_in_a_lane_does_not_start_the_next() -> None:
    engine = LaneEngine()
    race = make_race(engine)
    engine.on_submit = lambda _request: race.stop() if len(heats(engine)) == 1 else None
    race.start(make_plan(PLAIN, AUTO))
    race.wait(300)
    assert race.state.phase == "stopped"
    assert heats(engine) == [("plain", True)]


def test_a_failed_lane_ends_the_race_with_its_sentence() -> None:
    engine = LaneEngine()
    engine.failure = "Memory ran out: choose a smaller model."
    race = make_race(engine)
    race.start(make_plan())
    race.wait(300)
    assert (race.state.phase, race.state.note) == ("failed", engine.failure)


def test_the_race_has_a_thread_of_its_own() -> None:
    engine, names = LaneEngine(), set[str]()
    engine.on_submit = lambda _request: names.add(threading.current_thread().name)
    run_race(engine, make_plan())
    assert names == {"race"}


@pytest.mark.parametrize(
    ("lanes", "problem"),
    [
        ((PLAIN,), "two or three"),
        ((PLAIN, AUTO, LOOKAHEAD, JACOBI), "two or three"),
        ((AUTO, AUTO), "different"),
    ],
)
def test_impossible_lanes_are_refused(lanes: tuple[Decoding, ...], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        make_plan(*lanes)


def test_a_model_of_a_server_does_not_race() -> None:
    far = ModelChoice("org/model", server="http://box:8000/v1")
    with pytest.raises(RaceRefused, match=REMOTE):
        make_race(LaneEngine()).start(replace(make_plan(), model=far))


def test_a_prompt_that_is_a_book_is_refused() -> None:
    with pytest.raises(ValueError, match="characters"):
        make_plan(text="x" * (LONGEST_PROMPT + 1))


@pytest.mark.parametrize(
    ("decoding", "name"),
    [
        (PLAIN, "plain"),
        (AUTO, "auto"),
        (replace(AUTO, rows=32), "auto 32 rows"),
        (Decoding("lookahead", 15, 5, 15), "lookahead 15/5/15"),
        (Decoding("prompt-lookup"), "prompt lookup"),
        (JACOBI, "jacobi 8"),
    ],
)
def test_lanes_are_called_by_what_tells_them_apart(decoding: Decoding, name: str) -> None:
    assert lane_name(decoding) == name
