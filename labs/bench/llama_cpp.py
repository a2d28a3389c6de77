"""Runs llama-bench's tg128 as a contestant for each GGUF file, in turn with our replies.

llama-bench writes 128 tokens after an empty context, whatever the prompt. This is llama.cpp's fastest case, and
only tokens per second can be compared. The time excludes loading and llama-bench's own warm-up. These commands
build llama-bench and a file for it:

    pip download llama-cpp-python --no-deps --no-binary :all:        # vendor/llama.cpp is the source
    cmake -B build -G Ninja -DGGML_NATIVE=ON -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF -DLLAMA_CURL=OFF
    ninja -C build llama-bench llama-quantize
    llama-quantize --allow-requantize model-q4_1.gguf model-q8_0.gguf q8_0
"""

import json
import subprocess
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from app.commands.bench_measurement import BenchRun, Contestant
from app.errors import BadOption
from app.values.messages import Options, Prompt

TOKENS = 128


def llama_lanes(program: Path, files: Sequence[Path], threads: int) -> list[Contestant]:
    """Return a contestant for each GGUF file. Contestants raise BadOption if llama-bench fails."""
    return [
        Contestant(f"llama.cpp {file.stem}", f"{program} {threads}", partial(_run, program, file, threads))
        for file in files
    ]


def _run(program: Path, file: Path, threads: int, _prompt: Prompt, _options: Options) -> BenchRun:
    sizes = ["-p", "0", "-n", str(TOKENS), "-r", "1", "-t", str(threads)]
    command = [str(program), "-m", str(file), *sizes, "-o", "json"]
    try:
        ran = subprocess.run(command, check=True, capture_output=True, text=True)
        [found] = json.loads(ran.stdout)
        [seconds] = [sample / 1e9 for sample in found["samples_ns"]]
        tokens = int(found["n_gen"])
    except (OSError, subprocess.CalledProcessError, ValueError, LookupError, TypeError) as error:
        raise BadOption(f"{program} did not measure {file} ({error}).") from error
    return BenchRun((), tokens, tokens, seconds, tokens)
