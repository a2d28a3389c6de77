"""The Race view: its plan, its actions, and that it renders only what has changed."""

from typing import Any

import pytest

from app.conversation.race.race import Race
from app.errors import StoreNotUsable
from app.ui.frame.page_updates import Parts, PolledRenderer
from app.ui.race.render import RaceRenderer
from app.ui.race.view import DEFAULT_TOKENS, NO_LANE, RaceActions, RaceViewState
from app.values.messages import Decoding, EngineStatus, ModelChoice, ModelInfo, Options, Sampling
from app.values.race import RacePlan, RacePrompt, SpeedByKind, TextKind
from tests.fakes import DEMO
from tests.racing import LaneEngine, RememberedRaces, make_plan, make_race, run_race
from tests.ui.streaming import frames

LANES: tuple[Any, ...] = ("plain", 5, 4, 5, "lookahead", 15, 5, 15, NO_LANE, 5, 4, 5)
OPTIONS = Options(Sampling(0.7, seed=3), Decoding(rows=32, same_text=False))
MODEL = ModelChoice("demo")


@pytest.fixture
def engine() -> LaneEngine:
    return LaneEngine()


def make_actions(race: Race, *prompts: RacePrompt) -> RaceActions:
    return RaceActions(race, prompts, lambda: OPTIONS, lambda: MODEL)


@pytest.fixture
def actions(engine: LaneEngine) -> RaceActions:
    return make_actions(make_race(engine))


def started(engine: LaneEngine, tokens: float | None = 64, lanes: tuple[Any, ...] = LANES) -> RacePlan:
    race = make_race(engine)
    shown = make_actions(race).start(RaceViewState(), "code", " Say it. ", tokens, *lanes)
    assert shown[0] == ""
    race.stop()
    race.wait(300)
    assert race.state.plan
    return race.state.plan


def test_the_plan_has_the_chats_sampling(engine: LaneEngine) -> None:
    plan = started(engine)
    plain, lookahead = plan.lanes
    assert (plain.decoder, lookahead.decoder) == ("plain", "lookahead")
    assert (lookahead.window, lookahead.ngram, lookahead.guesses) == (15, 5, 15)
    limits = plan.options.max_new_tokens, plan.same_text
    assert (plan.options.sampling, *limits) == (OPTIONS.sampling, 64, False)
    assert plan.prompt.text == "Say it."


@pytest.mark.parametrize(
    ("lanes", "problem"),
    [
        (("plain", 5, 4, 5, NO_LANE, 5, 4, 5, NO_LANE, 5, 4, 5), "two or three lanes"),
        ((*LANES[:8], "plain", 5, 4, 5), "different"),
    ],
)
def test_an_impossible_race_is_refused(actions: RaceActions, lanes: tuple[Any, ...], problem: str) -> None:
    assert problem in actions.start(RaceViewState(), "code", "Say it.", 64, *lanes)[0]


def test_a_race_without_a_limit_goes_on_to_the_end_of_the_replies(engine: LaneEngine) -> None:
    assert started(engine, None).options.max_new_tokens == 0


def test_sizes_that_a_lane_does_not_use_may_be_empty(engine: LaneEngine) -> None:
    lanes = ("plain", None, None, None, "jacobi", 8, None, None, NO_LANE, None, None, None)
    assert started(engine, lanes=lanes).lanes[1].window == 8


def test_a_wrong_box_is_told_and_its_last_valid_value_is_used(engine: LaneEngine) -> None:
    race, state = make_race(engine), RaceViewState()
    actions = make_actions(race)
    ids = {"window": "race-W-2", "ngram": "race-N-2", "guesses": "race-G-2"}
    assert "&quot;race-N-2&quot;: &quot;&quot;" in actions.judge(1, ids, state, 15, 7, 15)
    assert "N (n-gram) must be from 2 to 16." in actions.judge(1, ids, state, 15, 99, 15)
    assert "Type a number." in actions.judge(1, ids, state, None, 7, 15)
    lanes = (*LANES[:5], None, 99, *LANES[7:])
    actions.start(state, "code", "Say it.", -1, *lanes)
    race.wait(300)
    assert race.state.plan
    lane = race.state.plan.lanes[1]
    assert (lane.window, lane.ngram, race.state.plan.options.max_new_tokens) == (15, 7, DEFAULT_TOKENS)


