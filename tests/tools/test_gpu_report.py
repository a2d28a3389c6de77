"""The GPU report with tiny sizes on this CPU, and on a machine that has no card."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.engine.tiny import write_tiny
from tests.support.children import run_python
from tools.gpu_report.__main__ import SECTIONS, run_section, write_report
from tools.gpu_report.plan import Plan, Row, tiny_plan

CHECKOUT = Path(__file__).parents[2]
ABSENT = (
    "gradio", "uvicorn", "starlette", "fastapi", "platformdirs", "chardet", "llguidance",
    "gguf", "accelerate", "pypdfium2", "docx",
)  # fmt: skip


def plan_of(model: Path) -> Plan:
    return replace(tiny_plan(), models=(model,))


def test_every_section_writes_rows(tmp_path: Path) -> None:
    report = write_report(tmp_path, plan_of(write_tiny(tmp_path / "model").path))
    sections = report["sections"]
    for name, section in sections.items():
        assert (section["error"], bool(section["rows"])) == ("", True), name
    assert {row["is right"] for row in sections["Attention against float64"]["rows"]} == {"True"}
    assert {row["same as plain"] for row in sections["Replies"]["rows"]} == {"1 of 1"}
    assert json.loads((tmp_path / "report.json").read_text()) == report
    text = (tmp_path / "report.md").read_text()
    assert all(f"## {name}" in text for name in SECTIONS)
    assert "| tiny | 9 | 3 | sdpa |" in text


@pytest.mark.thorough
def test_a_section_that_fails_leaves_its_error_and_the_others_run(tmp_path: Path) -> None:
    report = write_report(tmp_path, plan_of(tmp_path / "no model"))
    assert "no model" in report["sections"]["Replies"]["error"]
    assert report["sections"]["Steps"]["rows"]
    assert "Failed: " in (tmp_path / "report.md").read_text()


def test_a_section_that_loses_the_card_leaves_the_first_error_and_its_rows() -> None:
    def section(_plan: Plan) -> Iterator[Row]:
        yield {"model": "one"}
        raise RuntimeError("CUDA error: misaligned address")

    def release() -> None:
        raise RuntimeError("CUDA error: the same again")

    found = run_section(section, tiny_plan(), release)
    assert (found["rows"], found["error"]) == (
        [{"model": "one"}],
        "RuntimeError: CUDA error: misaligned address",
    )


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a card")
def test_a_bare_machine_has_drafters_and_without_a_card_gets_one_sentence() -> None:
    script = (
        f"import sys, runpy; sys.modules.update(dict.fromkeys({ABSENT!r})); sys.argv[1:] = ['report']; "
        "from app.engine.lookahead.native_drafter import best_drafter; best_drafter(); "
        "runpy.run_module('tools.gpu_report', run_name='__main__')"
    )
    done = run_python(script)
    assert (done.returncode, done.stdout) == (2, "")
    # A CUDA build of torch warns, too, if it finds nvcc.
    assert [line for line in done.stderr.splitlines() if "No CUDA runtime is found" not in line] == [
        "Error: A GPU report needs a CUDA device, and torch finds none here: run it on a machine with one."
    ]
    assert not (CHECKOUT / "report").exists()
