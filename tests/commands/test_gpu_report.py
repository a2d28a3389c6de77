"""`bench --gpu-report` from the outside, on a machine that has neither a card nor a page's packages."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from app.commands.gpu_report import show, whole_plan
from app.errors import BadOption
from tests.engine.gpu_report.tiny_plan import PLAN

CHECKOUT = Path(__file__).parents[2]
ABSENT = ("gradio", "uvicorn", "starlette", "fastapi", "platformdirs", "torchao", "matplotlib")
SENTENCE = (
    "Error: A GPU report needs a CUDA device, and torch finds none here: run it on a machine with one.\n"
)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a card")
def test_a_bare_machine_without_a_card_gets_one_sentence_and_no_folder(tmp_path: Path) -> None:
    script = (
        f"import sys; sys.modules.update(dict.fromkeys({ABSENT!r})); sys.argv[0] = 'run.py'; "
        "from app.main import main; main()"
    )
    folder = tmp_path / "report"
    done = subprocess.run(
        [sys.executable, "-c", script, "bench", "--gpu-report", str(folder)],
        cwd=CHECKOUT,
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=120,
    )
    assert (done.returncode, done.stdout, done.stderr) == (2, "", SENTENCE)
    assert not folder.exists()


def test_the_whole_plan_asks_the_demo_model_a_prompt_of_each_set_in_turn() -> None:
    plan = whole_plan()
    demo = plan.replies[0]
    assert (demo.name, len(demo.prompts), len(set(demo.prompts))) == ("demo", 40, 40)
    assert plan.soak_folders[0] == demo.folder
    assert (demo.folder / "model.safetensors").is_file()
    for stories in plan.replies[1:]:
        assert stories.prompts[0] == "Once upon a time"


def test_each_section_has_a_line_and_each_goal_a_row(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "new" / "report"
    show(folder, replace(PLAN, seconds=1.0))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "correctness: 0 findings in 0 s: no time was left for it"
    assert sum("not run" in line for line in lines) >= 10
    assert {path.name for path in folder.iterdir()} == {"report.json", "report.md"}


def test_a_folder_that_cannot_be_written_is_refused_before_anything_runs(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(BadOption, match=r"cannot be written \(.*\): choose another folder for --gpu-report"):
        show(tmp_path / "file" / "report", PLAN)