def test_a_race_without_a_prompt_is_told_at_its_box(actions: RaceActions, engine: LaneEngine) -> None:
    assert "There is no prompt." in actions.start(RaceViewState(), "own", "", 64, *LANES)[1]
    assert engine.requests == []
    assert actions.start(RaceViewState(), "own", "Say it.", 64, *LANES)[0] == ""


@pytest.mark.parametrize(("text", "kind"), [("Say it. ", "code"), ("Say it twice.", "own")])
def test_an_edited_example_counts_as_ones_own_prompt(engine: LaneEngine, text: str, kind: str) -> None:
    race = make_race(engine)
    actions = make_actions(race, RacePrompt("code", "Say it."))
    actions.start(RaceViewState(), "code", text, 64, *LANES)
    race.wait(300)
    assert race.state.plan is not None and race.state.plan.prompt.kind == kind


def test_ones_own_prompt_comes_back_after_examples(engine: LaneEngine) -> None:
    prompts = (RacePrompt("code", "Add."), RacePrompt("code", "Subtract."), RacePrompt("chat", "Say hi."))
    actions, state = make_actions(make_race(engine), *prompts), RaceViewState()
    texts = ["My own prompt."]
    kinds: tuple[TextKind, ...] = ("code", "code", "chat", "own", "own")
    for kind in kinds:
        texts.append(actions.choose_prompt(state, kind, texts[-1]))
    assert texts[1:] == ["Add.", "Subtract.", "Say hi.", "My own prompt.", "My own prompt."]


def renderer_of(race: Race, model: ModelInfo | None = DEMO) -> RaceRenderer:
    return RaceRenderer(race, lambda: EngineStatus("ready", model=model))


def test_parts_are_rendered_again_only_after_a_change(engine: LaneEngine) -> None:
    race = make_race(engine)
    renderer = renderer_of(race)
    assert renderer.reads_database()
    before = renderer.render()
    assert renderer.render() is before
    assert not renderer.reads_database()
    race.start(make_plan())
    race.wait(300)
    assert renderer.reads_database()
    parts = renderer.render()
    assert (parts["is-racing"], parts["has-raced"], before["has-raced"]) == (False, True, False)
    for part, words in {
        "status": "fastest",
        "chart": "When the fastest lane finished",
        "notes": "Speed-up",
        "outputs": "<details>",
        "history": "Last races",
    }.items():
        assert words in str(parts[f"race-{part}"])


def test_while_the_model_is_loaded_the_race_says_how_far_it_is(engine: LaneEngine) -> None:
    race, status = make_race(engine), EngineStatus("loading", "Measuring the model's step (55%)")
    renderer, seen = RaceRenderer(race, lambda: status), list[str]()
    engine.on_submit = lambda _request: seen.append(str(renderer.render()["race-status"]))
    race.start(make_plan())
    race.wait(300)
    assert "(55%)" in seen[0] and "(55%)" not in seen[-1]


class UnsteadyRaces(RememberedRaces):
    """A history that cannot be read while `is_held`."""

    is_held = True
    refused = 0

    def summary(self, model: ModelInfo) -> list[SpeedByKind]:
        if self.is_held:
            self.refused += 1
            raise StoreNotUsable("Another program holds the file.")
        return super().summary(model)


def test_a_history_that_cannot_be_read_is_reported_and_read_again(engine: LaneEngine) -> None:
    races = UnsteadyRaces()
    race = Race(engine, lambda: False, races, str.upper)
    races.results.append(run_race(engine, make_plan()))
    renderer = renderer_of(race)

    def render() -> Parts:
        races.is_held = races.refused < 2
        return renderer.render()

    first, second = frames([PolledRenderer(render, renderer.reads_database, 0.0)], 2)
    assert first == {"problem": "Another program holds the file."}
    assert "Last races" in second["race-history"] and second["problem"] == ""


def test_a_reopened_page_sees_the_race_as_it_stands(engine: LaneEngine) -> None:
    race = make_race(engine)
    race.start(make_plan())
    race.wait(300)
    assert renderer_of(race).render() == renderer_of(race).render()
    assert "When the fastest lane finished" in str(renderer_of(race, None).render()["race-chart"])
