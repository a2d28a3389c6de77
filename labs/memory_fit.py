"""Compares the estimate of a model's memory with measurements. Each model runs in a process of its own.

    python -m labs.memory_fit --contexts 64,full --precisions float32,bfloat16,int8 FOLDER...
    python -m labs.memory_fit --make FOLDER      writes a model of 0.5B random weights to measure

Linux only. The peak is the kernel's VmHWM, and the part without file pages is RssAnon, which is read every 5 ms.
"""

import argparse
import json
import subprocess
import tempfile
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

from app.models_registry.files.config import read_config
from app.models_registry.files.fit_estimate import Estimator
from app.models_registry.files.weights import read_weights
from app.models_registry.locate import locate
from app.system.child_process import importing_environment, python_command
from app.values.messages import Finished, ModelChoice, Options, Request
from app.values.model import Precision

NEW_TOKENS = 40
NEARLY = 16
"""Tokens by which the used context may differ from the requested context."""
TITLE = (
    "| model | precision | context | runtime + weights + cache + rows | need | measured without files | with file "
    "pages | measured | error |\n|---|---|---|---|---|---|---|---|---|"
)
HALF_BILLION: dict[str, Any] = {
    "vocab_size": 151936, "hidden_size": 896, "intermediate_size": 4864, "num_hidden_layers": 24,
    "num_attention_heads": 14, "num_key_value_heads": 2, "max_position_embeddings": 8192,
    "tie_word_embeddings": True,
}  # fmt: skip


def make(folder: Path) -> None:
    """Write a model of random weights, shaped like Qwen2.5-0.5B, with the demo model's tokenizer."""
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    from tests.engine.tiny import with_tokenizer

    torch.set_default_dtype(torch.bfloat16)
    Qwen2ForCausalLM(Qwen2Config(**HALF_BILLION)).save_pretrained(folder)
    with_tokenizer(folder)


def choice(folder: Path, precision: Precision) -> ModelChoice:
    """Return how the model is loaded. With quantised weights, activations are in float32."""
    if precision == "int8" or precision == "int4":
        return ModelChoice(str(folder), "float32", "cpu", precision)
    return ModelChoice(str(folder), precision, "cpu")


def run(folder: Path, precision: Precision, context: int) -> dict[str, int]:
    """Load the model and answer a long prompt. Returns bytes of memory, and the tokens of the used context."""
    from app.commands.reply_output import events_of
    from app.engine import Engine
    from app.engine.machine.process_memory import share_one_heap

    share_one_heap()  # as app/main.py does
    peak = _Anonymous()
    engine = Engine(locate, Path(tempfile.mkdtemp()))
    request = Request(
        choice(folder, precision),
        prompt(folder, context - NEW_TOKENS - 8),
        replace(Options(), max_new_tokens=NEW_TOKENS, ignore_eos=True),
    )
    *_, finished = events_of(engine, request)
    engine.close()
    assert isinstance(finished, Finished)
    used = finished.statistics.prompt_tokens + finished.statistics.tokens
    return {"peak": status("VmHWM"), "own": peak.stop(), "context": used}


def prompt(folder: Path, tokens: int) -> str:
    """Write a text of about `tokens` tokens."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    ids = tokenizer("Once upon a time there was a little girl who liked to read. " * tokens)["input_ids"]
    return str(tokenizer.decode(ids[: max(tokens, 1)], skip_special_tokens=True))


def status(key: str) -> int:
    """Return a value of /proc/self/status in bytes."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return int(next(line for line in lines if line.startswith(key + ":")).split()[1]) << 10


class _Anonymous:
    """The largest RssAnon so far, which is read every 5 ms on a thread."""

    def __init__(self) -> None:
        self._most = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._poll, daemon=True)
        self._thread.start()

    def stop(self) -> int:
        self._ended.set()
        self._thread.join()
        return self._most

    def _poll(self) -> None:
        while not self._ended.is_set():
            self._most = max(self._most, status("RssAnon"))
            time.sleep(0.005)


def compare(folder: Path, precision: Precision, context: int) -> str:
    """Run a measurement in a process of its own. Returns its line of the table.

    Raises SystemExit if the used context differs from the requested context by more than NEARLY tokens."""
    command = python_command("-m", "labs.memory_fit", "--run", precision, str(context), str(folder))
    output = subprocess.run(
        command, capture_output=True, text=True, check=True, env=importing_environment()
    ).stdout
    measured = json.loads(output.splitlines()[-1])
    if abs(measured["context"] - context) > NEARLY:
        raise SystemExit(f"{folder.name} used a context of {measured['context']} tokens, not of {context}.")
    estimator = Estimator(read_config(folder, folder.name), read_weights(folder, folder.name))
    need = estimator.need(precision, context)
    peak = estimator.peak(precision, context)
    parts = " + ".join(f"{part / 1e6:.0f}" for part in (need.runtime, need.weights, need.cache, need.rows))
    numbers = (need.total, measured["own"], peak, measured["peak"])
    cells = " | ".join(f"{number / 1e6:.0f}" for number in numbers)
    error = peak / measured["peak"] - 1
    return f"| {folder.name} | {precision} | {context:,} | {parts} | {cells} | {error:+.1%} |"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--make", type=Path)
    parser.add_argument("--run", nargs=2, metavar=("PRECISION", "CONTEXT"))
    parser.add_argument("--contexts", default="64,full")
    parser.add_argument("--precisions", default="float32,bfloat16")
    parser.add_argument("folders", nargs="*", type=Path)
    given = parser.parse_args()
    if given.make:
        return make(given.make)
    if given.run:
        return print(json.dumps(run(given.folders[0], given.run[0], int(given.run[1]))))
    print(TITLE)
    for folder in given.folders:
        for precision in (name for name in get_args(Precision) if name in given.precisions.split(",")):
            for context in given.contexts.split(","):
                tokens = read_config(folder, folder.name).context if context == "full" else int(context)
                print(compare(folder, precision, tokens), flush=True)
    return None


if __name__ == "__main__":
    main()
