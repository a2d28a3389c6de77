"""The one loaded model, and what happens to a request: ids, then text, then events."""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from traceback import clear_frames

import torch
import transformers

from app.engine.embedding.embedder import SentenceModels
from app.engine.embedding.job import EmbeddingJob
from app.engine.loading.draft_loading import check_draft_model, with_draft_model
from app.engine.loading.idle_asking import IdleAsking
from app.engine.loading.loading import LoadedModel
from app.engine.loading.measuring import LOADED, keep, measured
from app.engine.loading.offloading import check_can_offload, load_in_part
from app.engine.machine.device_plan import ALONE, Estimate, RankPlan, no_estimate
from app.engine.machine.memory import (
    is_out_of_memory,
    is_uninitialised,
    peak_bytes,
    release_memory,
    restart_peak,
)
from app.engine.measuring.measurement_cache import MeasurementCache
from app.engine.parallel.group import Ranks
from app.engine.sampling.sampling import likeliest
from app.engine.session.reply_events import NeverStop as NeverStop
from app.engine.session.reply_events import StopSignal, reply_events
from app.engine.session.request_tokens import RequestTokenizer, RequestTokens
from app.engine.text.reader import CachedTokenReader
from app.engine.text.sandbox import Sandbox, fill_here
from app.errors import BadOption, EngineClosed
from app.values.eagle_config import refuse_speculator
from app.values.messages import (
    Device,
    Event,
    Locate,
    ModelChoice,
    ModelFolder,
    ModelInfo,
    Piece,
    Prefilling,
    Progress,
    Request,
)
from app.values.trace import Margin

log = logging.getLogger(__name__)


def no_progress(_what: str, _done: int, _total: int) -> None:
    """Ignore progress."""


