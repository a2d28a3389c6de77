"""What the view's events do: read the controls, start, stop, save, and draw only what changed."""

from typing import Any

import pytest

from app.conversation.race import Race
from app.errors import BadOption, StoreNotUsable
from app.messages import Decoding, ModelChoice, ModelInfo, Options, Sampling
from app.race_messages import RacePrompt, SpeedByKind, TextKind
from app.ui.page_stream import View
from app.ui.race.actions import Chosen, RaceActions, RaceSeat
from app.ui.race.controls import NOBODY, read_plan
from app.ui.race.watching import RaceScreen, RaceWatcher, race_parts
from tests.fakes import DEMO
from tests.racing import LaneEngine, RememberedRaces, make_plan, make_race, run_race
from tests.ui.streaming import frames

LANES: tuple[Any, ...] = ("plain", 5, 4, 5, "lookahead", 15, 5, 15, NOBODY, 5, 4, 5)
OPTIONS = Options(Sampling(0.7, seed=3), Decoding(rows=32, same_text=False))
MODEL = ModelChoice("demo")


@pytest.fixture
def engine() -> LaneEngine:
    return LaneEngine()


@pytest.fixture
def actions(engine: LaneEngine) -> RaceActions:
    chosen = Chosen(lambda: OPTIONS, lambda: MODEL)
    return RaceActions(make_race(engine), (), chosen, [].append)


def test_the_controls_mean_a_plan_with_the_chats_sampling() -> None:
    plan = read_plan("code", " Say it. ", 64, LANES, OPTIONS, MODEL)
    plain, lookahead = plan.lanes
    assert (plain.decoder, lookahead.decoder) == ("plain", "lookahead")
    assert (lookahead.window, lookahead.ngram, lookahead.guesses) == (15, 5, 15)
    assert (plan.options.sampling, plan.options.max_new_tokens, plan.same_text) == (
        OPTIONS.sampling,
        64,
        False,
    )
    assert plan.prompt.text == "Say it."


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"text": "  "}, "no prompt"),
        ({"tokens": None}, "Tokens is empty"),
        ({"tokens": 0}, "at least 1"),
        ({"lanes": (*LANES[:5], None, *LANES[6:])}, "W is empty"),
        ({"lanes": ("plain", 5, 4, 5, NOBODY, 5, 4, 5, NOBODY, 5, 4, 5)}, "two or three lanes"),
        ({"lanes": (*LANES[:8], "plain", 5, 4, 5)}, "different"),
        ({"lanes": (*LANES[:6], 99, *LANES[7:])}, "Ngram must be"),
    ],
)
def test_what_cannot_be_raced_is_said(change: dict[str, Any], problem: str) -> None:
    asked = {"kind": "code", "text": "Say it.", "tokens": 64, "lanes": LANES} | change
    with pytest.raises(BadOption, match=problem):
        read_plan(**asked, options=OPTIONS, model=MODEL)


def test_sizes_that_a_lane_does_not_look_at_may_be_empty() -> None:
    lanes = ("plain", None, None, None, "jacobi", 8, None, None, NOBODY, None, None, None)
    plan = read_plan("own", "Say it.", 64, lanes, OPTIONS, MODEL)
    assert plan.lanes[1].window == 8


def test_a_problem_is_shown_and_nothing_starts(actions: RaceActions, engine: LaneEngine) -> None:
    assert 'role="alert"' in actions.start("own", "", 64, *LANES)
    assert engine.requests == []
    assert actions.start("own", "Say it.", 64, *LANES) == ""


@pytest.mark.parametrize(("text", "kind"), [("Say it. ", "code"), ("Say it twice.", "own")])
def test_a_changed_prompt_counts_as_ones_own(engine: LaneEngine, text: str, kind: str) -> None:
    race = make_race(engine)
    chosen = Chosen(lambda: OPTIONS, lambda: MODEL)
    actions = RaceActions(race, (RacePrompt("code", "Say it."),), chosen, [].append)
    actions.start("code", text, 64, *LANES)
    race.wait(10)
    assert race.state.plan is not None and race.state.plan.prompt.kind == kind


def test_a_text_of_ones_own_comes_back_after_ready_made_ones_were_looked_at(engine: LaneEngine) -> None:
    prompts = (RacePrompt("code", "Add."), RacePrompt("code", "Subtract."), RacePrompt("chat", "Say hi."))
    chosen = Chosen(lambda: OPTIONS, lambda: MODEL)
    actions, seat = RaceActions(make_race(engine), prompts, chosen, [].append), RaceSeat()
    texts = ["My own prompt."]
    kinds: tuple[TextKind, ...] = ("code", "code", "chat", "own", "own")
    for kind in kinds:
        texts.append(actions.choose(seat, kind, texts[-1]))
    assert texts[1:] == ["Add.", "Subtract.", "Say hi.", "My own prompt.", "My own prompt."]


def test_there_is_nothing_to_save_before_a_race(actions: RaceActions) -> None:
    assert (actions.picture(), actions.everything()) == ("", "")


def watcher_of(race: Race, model: ModelInfo | None = DEMO) -> RaceWatcher:
    return RaceWatcher(race, lambda: model)


def test_a_page_draws_only_what_changed(engine: LaneEngine) -> None:
    race = make_race(engine)
    watcher = watcher_of(race)
    assert watcher.has_turned(), "it asks the database"
    before = watcher.look()
    assert watcher.look() is before
    assert not watcher.has_turned()
    race.start(make_plan())
    race.wait(10)
    assert watcher.has_turned()
    parts = race_parts(watcher.look())
    assert (parts["is-racing"], parts["has-raced"], race_parts(before)["has-raced"]) == (False, True, False)
    for part, words in {
        "status": "fastest",
        "board": "Photo finish",
        "notes": "Speed-up",
        "texts": "<details>",
        "history": "Last races",
    }.items():
        assert words in str(parts[f"race-{part}"])


class UnsteadyRaces(RememberedRaces):
    """A history that cannot be read while `is_held`."""

    is_held = True
    refused = 0

    def summary(self, model: ModelInfo) -> list[SpeedByKind]:
        if self.is_held:
            self.refused += 1
            raise StoreNotUsable("Another program holds the file.")
        return super().summary(model)


def test_a_view_whose_history_cannot_be_read_says_so_and_looks_on(engine: LaneEngine) -> None:
    races = UnsteadyRaces()
    race = Race(engine, lambda: False, races, str.upper)
    races.results.append(run_race(engine, make_plan()))
    watcher = watcher_of(race)

    def look() -> RaceScreen:
        races.is_held = races.refused < 2
        return watcher.look()

    first, second = frames([View(lambda: race_parts(look()), watcher.has_turned, 0.0)], 2)
    assert first == {"problem": "Another program holds the file."}
    assert "Last races" in second["race-history"] and second["problem"] == ""


def test_a_reopened_page_sees_the_race_as_it_stands(engine: LaneEngine) -> None:
    race = make_race(engine)
    race.start(make_plan())
    race.wait(10)
    assert watcher_of(race).look() == watcher_of(race).look()
    assert "Photo finish" in watcher_of(race, None).look().board
