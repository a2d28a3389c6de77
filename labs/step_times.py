"""Measures milliseconds per step by rows: for Foresight, transformers and llama.cpp, in turn in one run.

python -m labs.step_times smollm2-135m --dtype bfloat16 --json docs/numbers/steps-smollm2-135m-bfloat16.json
python -m labs.step_picture docs/numbers/steps-smollm2-135m-*.json --svg docs/steps-smollm2-135m.svg
"""

import argparse
import json
import platform
from collections.abc import Iterable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import torch
import transformers

from labs.step_sides import (
    CLOCKS,
    PREFIX,
    SHAPES,
    TakeStep,
    generate_step,
    llama_cpu,
    llama_wall,
    make_stock,
    maker,
    our_step,
    stock_step,
)

ROWS = (1, 2, 4, 8, 16, 32, 64, 128)
Times = dict[str, dict[int, list[float]]]
"""Program (a "side": Foresight, transformers or llama.cpp) -> rows -> milliseconds of every measured step."""


def measure(arguments: argparse.Namespace) -> Times:
    """Time all sides in turn, round by round, so that changes of the machine's speed affect all sides alike."""
    make, clock = maker(arguments.model, getattr(torch, arguments.dtype)), CLOCKS[arguments.clock]
    stock = make_stock(make)
    sides = {"foresight": our_step(make, clock), "transformers": stock_step(stock, clock)}
    generates = {f"generate, {name}": generate_step(stock, name, clock) for name in ("sdpa", "eager")}
    times: Times = {}
    for _ in range(arguments.rounds):
        for rows in ROWS:
            for side, step in sides.items():
                _add(times, side, rows, _several(step, rows))
            _add(times, "llama.cpp", rows, _llama(arguments, rows))
        for side, step in generates.items():
            _add(times, side, 1, [step(1)])
    return {side: by_rows for side, by_rows in times.items() if all(by_rows.values())}


def _several(step: TakeStep, rows: int) -> Iterator[float]:
    """Take one step to warm up the caches, then yield the times of four more steps, or of two above 16 rows."""
    step(rows)
    return (step(rows) for _ in range(4 if rows <= 16 else 2))


def _add(times: Times, side: str, rows: int, took: Iterable[float]) -> None:
    times.setdefault(side, {}).setdefault(rows, []).extend(took)


def _llama(arguments: argparse.Namespace, rows: int) -> list[float]:
    if not arguments.llama_bench:
        return []
    steps = {"wall": llama_wall, "cpu": llama_cpu}[arguments.clock]
    return steps(arguments.llama_bench, arguments.gguf, rows, torch.get_num_threads())


def summary(arguments: argparse.Namespace, times: Times) -> dict[str, Any]:
    """Return the content of the file: the least and the median milliseconds, and the machine."""
    return {
        "model": arguments.model,
        "dtype": arguments.dtype,
        "prefix": PREFIX,
        "rounds": arguments.rounds,
        "clock": arguments.clock,
        "threads": torch.get_num_threads(),
        "machine": platform.machine(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "sides": {
            side: {
                str(rows): {"least": round(min(took), 2), "median": round(median(took), 2)}
                for rows, took in by_rows.items()
            }
            for side, by_rows in times.items()
        },
    }


def table(found: dict[str, Any]) -> str:
    """Format median milliseconds (and the least) by side and rows as a Markdown table."""
    lines = ["| side | " + " | ".join(map(str, ROWS)) + " |", "|---" * (len(ROWS) + 1) + "|"]
    for side, by_rows in found["sides"].items():
        cells = [by_rows.get(str(rows)) for rows in ROWS]
        texts = [f"{cell['median']:.1f} ({cell['least']:.1f})" if cell else "" for cell in cells]
        lines.append(f"| {side} | " + " | ".join(texts) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("model", help=f"a model's folder, or one of {', '.join(SHAPES)} with random weights")
    parser.add_argument("--dtype", choices=("bfloat16", "float32"), default="bfloat16")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--clock", choices=tuple(CLOCKS), default="wall", help="cpu needs --threads 1")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--json", type=Path)
    parser.add_argument("--llama-bench", type=Path, help="path of llama-bench, to time its steps, too")
    parser.add_argument("--gguf", type=Path, help="the model file for llama-bench")
    arguments = parser.parse_args()
    if arguments.clock == "cpu" and arguments.threads != 1:
        parser.error("--clock cpu needs --threads 1: the threads' times would be added up")
    if bool(arguments.llama_bench) != bool(arguments.gguf):
        parser.error("--llama-bench and --gguf need each other: give both, or neither")
    torch.set_num_threads(arguments.threads)
    found = summary(arguments, measure(arguments))
    print(table(found))
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
