"""Measures everything worth knowing about a new GPU, the most valuable first, within 45 minutes.

    python -m tools.first_card FOLDER

Each trial is a process of its own with a time limit. Its output is kept in FOLDER, and the next one runs even if it
fails. Needs torch, triton, transformers, numpy, typer, rich, pytest and hypothesis; for quantised weights torchao.
`--short` runs small forms of all trials on the CPU, to see that the script works.
"""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from signal import SIGINT
from time import perf_counter
from typing import Annotated

import typer

from app.system.child_process import importing_environment, python_command

ROOT = Path(__file__).parents[1]
CODE = """{before}
import runpy, sys
sys.argv[1:] = {arguments!r}
runpy.run_module({module!r}, run_name="__main__", alter_sys=True)
"""
CUDA_TESTS = (
    "tests/engine/graphs/test_graph_capture.py", "tests/engine/attention",
    "tests/engine/layers/test_triton_kernels.py", "tests/engine/layers/test_fused_models.py",
    "tests/engine/layers/test_int8_linear_triton.py", "tests/engine/layers/test_packed_weight_triton.py",
    "tests/engine/layers/test_quantised_layers.py",
)  # fmt: skip
"""The tests that run on the GPU."""
PYTEST = ("pytest", "-q", "-W", "default", "-p", "no:cacheprovider", "-o", "addopts=")
"""pytest without the project's options, which may name plugins that are not installed."""
NO_TRITON = "import sys; sys.modules['triton'] = None"
WELL = "well"
GRACE = 15.0
"""Seconds that an interrupted trial has to report what it found, such as why tests failed; half of a short
limit."""
LITTLE_MEMORY = "import torch; torch.cuda.set_per_process_memory_fraction(0.005)"


@dataclass(frozen=True, slots=True)
class Trial:
    """A Python module with arguments; `before` is code that its process runs first.

    Raises ValueError without a time limit."""

    name: str
    minutes: float
    command: tuple[str, ...]
    before: str = ""
    environment: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.minutes <= 0:
            raise ValueError(f"A trial needs a time limit above 0 minutes, not {self.minutes}.")


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a trial ended, and after how many seconds."""

    trial: Trial
    ending: str
    seconds: float


def trials(folder: Path) -> list[Trial]:
    """Return the trials for a GPU, the most valuable first."""
    same_text = ("tools.same_text", "--device", "cuda", "--prompts", "20")
    without_compiler = {"PATH": "", "CC": "none", "TRITON_CACHE_DIR": str(folder / "empty-cache")}
    return [
        Trial("kernels", 4, ("tools.gpu_report", str(folder / "kernels"), "--section", "Kernels of a step")),
        Trial("report", 14, ("tools.gpu_report", str(folder / "report"))),
        Trial("tests", 9, (*PYTEST, *CUDA_TESTS)),
        Trial("same text", 6, ("tools.same_text", "--device", "cuda", "--prompts", "200")),
        Trial("without triton", 3, same_text, before=NO_TRITON),
        Trial("without a compiler", 3, same_text, environment=without_compiler),
        Trial("with little memory", 2, same_text, before=LITTLE_MEMORY),
        Trial("soak", 4, ("tools.soak", "--minutes", "3")),
    ]


def short_trials(folder: Path) -> list[Trial]:
    """Return the same trials, as small as possible, for a CPU."""
    same_text = ("tools.same_text", "--dtype", "float32", "--prompts", "1", "--tokens", "8")
    report = ("tools.gpu_report", str(folder / "kernels"), "--tiny")
    return [
        Trial("kernels", 3, (*report, "--section", "Kernels of a step")),
        Trial("tests", 3, (*PYTEST, CUDA_TESTS[0])),
        Trial("same text", 3, same_text),
        Trial("without triton", 3, same_text, before=NO_TRITON),
    ]


def run_all(planned: Sequence[Trial], folder: Path) -> Iterator[Outcome]:
    """Run each trial; its output is written to a numbered file, and summary.md has a line for each so far."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = ["| trial | ended | seconds |", "|---|---|---|"]
    for number, trial in enumerate(planned, 1):
        outcome = run(trial, folder / f"{number}-{trial.name.replace(' ', '-')}.txt")
        lines.append(f"| {trial.name} | {outcome.ending} | {outcome.seconds:.0f} |")
        (folder / "summary.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
        yield outcome


def run(trial: Trial, output: Path) -> Outcome:
    """Run one trial, and end it at its time limit."""
    module, *arguments = trial.command
    code = CODE.format(before=trial.before, arguments=arguments, module=module)
    begin = perf_counter()
    environment = {**importing_environment(), "PYTHONUNBUFFERED": "1", **trial.environment}
    with (
        output.open("wb") as file,
        subprocess.Popen(
            python_command("-c", code), cwd=ROOT, env=environment, stdout=file, stderr=subprocess.STDOUT
        ) as child,
    ):
        ending = _ending_of(child, 60 * trial.minutes)
    return Outcome(trial, ending, perf_counter() - begin)


def _ending_of(child: "subprocess.Popen[bytes]", limit: float) -> str:
    """Wait for a trial and return how it ended. Shortly before its time limit it is interrupted, as by Ctrl+C."""
    grace = min(GRACE, limit / 2)
    try:
        code = child.wait(limit - grace)
        return WELL if code == 0 else f"with exit code {code}"
    except subprocess.TimeoutExpired:
        if sys.platform != "win32":
            child.send_signal(SIGINT)
    try:
        child.wait(grace)
    except subprocess.TimeoutExpired:
        child.kill()
    return f"at its limit of {limit / 60:g} minutes"


def main(
    folder: Annotated[
        Path, typer.Argument(help="Where the output of each trial and summary.md are written.")
    ],
    short: Annotated[bool, typer.Option("--short", help="Small trials on the CPU.")] = False,
) -> None:
    """Run all trials and print how each ended; the exit code is 1 if a trial did not end well."""
    is_well = True
    for outcome in run_all((short_trials if short else trials)(folder), folder):
        typer.echo(f"{outcome.trial.name} ended {outcome.ending} after {outcome.seconds:.0f} s")
        is_well = is_well and outcome.ending == WELL
    raise typer.Exit(not is_well)


if __name__ == "__main__":
    typer.run(main)
