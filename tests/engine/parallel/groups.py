"""Groups of ranks on CPUs, with the zoo's models read from disk as a user's are."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from app.engine.loading.loading import LoadedModel, load
from app.engine.machine.device_plan import Parallelism, RankPlan
from app.engine.parallel.group import Ranks
from app.engine.runner.model_runner import ModelRunner
from app.engine.runner.step import Decoder
from app.engine.session.reply_events import generate
from app.engine.text.reply_text import StoppingCriteria
from app.values.messages import ModelChoice, ModelFolder, Sampling
from tests.engine.architectures import Architecture
from tests.engine.replies import Letters, Reply, collect
from tests.engine.tiny import with_tokenizer

on_a_cpu = pytest.mark.skipif(
    torch.accelerator.current_accelerator() is not None, reason="transformers splits models among GPUs here"
)


class Group:
    """Ranks on CPUs that share one model at a time."""

    def __init__(self, size: int, folder: Path, parallel: Parallelism = "lookahead") -> None:
        self.ranks = Ranks(RankPlan(("cpu",) * size, parallel=parallel))
        self._folder = folder
        self._shared: tuple[str, LoadedModel, LoadedModel] | None = None
        self._split: tuple[str, LoadedModel] | None = None

    def share(self, architecture: Architecture) -> tuple[ModelRunner, ModelRunner]:
        """This process's own runner of the model, and that of all ranks; both know no text."""
        if self._shared is None or self._shared[0] != architecture.name:
            folder = self._saved(architecture)
            choice = self.ranks.begin(ModelChoice(architecture.name, "float32", "cpu"))
            alone = load(folder, choice)
            self._shared = architecture.name, alone, self.ranks.join(alone, folder, choice, None)
        _, alone, shared = self._shared
        shared.runner.forget()
        return alone.runner, shared.runner

    def split(self, architecture: Architecture) -> LoadedModel:
        """The model whose layers all ranks share; the last one that was asked for is still there."""
        if self._split is None or self._split[0] != architecture.name:
            folder = self._saved(architecture)
            choice = self.ranks.begin(ModelChoice(architecture.name, "float32", "cpu"))
            self._split = architecture.name, self.ranks.load(folder, choice, None, None)
        self._split[1].runner.forget()
        return self._split[1]

    def _saved(self, architecture: Architecture) -> ModelFolder:
        place = self._folder / architecture.name
        if not place.exists():
            architecture.make().save_pretrained(place)
            with_tokenizer(place)
        return ModelFolder(place, architecture.name)


def say(
    runner: ModelRunner,
    prompt: tuple[int, ...],
    make: Callable[[], Decoder],
    sampling: Sampling,
    *,
    from_logits: bool = False,
    limit: int = 30,
) -> Reply:
    """One reply, sampled as the session does."""
    sampler = runner.sampler(sampling, from_logits)
    stopper = StoppingCriteria(frozenset(), limit, runner.context - len(prompt), (), Letters().decode)
    return collect(generate(runner, prompt, make(), sampler, stopper))
