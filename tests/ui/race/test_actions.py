"""What the view's events do: read the controls, start, stop, save, and draw only what changed."""

import asyncio
from dataclasses import replace
from typing import Any

import gradio as gr
import pytest

from app.conversation.race import Race
from app.errors import BadOption, StoreNotUsable
from app.messages import Decoding, EngineStatus, ModelChoice, ModelInfo, Options, Sampling
from app.race_messages import KindSpeed, RacePrompt, TextKind
from app.ui.race.actions import Chosen, RaceActions, RaceSeat, calm, updates
from app.ui.race.controls import NOBODY, read_plan
from app.ui.race.watching import RaceWatcher
from tests.fakes import DEMO
from tests.racing import LaneEngine, RememberedRaces, make_plan, make_race, run_race

LANES: tuple[Any, ...] = ("plain", 5, 4, 5, "lookahead", 15, 5, 15, NOBODY, 5, 4, 5)
OPTIONS = Options(Sampling(0.7, seed=3), Decoding(rows=32, same_text=False))
MODEL = ModelChoice("demo")


@pytest.fixture
def engine() -> LaneEngine:
    return LaneEngine()


@pytest.fixture
def actions(engine: LaneEngine) -> RaceActions:
    chosen = Chosen(lambda: OPTIONS, lambda: MODEL, lambda: EngineStatus("ready", model=DEMO))
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
    chosen = Chosen(lambda: OPTIONS, lambda: MODEL, lambda: EngineStatus("ready", model=DEMO))
    actions = RaceActions(race, (RacePrompt("code", "Say it."),), chosen, [].append)
    actions.start("code", text, 64, *LANES)
    race.wait(10)
    assert race.state.plan is not None and race.state.plan.prompt.kind == kind


def test_a_text_of_ones_own_comes_back_after_ready_made_ones_were_looked_at(engine: LaneEngine) -> None:
    prompts = (RacePrompt("code", "Add."), RacePrompt("code", "Subtract."), RacePrompt("chat", "Say hi."))
    chosen = Chosen(lambda: OPTIONS, lambda: MODEL, lambda: EngineStatus("ready", model=DEMO))
    actions, seat = RaceActions(make_race(engine), prompts, chosen, [].append), RaceSeat()
    texts = ["My own prompt."]
    kinds: tuple[TextKind, ...] = ("code", "code", "chat", "own", "own")
    for kind in kinds:
        texts.append(actions.choose(seat, kind, texts[-1]))
    assert texts[1:] == ["Add.", "Subtract.", "Say hi.", "My own prompt.", "My own prompt."]


def test_there_is_nothing_to_save_before_a_race(actions: RaceActions) -> None:
    assert (actions.picture(), actions.everything()) == ("", "")


def test_a_page_draws_only_what_changed(engine: LaneEngine) -> None:
    race = make_race(engine)
    watcher = RaceWatcher(race)
    before = watcher.look(DEMO)
    assert watcher.look(DEMO) is before
    race.start(make_plan())
    race.wait(10)
    after = watcher.look(DEMO)
    assert after.has_result and not after.is_running
    notes, texts, history, start, stop, saving = updates(before, after)
    assert "fastest" in after.status and "Photo finish" in after.board
    assert "Speed-up" in notes and "<details>" in texts
    assert "Last races" in history
    assert (start, stop, saving) == (gr.skip(), gr.skip(), gr.update(visible=True))
    assert calm(replace(after, board="")) == calm(after) != calm(before)
    assert updates(after, after) == (gr.skip(),) * 6


class UnsteadyRaces(RememberedRaces):
    """A history that cannot be read while `is_held`."""

    is_held = True
    refused = 0

    def summary(self, model: ModelInfo) -> list[KindSpeed]:
        if self.is_held:
            self.refused += 1
            raise StoreNotUsable("Another program holds the file.")
        return super().summary(model)


def test_a_view_whose_history_cannot_be_read_says_so_once_and_looks_on(engine: LaneEngine) -> None:
    races, heard = UnsteadyRaces(), list[str]()
    race = Race(engine, lambda: False, races, str.upper)
    races.results.append(run_race(engine, make_plan()))
    chosen = Chosen(lambda: OPTIONS, lambda: MODEL, lambda: EngineStatus("ready", model=DEMO))

    async def follow() -> tuple[Any, ...]:
        following = RaceActions(race, (), chosen, heard.append).follow(RaceSeat())
        drawing = asyncio.ensure_future(anext(following))
        while races.refused < 2:
            await asyncio.sleep(0.01)
        races.is_held = False
        return await asyncio.wait_for(drawing, timeout=10)

    _notes, _texts, history, *_ = asyncio.run(follow())
    assert "Last races" in history
    assert heard == ["Another program holds the file."]


def test_a_reopened_page_sees_the_race_as_it_stands(engine: LaneEngine) -> None:
    race = make_race(engine)
    race.start(make_plan())
    race.wait(10)
    assert RaceWatcher(race).look(DEMO) == RaceWatcher(race).look(DEMO)
    assert "Photo finish" in RaceWatcher(race).look(None).board
