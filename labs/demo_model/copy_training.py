"""Trains a finished demo model further on copying, while it keeps its answers in other conversations.

    python -m labs.demo_model.copy_training DATA conversations.jsonl MODEL TRAINED --seconds 3600

Rows are short at first and long at the end, because copying is learned from many short tasks. Several processes
learn from tasks of their own, and their weights are averaged every 20 steps.
"""

import json
import random
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812 - the usual name
from torch import Tensor
from torch.multiprocessing.spawn import spawn
from transformers import AutoTokenizer, LlamaForCausalLM

from app.values.messages import Message
from labs.demo_model.branched_rows import BranchedBatch, Encode, batch_of, chat_row, copying_row
from labs.demo_model.copying import CopyingTasks
from labs.demo_model.deep_supervision import Probes, attention_loss
from labs.demo_model.real_sentences import real_sentences
from labs.demo_model.training import make_optimizers, rate_factor, update

RATE = 0.9
"""The learning rates, relative to those of a model that begins with random weights."""
WARM_UP_STEPS = 20
CHAT_ROWS, CHAT_LENGTH = 3, 512
COPYING_TOKENS = 3072
STEPS_PER_ROUND = 20
ROUNDS_PER_CHECKPOINT = 5
HELD_OUT_CONVERSATIONS = 60
"""Number of conversations at the end of the file on which the held-out loss is measured."""


@dataclass(frozen=True, slots=True)
class Stage:
    """Rows of `length` tokens with sources of `characters` characters, until the share `until` of the time is over.

    `short` is the share of answers that stop after 2 to 4 tokens; `probing` and `guiding` weigh the two parts of
    the deep supervision. If several stages end at the same time, each step draws one of them."""

    until: float
    length: int
    characters: tuple[int, int]
    short: float = 0.0
    probing: float = 0.0
    guiding: float = 0.0


STAGES = (
    Stage(0.2, 256, (100, 420), probing=0.5, guiding=0.5),
    Stage(0.6, 256, (80, 300), short=0.75, probing=0.5, guiding=0.5),
    Stage(0.75, 512, (150, 1000), short=0.2, probing=0.5, guiding=0.5),
    Stage(0.95, 512, (150, 1100), guiding=0.5),
    Stage(0.95, 1024, (500, 2300), guiding=0.5),
    Stage(1.0, 512, (150, 1100)),
    Stage(1.0, 1024, (500, 2300)),
)
"""The first stage teaches an induction head, the next stages teach finding the right sentence, and the last stages
teach both in prompts of the app's length."""


@dataclass(frozen=True, slots=True)
class StepTasks:
    copying: BranchedBatch
    chats: BranchedBatch


