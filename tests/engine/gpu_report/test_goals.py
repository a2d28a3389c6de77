"""Goals from findings whose numbers are known: reached, missed, or not run and why."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.engine.gpu_report.attention_times import DENSE
from app.engine.gpu_report.findings import Finding, Report, SectionResult
from app.engine.gpu_report.goals import Goal, goals
from app.engine.gpu_report.model_steps import same_text_costs
from app.engine.gpu_report.plan import Plan, ReplySet
from app.engine.gpu_report.tables import markdown
from app.engine.step_times import StepProfile, StepTimes
from tests.engine.gpu_report.tiny_plan import HEADS, PLAN, SHAPE

ASKED = replace(PLAN, replies=(ReplySet("trained", Path("trained"), ("Hello",)),))
SPEEDS = {"plain, same text on": 90.0}


def ms(median: float) -> dict[str, Any]:
    return {"median": median, "least": median, "samples": 3}


def step(median: float) -> dict[str, Any]:
    return {"ms": ms(median), "share_of_copy": 0.9}


def findings(worse: bool = False) -> list[Finding]:
    """Everything that is judged: a little better than wanted, or a little worse."""
    sign = -1 if worse else 1
    lane = {"rows_per_step": 1.0, "extra_share": 0.0}
    at = {"heads": "tiny", "prefix": 40, "rows": 2}
    return [
        Finding(
            "decoding",
            {"shape": "tiny", "lane": "plain"},
            {**step(4.0), **lane, "share_of_copy": 0.8 + sign * 0.01},
        ),
        Finding(
            "decoding",
            {"shape": "tiny", "lane": "wide"},
            {**step(4.0), **lane, "extra_share": 0.01 - sign * 0.001},
        ),
        Finding("generate", {"shape": "tiny"}, {"ms": ms(12.0 + sign * 0.1)}),
        Finding("step", {"shape": "tiny", "rows": 1}, step(4.0)),
        Finding("step", {"shape": "tiny", "rows": 64}, step(4.6 - sign * 0.1)),
        Finding("step", {"shape": "tiny", "rows": 128}, step(5.4 - sign * 0.1)),
        Finding("attention", {**at, "by": "triton"}, {"ms": ms(1.0), "share_of_copy": 0.7 + sign * 0.01}),
        Finding("attention", {**at, "by": DENSE}, {"ms": ms(1.5 + sign * 0.1), "share_of_copy": 0.5}),
        Finding("attention", {**at, "by": "sdpa"}, {"ms": ms(1.6), "share_of_copy": 0.5}),
        Finding(
            "replies",
            {"model": "trained"},
            {
                "same": 40 - worse,
                "prompts": 40,
                "plain_cost": 0.05,
                "lookahead_cost": 0.1 - sign * 0.01,
                "tokens_per_second": SPEEDS,
                "note": "",
            },
        ),
        Finding(
            "probe",
            {"shape": "tiny"},
            {"plain_cost": 0.1 - sign * 0.01, "lookahead_cost": 0.0, "note": "", "seconds": 1.0},
        ),
        Finding(
            "error",
            {
                "backend": "triton",
                "heads": "4/2 of 16",
                "dtype": "float32",
                "prefix": 5,
                "rows": 4,
                "extra": "",
            },
            {"error": 1.0 - sign * 0.1, "allowed": 1.0, "is_finite": not worse},
        ),
        Finding(
            "same rows",
            {"backend": "triton", "heads": "tiny", "end": 9, "kind": "drafted"},
            {"rows": 7, "different": int(worse)},
        ),
        Finding(
            "soak",
            {"models": 2},
            {"used_bytes": [100, 100 + worse], "laps": 2, "requests": 9, "seconds": 30.0},
        ),
    ]


def judged(found: list[Finding], plan: Plan = ASKED, fault: str = "") -> list[Goal]:
    return goals(Report({}, (SectionResult(SHAPE.name, tuple(found), 1.0, fault),)), plan)


def test_what_is_a_little_better_than_wanted_is_reached() -> None:
    others = {goal.wanted: goal.state for goal in judged(findings()) if goal.state != "reached"}
    # 40 replies of 400, 30 seconds of 600.
    assert others == {
        "at least 99.5% of replies identical": "reached so far",
        "ends with the memory it began with": "reached so far",
    }


def test_what_is_a_little_worse_is_missed() -> None:
    assert {goal.name: goal.state for goal in judged(findings(worse=True)) if goal.state != "missed"} == {}


def test_what_was_not_measured_says_why() -> None:
    told = judged([], fault="its process crashed")
    assert {goal.state for goal in told} == {"not run"}
    assert {
        goal.found for goal in told if SHAPE.name in goal.name and HEADS.name + "'s" not in goal.name
    } >= {"its process crashed"}
    assert len(told) == len(judged(findings()))


def test_ratios_are_of_medians_and_against_the_faster_mask() -> None:
    found = {goal.wanted: goal.found for goal in judged(findings())}
    assert found["at least 3x transformers' default generate"] == "3.02x (generate: 12.100 ms)"
    assert found["at most 1.15x of a one-row step"] == "1.125x (4.500 ms to 4.000 ms)"
    assert found["at least 1.5x as fast as dense-mask SDPA"] == "1.60x (1.000 ms)"


def test_a_text_that_cannot_be_kept_the_same_misses_its_goal() -> None:
    free = StepTimes((1, 64), (1.0, 2.0))
    costs = same_text_costs(StepProfile(free, note="no width of a step writes steady bits"))
    assert (costs["plain_cost"], costs["lookahead_cost"]) == (None, None)
    [goal] = [
        g
        for g in judged([Finding("probe", {"shape": "tiny"}, costs)])
        if g.name.startswith("same text, steps")
    ]
    assert (goal.state, goal.found) == ("missed", "no width of a step writes steady bits")


def test_the_cost_of_the_same_text_is_of_the_class_that_is_chosen() -> None:
    free, steady = StepTimes((1, 8, 64), (1.0, 1.1, 2.0)), StepTimes((1, 8, 64), (1.0, 1.2, 2.5))
    costs = same_text_costs(StepProfile(free, steady, ((8, 64),), "found"))
    assert costs["plain_cost"] == pytest.approx(0.2)
    assert costs["lookahead_cost"] == pytest.approx(0.25)


def test_the_page_is_written_whatever_is_missing() -> None:
    for found in ([], findings()):
        report = Report({"device": "none"}, (SectionResult(SHAPE.name, tuple(found), 1.0, "it broke"),))
        page = markdown(report, goals(report, ASKED), ASKED)
        assert "| tiny | it broke |" in page
        assert page.count("| reached |") == (12 if found else 0)
