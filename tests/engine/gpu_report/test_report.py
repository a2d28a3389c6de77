"""The whole report on a CPU with a tiny plan: every section runs, and what fails alone stays alone."""

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch

from app.engine.gpu_report import Plan, check_device, read_goals, write_report
from app.engine.gpu_report.findings import Finding, SectionResult
from app.engine.gpu_report.gauge import CpuGauge, Gauge
from app.engine.gpu_report.running import End, here, in_child, measured
from app.engine.gpu_report.sections import Section
from app.errors import BadOption
from tests.engine.gpu_report.tiny_plan import PLAN, with_model
from tests.engine.tiny import write_tiny

SECTIONS = ["correctness", "tiny", "attention", "replies of trained", "soak", "flex_attention", "quantised"]
FOUND = Finding("thing", {"place": 1}, {"value": 2})

pytestmark = pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile:UserWarning")


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[SectionResult]]:
    pytest.importorskip("triton", reason="triton is not installed")
    pytest.importorskip("torchao", reason="torchao is not installed")
    folder = tmp_path_factory.mktemp("report")
    plan = with_model(write_tiny(folder / "model").path)
    return folder, list(write_report(folder, plan, is_alone=False))


def test_every_section_runs_whole(written: tuple[Path, list[SectionResult]]) -> None:
    _, results = written
    assert {result.name: result.fault for result in results} == dict.fromkeys(SECTIONS, "")
    assert all(result.findings for result in results)


def test_the_file_has_every_sample_and_every_goal(written: tuple[Path, list[SectionResult]]) -> None:
    folder, results = written
    found = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    assert [section["name"] for section in found["sections"]] == SECTIONS
    assert sum(len(section["findings"]) for section in found["sections"]) == sum(
        len(result.findings) for result in results
    )
    [step] = [
        each
        for each in found["sections"][1]["findings"]
        if each["kind"] == "step" and each["at"] == {"shape": "tiny", "rows": 64}
    ]
    assert set(step["numbers"]["ms"]) == {"median", "least", "samples"}
    states = {goal.state for goal in read_goals(folder)}
    assert states <= {"reached", "reached so far", "missed", "not run"}
    not_run = {
        goal.name.split(",")[0].split(":")[0] for goal in read_goals(folder) if goal.state == "not run"
    }
    # A CPU's gauge knows nothing of memory.
    assert not_run == {"lookahead's extra device memory", "soak"}


def test_backends_are_right_and_write_the_same_bits(written: tuple[Path, list[SectionResult]]) -> None:
    folder, _ = written
    reached = {goal.name for goal in read_goals(folder) if goal.state == "reached"}
    assert {
        "relative error against float64, sdpa",
        "relative error against float64, triton",
        "fully masked tiles",
        "a row alone, among others, drafted (triton)",
    } <= reached


def test_the_page_has_the_tables(written: tuple[Path, list[SectionResult]]) -> None:
    page = (written[0] / "report.md").read_text(encoding="utf-8")
    for words in (
        "## Goals",
        "| tiny | 64 |",
        "transformers generate",
        "flex_attention",
        "tiny, int4",
        "## Soak",
    ):
        assert words in page
    assert "flash: The attention backend flash cannot be used here" in page


def test_there_are_pictures(written: tuple[Path, list[SectionResult]]) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    for name in ("steps.png", "attention.png"):
        assert (written[0] / name).read_bytes().startswith(b"\x89PNG")


def test_without_a_card_there_is_a_sentence() -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a card")
    with pytest.raises(BadOption, match="needs a CUDA device, and torch finds none here: run it on"):
        check_device(Plan())


def test_what_no_time_is_left_for_is_not_run(tmp_path: Path) -> None:
    results = list(write_report(tmp_path, replace(PLAN, seconds=1.0), is_alone=False))
    assert {result.fault for result in results} == {"no time was left for it"}
    assert {goal.state for goal in read_goals(tmp_path)} == {"not run"}


def told(section: Section, seconds: float = 9.0) -> list[Finding | End]:
    return list(measured(section, PLAN, CpuGauge(), seconds))


def fails(error: Exception, _plan: Plan, _gauge: Gauge) -> Iterator[Finding]:
    yield FOUND
    raise error


def goes_on(_plan: Plan, _gauge: Gauge) -> Iterator[Finding]:
    while True:
        yield FOUND


def vanishes(_plan: Plan, _gauge: Gauge) -> Iterator[Finding]:
    yield FOUND
    raise SystemExit(3)  # as a crash: no exception that a section would be forgiven


def works(_plan: Plan, _gauge: Gauge) -> Iterator[Finding]:
    yield FOUND


def test_a_failure_keeps_what_was_found_before_it() -> None:
    *found, end = told(Section("bad", 9, partial(fails, RuntimeError("CUDA error\nmore"))))
    assert found == [FOUND]
    assert isinstance(end, End)
    assert end.fault == "RuntimeError: CUDA error"
    assert "in fails" in end.trace
    assert told(Section("bad", 9, partial(fails, BadOption("Install it."))))[-1] == End("Install it.")


def test_a_section_ends_after_its_time() -> None:
    assert told(Section("long", 9, goes_on), seconds=0.0) == [FOUND, End("it was stopped after its 0 s")]


def test_a_child_that_crashes_is_followed_by_another() -> None:
    with in_child(PLAN) as execute:
        crashed = execute(Section("bad", 60, vanishes), 60)
        after = execute(Section("good", 60, works), 60)
    assert (crashed.findings, crashed.fault) == ((FOUND,), "its process crashed")
    assert (after.findings, after.fault) == ((FOUND,), "")


def test_sections_may_run_here() -> None:
    result = here(PLAN)(Section("good", 9, works), 9)
    assert (result.name, result.findings, result.fault) == ("good", (FOUND,), "")