class Tasks:
    """Copying tasks and conversations, in a random order."""

    def __init__(self, data: Path, conversations: Path, encode: Encode, seed: int) -> None:
        self._rng = random.Random(seed)
        self._copying = CopyingTasks(*real_sentences(data), self._rng)
        self._chats = self._shuffled(read_chats(conversations))
        self._encode = encode

    def stage(self, share: float) -> Stage:
        until = next(stage.until for stage in STAGES if share < stage.until)
        return self._rng.choice([stage for stage in STAGES if stage.until == until])

    def next_step(self, stage: Stage) -> StepTasks:
        """Return the rows of a step: about 4,600 tokens, a third of them conversations."""
        rows = [
            copying_row(
                self._copying, self._encode, stage.length, self._rng.uniform(*stage.characters), stage.short
            )
            for _ in range(COPYING_TOKENS // stage.length)
        ]
        chats = [chat_row(self._chats, self._encode, CHAT_LENGTH) for _ in range(CHAT_ROWS)]
        return StepTasks(batch_of(rows), batch_of(chats))

    def _shuffled(self, chats: list[Sequence[Message]]) -> Iterator[Sequence[Message]]:
        while True:
            self._rng.shuffle(chats)
            yield from chats


def read_chats(path: Path) -> list[Sequence[Message]]:
    """Read the conversations of a file that `prepare` wrote, without held-out conversations and quoting tasks."""
    with path.open(encoding="utf-8") as file:
        lines = [json.loads(line) for line in file][:-HELD_OUT_CONVERSATIONS]
    return [
        [Message(one["role"], one["content"]) for one in line["messages"]]
        for line in lines
        if line["source"] != "reading"
    ]


class CopyTraining:
    """The training of one process: its model, and the frozen teacher whose answers the model should keep."""

    def __init__(self, model: Any, teacher: Any, compiled: bool) -> None:
        self.model = model
        self.steps = 0
        self._teacher = teacher.eval().requires_grad_(False)
        self._probes = Probes(model.config.hidden_size)
        self._optimizers = [*make_optimizers(model), torch.optim.AdamW(self._probes.parameters(), lr=3e-3)]
        if compiled:
            for layer in [*model.model.layers, *teacher.model.layers]:
                layer.compile(dynamic=False)

    def learn(self, tasks: StepTasks, stage: Stage, share: float) -> tuple[float, float]:
        """Take one training step; return the losses of the answers and of the conversations."""
        copying, chats = self._copying_loss(tasks.copying, stage), self._chat_loss(tasks.chats)
        (copying + chats).backward()  # type: ignore[no-untyped-call]
        update(self.model, self._optimizers, RATE * rate_factor(self.steps, share, WARM_UP_STEPS))
        self.steps += 1
        return copying.item(), chats.item()

    def average(self, share: float) -> float:
        """Average the weights of all processes; return the mean of their shares of elapsed time."""
        parameters, processes = list(self.model.parameters()), dist.get_world_size()
        together = torch.cat([torch.tensor([share]), *(each.detach().flatten() for each in parameters)])
        dist.all_reduce(together)
        sizes = [1, *(each.numel() for each in parameters)]
        mean, *pieces = (together / processes).split(sizes)  # type: ignore[no-untyped-call]
        with torch.no_grad():
            for parameter, piece in zip(parameters, pieces, strict=True):
                parameter.copy_(piece.view_as(parameter))
        return float(mean)

    def _copying_loss(self, batch: BranchedBatch, stage: Stage) -> Tensor:
        """Return the weighted cross-entropy of the answers, and the losses of deep supervision."""
        layers, logits = self._read(self.model, batch)
        learned = batch.weights > 0
        each = F.cross_entropy(logits, batch.targets[learned], reduction="none")
        loss = (each * batch.weights[learned]).sum() / batch.weights[learned].sum()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            if stage.probing:
                loss = loss + stage.probing * self._probes(layers, batch, self.model.lm_head.weight)
            if stage.guiding:
                loss = loss + stage.guiding * attention_loss(self.model, layers, batch)
        return loss

    def _chat_loss(self, batch: BranchedBatch) -> Tensor:
        """Return the mean Kullback-Leibler divergence of the model's tokens from the teacher's."""
        with torch.no_grad():
            _, taught = self._read(self._teacher, batch)
        _, logits = self._read(self.model, batch)
        return F.kl_div(
            logits.log_softmax(-1), taught.log_softmax(-1), reduction="batchmean", log_target=True
        )

    def _read(self, model: Any, batch: BranchedBatch) -> tuple[tuple[Tensor, ...], Tensor]:
        """Return the hidden states after 0, 1, 2, … layers, and the logits of all tokens that are learned."""
        with torch.autocast("cpu", dtype=torch.bfloat16):
            layers = model.model(
                input_ids=batch.ids,
                position_ids=batch.positions,
                attention_mask=batch.mask,
                use_cache=False,
                output_hidden_states=True,
            ).hidden_states
            return layers, model.lm_head(layers[-1][batch.weights > 0]).float()


def train(training: CopyTraining, tasks: Tasks, options: Namespace, tokenizer: Any) -> None:
    """Train from `options.begin` on until the time is over. Writes the model repeatedly, and at the end."""
    started, share, rounds = monotonic(), options.begin, 0
    while share < 1:
        losses = list[tuple[float, float]]()
        for _ in range(STEPS_PER_ROUND):
            stage = tasks.stage(share)
            losses.append(training.learn(tasks.next_step(stage), stage, share))
        share = training.average(options.begin + (monotonic() - started) / options.seconds)
        rounds += 1
        if dist.get_rank() == 0:
            copying, chats = (sum(each) / STEPS_PER_ROUND for each in zip(*losses, strict=True))
            report = f"step {training.steps} share {share:.3f} copying {copying:.3f} chats {chats:.3f}"
            print(report, flush=True)
            if share >= 1 or rounds % ROUNDS_PER_CHECKPOINT == 0:
                deepcopy(training.model).to(torch.bfloat16).save_pretrained(options.trained)
                tokenizer.save_pretrained(options.trained)


def run(rank: int, meeting: str, options: Namespace) -> None:
    dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=options.processes)
    torch.set_num_threads(1)
    torch.manual_seed(options.seed)
    tokenizer: Any = AutoTokenizer.from_pretrained(options.model)
    model, teacher = (
        LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32)
        for folder in (options.model, options.teacher or options.model)
    )
    encode = partial(tokenizer.backend_tokenizer.encode, add_special_tokens=False)
    tasks = Tasks(options.data, options.conversations, encode, options.seed + rank)
    train(CopyTraining(model, teacher, options.compile), tasks, options, tokenizer)
    dist.destroy_process_group()


def main() -> None:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="folder with the data sets of labs/README.md")
    parser.add_argument("conversations", type=Path, help="the JSON lines file that prepare wrote")
    parser.add_argument("model", type=Path, help="folder of the model to begin with")
    parser.add_argument("trained", type=Path, help="folder for the trained model")
    parser.add_argument(
        "--teacher", type=Path, help="folder of the model whose conversations are kept; default: MODEL"
    )
    parser.add_argument("--seconds", type=float, default=3600, help="time of all stages together")
    parser.add_argument(
        "--begin", type=float, default=0.0, help="the share of the time after which MODEL was written"
    )
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--compile", action="store_true", help="use torch.compile (needs a C++ compiler)")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with TemporaryDirectory() as folder:
        meeting = f"file://{folder}/meeting"
        spawn(run, (meeting, options), options.processes)  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    main()
