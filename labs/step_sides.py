"""Makes and times steps of our runner, of transformers' forward and generate, and of llama.cpp."""

import json
import os
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, PreTrainedModel

from app.engine.block.block import chain_block
from app.engine.loading.loading import prepare
from app.engine.runner.kv_cache import CACHE_NAME, stock_cache
from app.settings import assets_dir
from app.values.messages import ModelChoice, ModelFolder

PREFIX = 128
"""Number of committed tokens before the step."""

_LLAMA: dict[str, Any] = {"model_type": "llama", "rope_theta": 100_000.0, "rms_norm_eps": 1e-5}
SHAPES: dict[str, dict[str, Any]] = {
    "smollm2-135m": {
        **_LLAMA, "vocab_size": 49_152, "hidden_size": 576, "intermediate_size": 1536, "num_hidden_layers": 30,
        "num_attention_heads": 9, "num_key_value_heads": 3, "max_position_embeddings": 8192,
        "tie_word_embeddings": True,
    },
    "qwen3-0.6b": {
        "model_type": "qwen3", "vocab_size": 151_936, "hidden_size": 1024, "intermediate_size": 3072,
        "num_hidden_layers": 28, "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128,
        "max_position_embeddings": 40_960, "tie_word_embeddings": True,
    },
}  # fmt: skip
"""Configs by name; the weights are random."""

Make = Callable[[], PreTrainedModel]
TakeStep = Callable[[int], float]
"""Row count -> milliseconds of one step."""
Clock = Callable[[], float]
CLOCKS: dict[str, Clock] = {"wall": perf_counter, "cpu": process_time}
"""With one thread, processor time is wall time on an idle machine, and hardly grows on a shared machine."""


def maker(model: str, dtype: torch.dtype) -> Make:
    """Return a function that makes the model of a folder, or a model of a named shape with random weights."""
    if model in SHAPES:
        return partial(_random, model, dtype)
    return partial(AutoModelForCausalLM.from_pretrained, model, dtype=dtype, local_files_only=True)


def _random(shape: str, dtype: torch.dtype) -> PreTrainedModel:
    torch.manual_seed(0)
    settings = dict(SHAPES[shape])
    config = AutoConfig.for_model(settings.pop("model_type"), **settings)
    made: PreTrainedModel = AutoModelForCausalLM.from_config(config, dtype=dtype)  # type: ignore[no-untyped-call]
    return made


def our_step(make: Make, clock: Clock) -> TakeStep:
    """Return a step of a block of rows through the runner that the app would use, with logits for every row."""
    tokenizer = AutoTokenizer.from_pretrained(assets_dir() / "demo-model", local_files_only=True)
    model = make().requires_grad_(False).train(False)
    loaded = prepare(model, tokenizer, ModelFolder(Path("shape"), name="shape"), ModelChoice("shape"))
    runner, ids = loaded.runner, _ids(PREFIX)
    for _ in runner.prefill(ids):
        pass

    def step(rows: int) -> float:
        block = chain_block(ids[:rows], PREFIX, wanted=tuple(range(rows)))
        begin = clock()
        runner.forward(block)
        return 1000 * (clock() - begin)

    return step


def make_stock(make: Make) -> Any:
    """Make the model as transformers runs it."""
    return make().requires_grad_(False).train(False)


def stock_step(model: Any, clock: Clock) -> TakeStep:
    """Return a step of a block of rows through transformers' forward, with its default attention and cache."""
    cache = stock_cache(model.config)
    ids = torch.tensor([_ids(PREFIX)])
    with torch.inference_mode():
        model(input_ids=ids, use_cache=True, **{CACHE_NAME: cache})

    @torch.inference_mode()
    def step(rows: int) -> float:
        model.set_attn_implementation("sdpa")
        begin = clock()
        model(input_ids=ids[:, :rows], use_cache=True, **{CACHE_NAME: cache})
        took = 1000 * (clock() - begin)
        cache.crop(-rows)  # a negative number removes rows
        return took

    return step


def generate_step(model: Any, attention: str, clock: Clock) -> TakeStep:
    """Return a step of generate, which writes one token with one row; the time of its prefill is subtracted."""
    prompt = torch.tensor([_ids(PREFIX)])
    short, long = 1, 33

    def seconds(tokens: int) -> float:
        model.set_attn_implementation(attention)
        begin = clock()
        model.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            min_new_tokens=tokens,
            max_new_tokens=tokens,
            do_sample=False,
            pad_token_id=0,
        )
        return clock() - begin

    def step(rows: int) -> float:
        if rows != 1:
            raise ValueError(f"generate takes one row, got {rows}")
        return 1000 * (seconds(long) - seconds(short)) / (long - short)

    return step


def llama_wall(program: Path, gguf: Path, rows: int, threads: int) -> list[float]:
    """Return the milliseconds of each step, as llama-bench itself measures them.

    With one row a step generates a token, else it reads a prompt of `rows` tokens; both after PREFIX tokens."""
    ran = _llama_bench(program, gguf, rows, threads, repeats=5)
    return [nanoseconds / 1e6 for nanoseconds in json.loads(ran)[0]["samples_ns"]]


def llama_cpu(program: Path, gguf: Path, rows: int, threads: int) -> list[float]:
    """Return the processor milliseconds of a step of llama-bench, computed from a long and a short run.

    Both runs include loading and the prefix, whose time varies by more than a row takes, so the long run has many
    steps. Raises ValueError if the long run took no longer than the short run."""
    few, many = 2, 102 if rows <= 4 else 42 if rows <= 16 else 14
    short, long = (_children_cpu(program, gguf, rows, threads, repeats) for repeats in (few, many))
    if long <= short:
        raise ValueError(
            f"{many} steps of {rows} rows took {long:.2f} s and {few} took {short:.2f} s: measure anew"
        )
    return [1000 * (long - short) / (many - few)]


def _children_cpu(program: Path, gguf: Path, rows: int, threads: int, repeats: int) -> float:
    before = os.times()
    _llama_bench(program, gguf, rows, threads, repeats)
    after = os.times()
    return (
        after.children_user + after.children_system - before.children_user - before.children_system
    )  # Windows does not count child processes


def _llama_bench(program: Path, gguf: Path, rows: int, threads: int, repeats: int) -> str:
    test = ["-p", "0", "-n", "1"] if rows == 1 else ["-p", str(rows), "-n", "0"]
    command = [str(program), "-m", str(gguf), "-t", str(threads), "-r", str(repeats), "-o", "json"]
    ran = subprocess.run([*command, *test, "-d", str(PREFIX)], check=True, capture_output=True, text=True)
    return ran.stdout


def _ids(count: int) -> list[int]:
    return torch.randint(5, 4000, (count,), generator=torch.Generator().manual_seed(0)).tolist()