class Session:
    """Keeps one model loaded and answers requests, one at a time; beside it at most one for sentence embeddings."""

    def __init__(
        self,
        locate: Locate,
        cache_dir: Path | None = None,
        taken: int = 0,
        sandbox: Sandbox | None = None,
        plan: RankPlan = ALONE,
        device: Device = "auto",
        sentences: SentenceModels | None = None,
        estimate: Estimate = no_estimate,
    ) -> None:
        """`taken` are bytes that the process took before there was an engine; no sandbox: models are trusted.

        Until a model is loaded, texts are embedded on `device`; then where the person wants that model."""
        # Its bars and warnings are for programmers; what a person must know comes as events.
        transformers.logging.set_verbosity_error()  # type: ignore[no-untyped-call]
        transformers.logging.disable_progress_bar()  # type: ignore[no-untyped-call]
        self._locate = locate
        self._sandbox = sandbox
        self._fill = sandbox.fill if sandbox else fill_here
        self._cache = MeasurementCache(cache_dir)
        self._unpacked = cache_dir / "gguf" if cache_dir else None
        self._taken = taken
        self._plan, self._estimate = plan, estimate
        self._ranks = Ranks(plan, estimate)
        self._sentences = sentences or SentenceModels(sandbox)
        self._device: Device = "cpu" if "cpu" in plan.devices else device
        self._folders: tuple[ModelFolder, ...] = ()  # of the loaded model, and of its draft model
        self._choice: ModelChoice | None = None
        self._loaded: LoadedModel | None = None
        self._idle_asking: IdleAsking | None = None
        self._tokenizer: tuple[ModelChoice, RequestTokenizer] | None = None
        self.reader = CachedTokenReader()
        """Of the loaded model's tokens, for any thread."""

    @property
    def info(self) -> ModelInfo | None:
        """The model that is loaded, if one is."""
        return self._loaded.current_info if self._loaded else None

    def open(self, choice: ModelChoice, progress: Progress) -> LoadedModel:
        """The chosen model, loaded unless it is already.

        One that cannot be found leaves the old one, one that cannot be loaded brings the old one back."""
        if self._loaded and choice == self._choice and self._ranks.is_whole:
            return self._loaded
        folders = self._located(choice, progress)
        before = self._folders, self._choice
        try:
            return self._load_or_retry(folders, choice, progress)
        except EngineClosed:
            raise
        except Exception as error:
            if error.__traceback__:
                clear_frames(error.__traceback__)  # they hold the weights that had come so far
            self._return_to(*before, progress)
            raise

    @property
    def peak(self) -> int:
        """Bytes that the loaded model took at most so far, on its device; 0 where that is unknown."""
        if self._loaded is None:
            return 0
        device = torch.device(self._loaded.info.device)
        if device.type == "cuda":
            return int(torch.cuda.max_memory_reserved(device))
        return max(0, peak_bytes() - self._taken)

    def close(self) -> None:
        """Let go of the models and give their memory back."""
        self._sentences.close()
        self._drop()
        self._ranks.close()

    def forget(self) -> None:
        """Drop what runner and pool know of earlier prompts."""
        if self._loaded:
            self._loaded.runner.forget()
            self._loaded.statistics.forget()
            for source in self._loaded.draft_models:
                source.model.forget()

    def tokenizer_for(self, choice: ModelChoice) -> RequestTokenizer | None:
        """Who makes tokens of requests to this model, for any thread; None where it is not loaded."""
        known = self._tokenizer
        return known[1] if known and known[0] == choice else None

    def events(
        self, request: Request, progress: Progress, stop: StopSignal, tokens: RequestTokens | None = None
    ) -> Iterator[Event]:
        """Everything that happens to a request behind loading; ends with Finished, or raises."""
        if request.logits.grammar and self._sandbox:
            self._sandbox.check_grammar(request.logits.grammar)
        loaded = self.open(request.model, progress)
        if request.is_cold:
            self.forget()
        known = self._tokens(request, tokens)

        def events() -> Iterator[Event]:
            return reply_events(loaded, request, known, stop, self.reader.texts)

        with self._forgetting_on_error():
            yield from self._written_or_begun_again(events)
        keep(loaded, self._cache)

    def embed(self, job: EmbeddingJob) -> None:
        """The next few texts of a job. Where the person wants the CPU, nothing goes to a card."""
        device: Device = "cpu" if self._device == "cpu" else "auto"
        job.add(self._sentences.embed(job.model, job.piece(), job.on_tokens, device))

    def ask_more(self) -> float:
        """Ask the model for a few more first successors; the seconds that it took, 0 where there are no more."""
        return self._idle_asking.ask() if self._idle_asking else 0.0

    def margin(
        self, request: Request, written: Sequence[int], progress: Progress
    ) -> Iterator[Prefilling | Margin]:
        """Reads the prompt and a reply's first tokens, and ends with what the model holds likeliest behind them.

        The prefill counts in no statistics; its logits may round differently from a step's."""
        loaded = self.open(request.model, progress)
        ids = self._tokens(request).followed_by(written)
        with self._forgetting_on_error():
            logits = yield from loaded.runner.prefill(ids)
            tokens, values = likeliest(logits[None], 2)
        first, second = self.reader.texts(tokens[0].tolist())
        yield Margin(first, second, float(values[0, 0] - values[0, 1]))

    def _tokens(self, request: Request, known: RequestTokens | None = None) -> RequestTokens:
        """Those that are known, if they are the loaded model's."""
        tokenizer = self.tokenizer_for(request.model)
        assert tokenizer
        return known if known and known.made_by is tokenizer else tokenizer.tokens(request)

    @contextmanager
    def _forgetting_on_error(self) -> Iterator[None]:
        """Forget the cache when the model fails: it may hold half of a step.

        A request that cannot be done, such as one with a wrong grammar, commits nothing of its step."""
        try:
            with self._ranks.explaining_errors():
                yield
        except BadOption:
            raise
        except Exception:
            self.forget()
            raise

    def _located(self, choice: ModelChoice, progress: Progress) -> tuple[ModelFolder, ...]:
        """The model's folder, and that of its draft model. Raises ModelError."""
        names = (choice.name, choice.draft_model) if choice.draft_model else (choice.name,)
        folders = tuple(self._locate(name, progress) for name in names)
        refuse_speculator(folders[0])
        if choice.offload:
            check_can_offload(folders[0], choice, self._plan)
        for draft in folders[1:]:
            check_draft_model(draft)
        return folders

    def _load_or_retry(
        self, folders: tuple[ModelFolder, ...], choice: ModelChoice, progress: Progress
    ) -> LoadedModel:
        """Once more where an error left more memory than there was."""
        try:
            return self._load(folders, choice, progress)
        except Exception as error:
            if not self._makes_room(error):
                raise
        return self._load(folders, choice, progress)

    def _written_or_begun_again(self, events: Callable[[], Iterator[Event]]) -> Iterator[Event]:
        """A reply's events, from the beginning again where an error before its first piece made room."""
        is_begun = False
        try:
            for event in events():
                is_begun = is_begun or isinstance(event, Piece)
                yield event
            return
        except Exception as error:
            has_room = self._makes_room(error)
            if not has_room or is_begun or not self._ranks.is_whole:
                raise
        self.forget()
        yield from events()

    def _makes_room(self, error: Exception) -> bool:
        """Free what a failure for want of memory leaves to be freed; whether it is worth another try.

        cuBLAS, which says so too, could not start while memory was cached; a sentence-embedding model can wait."""
        if not is_out_of_memory(error):
            return False
        if self._sentences.leave_card():
            log.warning("memory ran out, so the sentence-embedding model leaves the card: %s", error)
        elif is_uninitialised(error):
            log.warning("cuBLAS could not start, so it is tried once more: %s", error)
        else:
            return False
        clear_frames(error.__traceback__)
        release_memory()
        return True

    def _load(self, folders: tuple[ModelFolder, ...], choice: ModelChoice, progress: Progress) -> LoadedModel:
        folder, *drafts = folders
        progress(f"Loading {folder.name}", 0, LOADED)
        self._drop()
        restart_peak()
        here = self._ranks.begin(choice)
        self._device = here.device
        with self._ranks.explaining_errors():
            if here.offload:
                read = load_in_part(folder, drafts, here, self._sandbox, self._estimate, progress)
            else:
                read = self._ranks.load(folder, here, self._sandbox, self._unpacked)
            for draft in drafts:
                read = with_draft_model(read, draft, here, self._sandbox, self._unpacked)
            loaded = measured(read, self._cache, progress, ranks=self._ranks.size)
            self._loaded = self._ranks.join(loaded, folder, here, self._unpacked)
        progress(f"Loading {folder.name}", LOADED, LOADED)
        tokenizer = RequestTokenizer(self._loaded, self._fill)
        self._tokenizer, self.reader = (choice, tokenizer), tokenizer.reader()
        self._folders, self._choice = folders, choice
        self._idle_asking = IdleAsking(self._loaded, self._cache)
        return self._loaded

    def _return_to(
        self, folders: tuple[ModelFolder, ...], choice: ModelChoice | None, progress: Progress
    ) -> None:
        """Have the model again that made room for one that failed, if that can be."""
        if not folders or choice is None or self._loaded:
            return
        try:
            self._load(folders, choice, progress)
        except Exception:
            self._drop()
            log.warning("%s could not be loaded again", folders[0].name, exc_info=True)

    def _drop(self) -> None:
        """Give the old model's memory back before the next one takes its own."""
        self._loaded = self._choice = self._idle_asking = self._tokenizer = None
        self._folders = ()
        self.reader = CachedTokenReader()
        release_memory()
