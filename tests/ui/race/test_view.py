"""The Race view: its plan, its actions, and that it renders only what has changed."""

from typing import Any

import pytest

from app.conversation.race.race import Race
from app.errors import BadOption, StoreNotUsable
from app.ui.frame.page_stream import Parts, PolledRenderer
from app.ui.race.render import RaceRenderer
from app.ui.race.view import NO_LANE, RaceActions, RaceViewState, read_plan
from app.values.messages import Decoding, EngineStatus, ModelChoice, ModelInfo, Options, Sampling
from app.values.race import RacePrompt, SpeedByKind, TextKind
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


def test_the_plan_has_the_chats_sampling() -> None:
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
        ({"tokens": -1}, "no limit. or more"),
        ({"lanes": (*LANES[:5], None, *LANES[6:])}, "W is empty"),
        ({"lanes": ("plain", 5, 4, 5, NO_LANE, 5, 4, 5, NO_LANE, 5, 4, 5)}, "two or three lanes"),
        ({"lanes": (*LANES[:8], "plain", 5, 4, 5)}, "different"),
        ({"lanes": (*LANES[:6], 99, *LANES[7:])}, "Ngram must be"),
    ],
)
def test_an_impossible_race_is_refused(change: dict[str, Any], problem: str) -> None:
    asked = {"kind": "code", "text": "Say it.", "tokens": 64, "lanes": LANES} | change
    with pytest.raises(BadOption, match=problem):
        read_plan(**asked, options=OPTIONS, model=MODEL)


def test_a_race_without_a_limit_goes_on_to_the_end_of_the_replies() -> None:
    assert read_plan("own", "Say it.", None, LANES, OPTIONS, MODEL).options.max_new_tokens == 0


def test_sizes_that_a_lane_does_not_use_may_be_empty() -> None:
    lanes = ("plain", None, None, None, "jacobi", 8, None, None, NO_LANE, None, None, None)
    plan = read_plan("own", "Say it.", 64, lanes, OPTIONS, MODEL)
    assert plan.lanes[1].window == 8


def test_a_problem_is_shown_and_nothing_starts(actions: RaceActions, engine: LaneEngine) -> None:
    assert 'role="alert"' in actions.start("own", "", 64, *LANES)
    assert engine.requests == []
    assert actions.start("own", "Say it.", 64, *LANES) == ""


@pytest.mark.parametrize(("text", "kind"), [("Say it. ", "code"), ("Say it twice.", "own")])
def test_an_edited_example_counts_as_ones_own_prompt(engine: LaneEngine, text: str, kind: str) -> None:
    race = make_race(engine)
    actions = make_actions(race, RacePrompt("code", "Say it."))
    actions.start("code", text, 64, *LANES)
    race.wait(10)
    assert race.state.plan is not None and race.state.plan.prompt.kind == kind


def test_ones_own_prompt_comes_back_after_examples(engine: LaneEngine) -> None:
    prompts = (RacePrompt("code", "Add."), RacePrompt("code", "Subtract."), RacePrompt("chat", "Say hi."))
    actions, state = make_actions(make_race(engine), *prompts), RaceViewState()
    texts = ["My own prompt."]
    kinds: tuple[TextKind, ...] = ("code", "code", "chat", "own", "own")
    for kind in kinds:
        texts.append(actions.choose_prompt(state, kind, texts[-1]))
    assert texts[1:] == ["Add.", "Subtract.", "Say hi.", "My own prompt.", "My own prompt."]


def test_there_is_nothing_to_export_before_a_race(actions: RaceActions) -> None:
    assert actions.export() == ""


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
    race.wait(10)
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
    race.wait(10)
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
    race.wait(10)
    assert renderer_of(race).render() == renderer_of(race).render()
    assert "When the fastest lane finished" in str(renderer_of(race, None).render()["race-chart"])
