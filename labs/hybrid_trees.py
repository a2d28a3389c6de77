"""Compares lookahead on a trained hybrid and on a transformer of the same size, and trees with chains.

    python -m labs.hybrid_trees STORIES-FOLDER --minutes 8

A small model in the folder writes stories. A hybrid (three gated delta nets to one full attention) and a
transformer are trained on them until they have taken `--minutes` together. Both then get the weights that they had
at the same loss on held-out stories, because a better model writes other text. They continue further stories,
greedily, with the same number of rows in each step. At the end, steps of the hybrid are timed: a tree with our
cache against a chain with transformers' cache and a copy of the state.
"""

import argparse
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from statistics import fmean, median
from time import perf_counter
from typing import Any

import torch
from torch import Tensor
from transformers import (
    AutoModelForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
    Qwen3_5ForCausalLM,
    Qwen3_5TextConfig,
)

from app.commands.console import print_text
from app.engine.attention import register
from app.engine.block.block import Block, chain_block
from app.engine.decoders.lookahead_decoder import ReplyContext, make_lookahead
from app.engine.decoders.plain import plain
from app.engine.drafters.draft_model import prefilled
from app.engine.loading.kernel_choice import choose_kernels
from app.engine.lookahead.model_statistics import ModelStatistics
from app.engine.runner.model_runner import ModelRunner
from app.engine.runner.sequential_runner import LONGEST_CHAIN, SequentialRunner
from app.engine.runner.step import Decoder
from app.engine.text.stopping_criteria import StoppingCriteria
from app.values.messages import Decoding, ModelChoice
from labs.ablation import greedy_reply

LENGTH, BATCH, CONTEXT = 256, 8, 1024
PROMPT, REPLY = 40, 160
PROMPTS, HELD_OUT = 32, 64
EVALUATED = 25
"""Number of training steps between two measurements of the loss on held-out stories."""
SHARED = {
    "hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 2, "num_key_value_heads": 1,
    "max_position_embeddings": CONTEXT, "bos_token_id": 1, "eos_token_id": 2, "tie_word_embeddings": True,
}  # fmt: skip
ROWS = (8, 16, 32, 64)
TIMED_ROWS = (1, 8, 16, 31)
ROUNDS = 30


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, help="A small model that writes stories, such as stories260K.")
    parser.add_argument(
        "--minutes", type=float, default=8, help="Minutes of training, for both models together."
    )
    parser.add_argument("--stories", type=int, default=2048, help="Stories to train on.")
    parser.add_argument("--seed", type=int, default=0, help="Decides the stories, weights and batches.")
    given = parser.parse_args()
    torch.manual_seed(given.seed)
    writer = AutoModelForCausalLM.from_pretrained(given.folder, dtype=torch.float32).eval()
    stories = written(writer, given.stories + PROMPTS + HELD_OUT)
    models = untrained(int(writer.config.vocab_size))
    train(models, stories[PROMPTS + HELD_OUT :], stories[PROMPTS : PROMPTS + HELD_OUT], 60 * given.minutes)
    for line in report(models, stories[:PROMPTS, :PROMPT]):
        print_text(line)


def report(models: dict[str, PreTrainedModel], prompts: Tensor) -> Iterator[str]:
    """Yield lines: tokens per step of the hybrid (with trees, with chains) and of the transformer; then times."""
    register()
    chains = SequentialRunner(deepcopy(models["hybrid"]), CONTEXT)
    chains.longest_chain = LONGEST_CHAIN
    trees, other = (
        choose_kernels(model, ModelChoice(name), CONTEXT).runner for name, model in models.items()
    )
    for name, runner in {"hybrid": trees, "transformer": other, "hybrid, chains": chains}.items():
        yield from tokens_per_step(name, runner, prompts)
    yield from step_times(trees, chains)


@torch.inference_mode()
def written(writer: PreTrainedModel, count: int) -> Tensor:
    """Sample stories [count, LENGTH]."""
    parts = []
    for start in range(0, count, 128):
        begin = torch.full((min(128, count - start), 1), 1)
        parts.append(
            writer.generate(  # type: ignore[operator]
                begin,
                attention_mask=torch.ones_like(begin),
                do_sample=True,
                temperature=0.8,
                top_k=0,
                min_new_tokens=LENGTH - 1,
                max_new_tokens=LENGTH - 1,
                pad_token_id=2,
            )
        )
    return torch.cat(parts)


