"""`bench --gpu-report` from the outside, on a machine that has neither a card nor a page's packages."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

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
