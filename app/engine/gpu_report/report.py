"""The whole report: one section after the other within the plan's time, written down after each of them."""

import json
import platform
from collections.abc import Iterator
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
import transformers

from app import __version__
from app.engine.gpu_report.findings import Report, SectionResult
from app.engine.gpu_report.goals import Goal, goals
from app.engine.gpu_report.pictures import draw
from app.engine.gpu_report.plan import Plan
from app.engine.gpu_report.running import Execute, here, in_child
from app.engine.gpu_report.sections import sections
from app.engine.gpu_report.tables import markdown
from app.errors import BadOption

LEAST = 8.0
"""Seconds without which no section is begun."""

NO_CUDA = "A GPU report needs a CUDA device, and torch finds none here: run it on a machine with one."


def check_device(plan: Plan) -> None:
    """Raise BadOption where the plan's device is not to be had."""
    if plan.device.startswith("cuda") and not torch.cuda.is_available():
        raise BadOption(NO_CUDA)


def write_report(folder: Path, plan: Plan, is_alone: bool = True) -> Iterator[SectionResult]:
    """Measure and write report.json, report.md and pictures into the folder; yields each section when it is over.

    With `is_alone` sections run in child processes."""
    if not is_alone:
        yield from _write(folder, plan, here(plan))
        return
    with in_child(plan) as execute:
        yield from _write(folder, plan, execute)


def _write(folder: Path, plan: Plan, execute: Execute) -> Iterator[SectionResult]:
    begin = perf_counter()
    about, results = _about(plan), list[SectionResult]()
    for section in sections(plan):
        left = plan.seconds - (perf_counter() - begin)
        if left < LEAST:
            result = SectionResult(section.name, fault="no time was left for it")
        else:
            result = execute(section, min(section.seconds, left))
        results.append(result)
        about["seconds"] = round(perf_counter() - begin, 1)
        _save(folder, Report(about, tuple(results)), plan)
        yield result
    report = Report(about, tuple(results))
    if note := draw(report, plan, folder):
        about["pictures"] = note
        _save(folder, report, plan)


def _save(folder: Path, report: Report, plan: Plan) -> None:
    """Both files whole, or as they were."""
    judged = goals(report, plan)
    found = {
        "about": dict(report.about),
        "goals": [asdict(goal) for goal in judged],
        "sections": [result.to_json() for result in report.results],
    }
    for name, text in (
        ("report.json", json.dumps(found, indent=1) + "\n"),
        ("report.md", markdown(report, judged, plan)),
    ):
        draft = folder / f"{name}.new"
        draft.write_text(text, encoding="utf-8")
        draft.replace(folder / name)


def read_goals(folder: Path) -> list[Goal]:
    """The goals of a report that was written."""
    found = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    return [Goal(**goal) for goal in found["goals"]]


def _about(plan: Plan) -> dict[str, Any]:
    about = {
        "foresight": __version__,
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "triton": _version("triton"),
        "flash-attn": _version("flash_attn"),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "device": plan.device,
    }
    if plan.device.startswith("cuda"):
        properties = torch.cuda.get_device_properties(plan.device)
        about["device"] = properties.name
        about["capability"] = f"{properties.major}.{properties.minor}"
        about["memory"] = f"{properties.total_memory / 2**30:.1f} GiB"
    return about


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
