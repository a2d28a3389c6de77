"""Train a finished demo model further on copying, with every fifth row from the other conversations.

    python -m tools.demo_model.copy_training DATA conversations.jsonl MODEL TRAINED --seconds 3600

Rows are short at first and long at the end: what copies is learned from many short tasks.
"""

import json
import random
from argparse import ArgumentParser
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - the name that everybody knows it by
from torch import Tensor
from transformers import AutoTokenizer, LlamaForCausalLM

from app.messages import Message
from tools.demo_model.branched_rows import BranchedBatch, Encode, Row, batch_of, chat_row, copying_row
from tools.demo_model.copying import CopyingTasks
from tools.demo_model.deep_supervision import Probes, attention_loss
from tools.demo_model.real_sentences import real_sentences
from tools.demo_model.training import STEPS_PER_REPORT, make_optimizers, rate_factor

RATE = 0.9
"""Of the rates that a model with random weights begins with."""
TOKENS = 4096
CHAT_SHARE = 0.2
SUPERVISION_WEIGHT = 0.5
HELD_OUT_CONVERSATIONS = 60
"""At the end of the file; the held-out loss is measured on them."""


@dataclass(frozen=True, slots=True)
class Stage:
    """Rows of this length with sources of this many characters, until this share of the time is over.

    `short` is the share of answers that stop after a few tokens."""

    until: float
    length: int
    characters: tuple[int, int]
    short: float


STAGES = (
    Stage(0.2, 256, (100, 420), 0.0),
    Stage(0.6, 256, (80, 300), 0.75),
    Stage(0.9, 512, (150, 1000), 0.2),
    Stage(1.0, 1024, (600, 2900), 0.0),
)
"""First what an induction head does, then which sentence is meant, then both in prompts as long as the app's."""


class Tasks:
    """Rows of both kinds: copying tasks and conversations, in a random order."""

    def __init__(self, data: Path, conversations: Path, encode: Encode, seed: int) -> None:
        self._rng = random.Random(seed)
        self._copying = CopyingTasks(*real_sentences(data), self._rng)
        self._chats = self._shuffled(read_chats(conversations))
        self._encode = encode

    def batch(self, stage: Stage) -> BranchedBatch:
        """About 4,096 tokens, a fifth of them conversations."""
        rows = TOKENS // stage.length
        num_chats = max(1, round(rows * CHAT_SHARE))
        chats = [chat_row(self._chats, self._encode, stage.length) for _ in range(num_chats)]
        return batch_of(chats + [self._copying_row(stage) for _ in range(rows - num_chats)])

    def _copying_row(self, stage: Stage) -> Row:
        characters = self._rng.uniform(*stage.characters)
        return copying_row(self._copying, self._encode, stage.length, characters, stage.short)

    def _shuffled(self, chats: list[Sequence[Message]]) -> Iterator[Sequence[Message]]:
        while True:
            self._rng.shuffle(chats)
            yield from chats


def read_chats(path: Path) -> list[Sequence[Message]]:
    """The conversations of a file that `prepare` wrote, without quoting tasks and those held out."""
    with path.open(encoding="utf-8") as file:
        lines = [json.loads(line) for line in file][:-HELD_OUT_CONVERSATIONS]
    return [
        [Message(one["role"], one["content"]) for one in line["messages"]]
        for line in lines
        if line["source"] != "reading"
    ]


def loss_of(model: Any, probes: Probes, batch: BranchedBatch) -> Tensor:
    """The weighed cross-entropy of what is learned, and the deep supervision's losses."""
    with torch.autocast("cpu", dtype=torch.bfloat16):
        layers = model.model(
            input_ids=batch.ids,
            position_ids=batch.positions,
            attention_mask=batch.mask,
            use_cache=False,
            output_hidden_states=True,
        ).hidden_states
        learned = batch.weights > 0
        logits = model.lm_head(layers[-1][learned]).float()
        supervised = probes(layers, batch, model.lm_head.weight) + attention_loss(model, layers, batch)
    each = F.cross_entropy(logits, batch.targets[learned], reduction="none")
    weights = batch.weights[learned]
    loss: Tensor = (each * weights).sum() / weights.sum() + SUPERVISION_WEIGHT * supervised
    return loss


def train(model: Any, tasks: Tasks, seconds: float) -> None:
    """Train until the time is over."""
    probes = Probes(model.config.hidden_size)
    optimizers = [*make_optimizers(model), torch.optim.AdamW(probes.parameters(), lr=3e-3)]
    groups = [group for optimizer in optimizers for group in optimizer.param_groups]
    rates = [group["lr"] * RATE for group in groups]
    begin, step = monotonic(), 0
    while (share := (monotonic() - begin) / seconds) < 1:
        for group, rate in zip(groups, rates, strict=True):
            group["lr"] = rate * rate_factor(step, share)
        loss = loss_of(model, probes, tasks.batch(next(stage for stage in STAGES if share < stage.until)))
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        step += 1
        if step % STEPS_PER_REPORT == 0:
            print(f"step {step} share {share:.2f} loss {loss.item():.3f}", flush=True)  # noqa: T201


def main() -> None:
    """Command line."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="folder with the data sets of tools/README.md")
    parser.add_argument("conversations", type=Path, help="the JSON lines file that prepare wrote")
    parser.add_argument("model", type=Path, help="folder of the model to begin with")
    parser.add_argument("trained", type=Path, help="folder for the trained model")
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    tokenizer: Any = AutoTokenizer.from_pretrained(options.model)
    model: Any = LlamaForCausalLM.from_pretrained(options.model, dtype=torch.float32)
    encode = partial(tokenizer.backend_tokenizer.encode, add_special_tokens=False)
    train(model, Tasks(options.data, options.conversations, encode, options.seed), options.seconds)
    model.to(torch.bfloat16).save_pretrained(options.trained)
    tokenizer.save_pretrained(options.trained)


if __name__ == "__main__":
    main()