def untrained(vocabulary: int) -> dict[str, PreTrainedModel]:
    """Make both models with about the same number of parameters."""
    hybrid = Qwen3_5TextConfig(
        vocab_size=vocabulary,
        intermediate_size=160,
        head_dim=32,
        linear_num_key_heads=2,
        linear_num_value_heads=2,
        linear_key_head_dim=32,
        linear_value_head_dim=32,
        **SHARED,
    )
    transformer = LlamaConfig(vocab_size=vocabulary, intermediate_size=208, **SHARED)
    return {"hybrid": Qwen3_5ForCausalLM(hybrid), "transformer": LlamaForCausalLM(transformer)}


def train(models: dict[str, PreTrainedModel], stories: Tensor, held_out: Tensor, seconds: float) -> None:
    """Train all models with the same batches for `seconds` in all. Each gets the weights that it had when its loss
    on the held-out stories was nearest to the worst model's last loss."""
    optimizers = {name: torch.optim.AdamW(model.parameters(), 2e-3) for name, model in models.items()}
    kept: dict[str, list[tuple[float, int, Any]]] = {name: [] for name in models}
    begun, steps = perf_counter(), 0
    while perf_counter() - begun < seconds or steps % EVALUATED:
        batch = stories[torch.randint(len(stories), (BATCH,))]
        steps += 1
        for name, model in models.items():
            _loss(model, batch).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizers[name].step()
            optimizers[name].zero_grad()
            if steps % EVALUATED == 0:
                with torch.no_grad():
                    loss = _loss(model, held_out).item()
                kept[name].append((loss, steps, deepcopy(model.state_dict())))
                print_text(f"{perf_counter() - begun:5.0f} s, step {steps}, {name}: loss {loss:.3f}")
    worst = max(known[-1][0] for known in kept.values())
    for name, model in models.items():
        loss, at, weights = min(kept[name], key=lambda one: abs(one[0] - worst))
        model.load_state_dict(weights)
        model.eval().requires_grad_(False)
        print_text(f"{name}: loss {loss:.3f} after {at} steps of {BATCH} of {len(stories):,} stories")


def _loss(model: PreTrainedModel, batch: Tensor) -> Tensor:
    loss: Tensor = model(input_ids=batch, labels=batch, use_cache=False).loss
    return loss


def tokens_per_step(name: str, runner: Any, prompts: Tensor) -> Iterator[str]:
    """Yield a line for each number of rows. Raises ArithmeticError if a text differs from plain decoding's."""
    expected = [reply(runner, prompt.tolist(), plain)[0] for prompt in prompts]
    size = sum(weight.numel() for weight in runner.model.parameters()) / 1e6
    yield f"{name}: {type(runner).__name__}, {size:.2f} million parameters"
    for rows in ROWS:
        known = ReplyContext(ModelStatistics(runner.vocabulary))
        decoder = make_lookahead(Decoding("auto", rows=rows), known)
        found = [reply(runner, prompt.tolist(), decoder) for prompt in prompts]
        if [text for text, _ in found] != expected:
            raise ArithmeticError(f"{name} writes another text with {rows} rows")
        per_step = fmean(len(text) / steps for text, steps in found)
        yield f"  {rows:2} rows: {per_step:.2f} tokens per step, the text of plain decoding"


def reply(runner: ModelRunner, prompt: list[int], decoder: Decoder) -> tuple[list[int], int]:
    """Return a greedy reply and the number of its steps."""
    stopper = StoppingCriteria(frozenset(), REPLY, CONTEXT - len(prompt))
    text, steps = greedy_reply(runner, prompt, decoder, stopper)
    return text, len(steps)


def step_times(trees: ModelRunner, chains: ModelRunner) -> Iterator[str]:
    """Yield the median milliseconds of a step with its commit, by rows; the two runners are timed in turn."""
    text = list(range(3, 103))
    for rows in TIMED_ROWS:
        blocks = {
            trees: _tree(rows, len(text)),
            chains: chain_block(range(3, 3 + rows), len(text), tuple(range(rows))),
        }
        times: dict[ModelRunner, list[float]] = {trees: [], chains: []}
        for _ in range(ROUNDS):
            for runner, block in blocks.items():
                prefilled(runner, text)
                begun = perf_counter()
                runner.forward(block)
                runner.commit((0, 1)[:rows])
                times[runner].append(perf_counter() - begun)
        tree, chain = (1000 * median(times[runner]) for runner in (trees, chains))
        yield f"{rows:2} rows: a tree {tree:.2f} ms, a chain with a copy {chain:.2f} ms ({tree / chain:.2f})"


def _tree(rows: int, start: int) -> Block:
    parents = [-1, *((row - 1) // 2 for row in range(1, rows))]
    positions = [start]
    for parent in parents[1:]:
        positions.append(positions[parent] + 1)
    return Block(tuple(range(3, 3 + rows)), tuple(positions), tuple(parents), tuple(range(rows)))


if __name__ == "__main__":
    main()
