"""Trains the demo model for a given time: Muon for the matrices, AdamW for the rest, bfloat16 autocast."""

from argparse import ArgumentParser
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - the usual name
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM

from labs.demo_model.tokenizer import CONTEXT, VOCABULARY

ROWS = 8
WARM_UP_STEPS = 80
LOWEST_RATE = 0.02
STEPS_PER_REPORT = 20
STEPS_PER_CHECKPOINT = 400
HELD_OUT_ROWS = 4


@dataclass(frozen=True, slots=True)
class Batch:
    """inputs, targets: [rows, length of the context]; targets are the inputs shifted by one token."""

    inputs: Tensor
    targets: Tensor


def held_out(ids: Tensor) -> Batch:
    """Return the last rows of the text, which no training batch contains."""
    tail = ids[-HELD_OUT_ROWS * CONTEXT - 1 :].long()
    return Batch(tail[:-1].view(-1, CONTEXT), tail[1:].view(-1, CONTEXT))


def training_batches(ids: Tensor) -> Iterator[Batch]:
    """Yield batches without end, in another order in each epoch, without the incomplete last batch of an epoch.

    Raises ValueError if the text has too few rows for a batch."""
    num_rows = (len(ids) - 1) // CONTEXT - HELD_OUT_ROWS
    if num_rows < ROWS:
        raise ValueError(f"the text must have at least {ROWS} rows of {CONTEXT} tokens, got {num_rows}")
    for step in count(step=num_rows // ROWS):
        order = np.random.default_rng(step).permutation(num_rows).tolist()
        for start in range(0, num_rows - ROWS + 1, ROWS):
            texts = [
                ids[row * CONTEXT : (row + 1) * CONTEXT + 1].long() for row in order[start : start + ROWS]
            ]
            yield Batch(torch.stack([t[:-1] for t in texts]), torch.stack([t[1:] for t in texts]))


Loss = Callable[[Batch], Tensor]


def make_model() -> Any:
    """Make the demo model with random weights: 7.34 million parameters."""
    config: Any = LlamaConfig  # it takes more keyword arguments than it declares
    return LlamaForCausalLM(
        config(
            hidden_size=256, num_hidden_layers=8, intermediate_size=768, num_attention_heads=4,
            num_key_value_heads=2, head_dim=64, vocab_size=VOCABULARY, tie_word_embeddings=True,
            max_position_embeddings=CONTEXT, rope_theta=10000.0, bos_token_id=0, eos_token_id=2, pad_token_id=0,
            rms_norm_eps=1e-6,
        )
    )  # fmt: skip


def make_loss(model: Any, compiled: bool) -> Loss:
    """Return a function that computes the mean cross-entropy of a batch under bfloat16 autocast."""

    def cross_entropy(inputs: Tensor, targets: Tensor) -> Tensor:
        hidden = model.model(input_ids=inputs, use_cache=False).last_hidden_state
        return F.cross_entropy(model.lm_head(hidden).float().view(-1, VOCABULARY), targets.view(-1))

    function: Any = torch.compile(cross_entropy) if compiled else cross_entropy

    def loss(batch: Batch) -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return function(batch.inputs, batch.targets)  # type: ignore[no-any-return]

    return loss


def make_optimizers(model: Any) -> list[torch.optim.Optimizer]:
    """Make Muon for the layers' matrices, and AdamW for embeddings and norms."""
    named = list(model.named_parameters())
    matrices = [p for name, p in named if _is_layer_matrix(name, p)]
    rest = [p for name, p in named if not _is_layer_matrix(name, p)]
    return [
        torch.optim.Muon(matrices, lr=0.02, momentum=0.95, weight_decay=0.01, adjust_lr_fn="original"),
        torch.optim.AdamW(rest, lr=3e-3, betas=(0.9, 0.95), weight_decay=0.0, fused=True),
    ]


def update(model: Any, optimizers: Sequence[torch.optim.Optimizer], factor: float) -> None:
    """Take a step of each optimizer at its learning rate times `factor`, then drop the gradients."""
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["lr"] = group.setdefault("initial_lr", group["lr"]) * factor
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)


def rate_factor(step: int, share: float, warm_up_steps: int = WARM_UP_STEPS) -> float:
    """Return the factor of the learning rate, which rises over `warm_up_steps`, stays at 1 until half of the time
    is over, and then falls to LOWEST_RATE."""
    warm_up = min(1.0, (step + 1) / warm_up_steps)
    return warm_up * (1.0 if share < 0.5 else max(LOWEST_RATE, (1 - share) / 0.5))


class Training:
    """One run: the model, its optimizers, and the moving average of the loss."""

    def __init__(self, model: Any, compiled: bool) -> None:
        self.model = model
        self.loss = make_loss(model, compiled)
        self.step = 0
        self.average = 0.0
        self._optimizers = make_optimizers(model)

    def learn(self, batch: Batch, share: float) -> None:
        """Take one training step; `share` is how much of the run's time is over."""
        loss = self.loss(batch)
        loss.backward()  # type: ignore[no-untyped-call]
        update(self.model, self._optimizers, rate_factor(self.step, share))
        value = loss.item()
        self.average = 0.98 * self.average + 0.02 * value if self.step else value
        self.step += 1


def train(ids: Tensor, folder: Path, seconds: float, compiled: bool) -> None:
    """Train on these ids for `seconds`, printing losses and writing checkpoints; write the model in bfloat16."""
    torch.manual_seed(0)
    training = Training(make_model(), compiled)
    begin = monotonic()
    for batch in training_batches(ids):
        elapsed = monotonic() - begin
        if elapsed >= seconds:
            break
        training.learn(batch, elapsed / seconds)
        if training.step % STEPS_PER_REPORT == 0:
            _report(training, monotonic() - begin)
        if training.step % STEPS_PER_CHECKPOINT == 0:
            _check(training, held_out(ids), folder.with_name(folder.name + "-checkpoint"))
    training.model.to(torch.bfloat16).save_pretrained(folder)


def _report(training: Training, elapsed: float) -> None:
    speed = training.step * ROWS * CONTEXT / elapsed
    line = f"step {training.step} {elapsed:.0f} s loss {training.average:.3f} {speed:.0f} tokens/s"
    print(line, flush=True)


def _check(training: Training, batch: Batch, folder: Path) -> None:
    with torch.no_grad():
        print(f"held-out loss {training.loss(batch).item():.3f}", flush=True)
    training.model.generation_config.do_sample = False
    training.model.save_pretrained(folder)


def _is_layer_matrix(name: str, parameter: Tensor) -> bool:
    return parameter.ndim == 2 and "embed" not in name and "lm_head" not in name


def main() -> None:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("ids", type=Path, help="the .npy file that labs.demo_model.tokenizer wrote")
    parser.add_argument("model", type=Path, help="folder for the model")
    parser.add_argument("seconds", type=float, help="how long to train")
    parser.add_argument("--compile", action="store_true", help="use torch.compile (needs a C++ compiler)")
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    ids = torch.from_numpy(np.load(options.ids).astype(np.int32))
    train(ids, options.model, options.seconds, options.compile)


if __name__ == "__main__":
    main()
