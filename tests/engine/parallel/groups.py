"""Groups of ranks on CPUs, with the zoo's models read from disk as a user's are."""

from collections.abc import Callable
from pathlib import Path

from app.engine.loading.loading import LoadedModel, load
from app.engine.machine.device_options import RankPlan
from app.engine.parallel.group import Ranks
from app.engine.runner.model_runner import ModelRunner
from app.engine.runner.step import Decoder
from app.engine.session.reply_events import generate
from app.engine.text.stopping_criteria import StoppingCriteria
from app.values.messages import ModelChoice, ModelFolder, Sampling
from tests.engine.architectures import Architecture
from tests.engine.replies import Reply, collect
from tests.engine.tiny import with_tokenizer


class Group:
    """Ranks on CPUs that share one model at a time."""

    def __init__(self, size: int, folder: Path) -> None:
        self.ranks = Ranks(RankPlan(("cpu",) * size))
        self._folder = folder
        self._shared: tuple[str, LoadedModel, LoadedModel] | None = None

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
    stopper = StoppingCriteria(frozenset(), limit, runner.context - len(prompt))
    return collect(generate(runner, prompt, make(), sampler, stopper))
