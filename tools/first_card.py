"""Measures everything worth knowing about a new GPU, the most important things first.

    python -m tools.first_card FOLDER --within 9

Each trial is a process of its own with a time limit. If a trial fails, the next trial runs. FOLDER gets four files:
the trials' output (output.txt), how each ended (summary.md), and the report (report.md, report.json). A trial that
ended well is not run again, so a second call continues where the first stopped. `--within 9` stops after nine
minutes. `--short` runs a few small trials on the CPU, to test the script. Needs torch, triton, transformers, numpy,
typer, rich, pytest and hypothesis.
"""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import inf
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
    "tests/engine/graphs/test_graph_capturer.py", "tests/engine/attention",
    "tests/engine/layers/test_triton_kernels.py", "tests/engine/layers/test_fused_models.py",
    "tests/engine/layers/test_packed_weight_triton.py", "tests/engine/sampling/test_sampling_triton.py",
    "tests/engine/layers/test_quantised_layers.py",
)  # fmt: skip
"""The tests that run on the GPU."""
PYTEST = ("pytest", "-q", "-W", "default", "-p", "no:cacheprovider", "-o", "addopts=")
"""pytest without the project's options, which may name plugins that are not installed."""
NO_TRITON = "import sys; sys.modules['triton'] = None"
WELL = "well"
GRACE = 15.0
"""Seconds, at most half of its limit, that an interrupted trial has to report, such as why tests failed."""
SHORTEST = 0.25
"""Minutes that must be left for a trial to begin."""
LITTLE_MEMORY = "import torch; torch.cuda.set_per_process_memory_fraction(0.005)"


@dataclass(frozen=True, slots=True)
class Trial:
    """A Python module with arguments; `before` is code that its process runs first.

    Raises ValueError if its time limit is not above 0."""

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
    same_text = ("tools.same_text", "--device", "cuda", "--prompts")
    without_compiler = {"PATH": "", "CC": "none", "TRITON_CACHE_DIR": str(folder / "empty-cache")}

    def report(minutes: float, *sections: str) -> Trial:
        wanted = [word for section in sections for word in ("--section", section)]
        return Trial(sections[0], minutes, ("tools.gpu_report", str(folder), *wanted))

    return [
        Trial("same text", 3, (*same_text, "40")),
        report(4, "Steps"),
        report(2, "Kernels of a step"),
        report(2, "Sampled steps"),
        report(2, "Identical bits"),
        report(2, "Prompts"),
        report(4, "Quantised steps"),
        report(3, "Replies"),
        Trial("tests", 8, (*PYTEST, *CUDA_TESTS)),
        report(4, "Attention against float64", "Attention times"),
        Trial("more of the same text", 4, (*same_text, "200", "--temperature", "0.8")),
        Trial("without triton", 3, (*same_text, "20"), before=NO_TRITON),
        Trial("without a compiler", 3, (*same_text, "20"), environment=without_compiler),
        Trial("with little memory", 2, (*same_text, "20"), before=LITTLE_MEMORY),
        Trial("soak", 4, ("tools.soak", "--minutes", "3")),
    ]


def short_trials(folder: Path) -> list[Trial]:
    """Return some of the trials for a CPU, as small as possible."""
    same_text = ("tools.same_text", "--dtype", "float32", "--prompts", "1", "--tokens", "8")
    return [
        Trial("same text", 3, same_text),
        Trial(
            "Kernels of a step",
            3,
            ("tools.gpu_report", str(folder), "--tiny", "--section", "Kernels of a step"),
        ),
        Trial("tests", 3, (*PYTEST, CUDA_TESTS[0])),
        Trial("without triton", 3, same_text, before=NO_TRITON),
    ]


def run_all(planned: Sequence[Trial], folder: Path, minutes: float = inf) -> Iterator[Outcome]:
    """Run the trials that have not ended well yet, until the minutes are over. Yields the outcomes."""
    folder.mkdir(parents=True, exist_ok=True)
    done = {name: ending for name, ending, _seconds in _summary(folder)}
    end = perf_counter() + 60 * minutes
    for trial in planned:
        left = (end - perf_counter()) / 60
        if done.get(trial.name) == WELL or left < SHORTEST:
            continue
        outcome = run(replace(trial, minutes=min(trial.minutes, left)), folder / "output.txt")
        others = [line for line in _summary(folder) if line[0] != trial.name]
        _write_summary(folder, [*others, (trial.name, outcome.ending, f"{outcome.seconds:.0f}")])
        yield outcome


def _summary(folder: Path) -> list[tuple[str, ...]]:
    """Read which trials have run, how each ended, and its seconds."""
    path = folder / "summary.md"
    lines = path.read_text(encoding="utf-8").splitlines()[2:] if path.exists() else []
    return [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in lines]


def _write_summary(folder: Path, outcomes: Sequence[tuple[str, ...]]) -> None:
    lines = [("trial", "ended", "seconds"), ("---", "---", "---"), *outcomes]
    text = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    (folder / "summary.md").write_text(f"{text}\n", encoding="utf-8")


def run(trial: Trial, output: Path) -> Outcome:
    """Run one trial, and end it at its time limit; its output is appended to the file."""
    module, *arguments = trial.command
    code = CODE.format(before=trial.before, arguments=arguments, module=module)
    begin = perf_counter()
    environment = {**importing_environment(), "PYTHONUNBUFFERED": "1", **trial.environment}
    with output.open("ab") as file:
        file.write(f"\n=== {trial.name} ===\n".encode())
        file.flush()
        command = python_command("-c", code)
        with subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=file, stderr=subprocess.STDOUT
        ) as child:
            ending = _ending_of(child, 60 * trial.minutes)
    return Outcome(trial, ending, perf_counter() - begin)


def _ending_of(child: "subprocess.Popen[bytes]", limit: float) -> str:
    """Return how a trial ended. Before its time limit it is interrupted, as by Ctrl+C, except on Windows."""
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
    folder: Annotated[Path, typer.Argument(help="Where the output and the report are written.")],
    only: Annotated[list[str] | None, typer.Option(help="Only this trial; may be repeated.")] = None,
    within: Annotated[float, typer.Option(help="Stop after this many minutes.")] = inf,
    short: Annotated[bool, typer.Option("--short", help="Small trials on the CPU.")] = False,
) -> None:
    """Run the trials and print how each ended; the exit code is 1 if a trial did not end well."""
    planned = (short_trials if short else trials)(folder)
    names = [trial.name for trial in planned]
    if unknown := [name for name in only or () if name not in names]:
        typer.echo(f"Error: there is no trial {unknown[0]!r}, only {', '.join(names)}.", err=True)
        raise typer.Exit(2)
    is_well = True
    for outcome in run_all([one for one in planned if one.name in (only or names)], folder, within):
        typer.echo(f"{outcome.trial.name} ended {outcome.ending} after {outcome.seconds:.0f} s")
        is_well = is_well and outcome.ending == WELL
    raise typer.Exit(not is_well)


if __name__ == "__main__":
    typer.run(main)
