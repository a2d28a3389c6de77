"""Keeps one model loaded and answers requests: loads the model if needed, tokenises the request, yields events."""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from traceback import clear_frames

import torch
import transformers

from app.engine.embedding.embedder import SentenceModels
from app.engine.embedding.job import EmbeddingJob
from app.engine.loading.draft_loading import with_draft_model
from app.engine.loading.loading import LoadedModel, load
from app.engine.loading.model_measurements import IdleMeasurement, keep, measured
from app.engine.loading.offloading import check_can_offload, load_in_part
from app.engine.loading.parts import LOADED, no_progress
from app.engine.machine.device_options import ALONE, Estimate, RankPlan, no_estimate
from app.engine.machine.process_memory import (
    is_out_of_memory,
    is_uninitialised,
    peak_bytes,
    release_memory,
    restart_peak,
)
from app.engine.measuring.measurement_cache import MeasurementCache
from app.engine.parallel.group import Ranks
from app.engine.sampling.sampling import likeliest
from app.engine.session.reply_events import never_stop, reply_events
from app.engine.text.prompt import Fill, RequestTokenizer, RequestTokens
from app.engine.text.sandbox import Sandbox, fill_here
from app.engine.text.token_counter import CachedTokenReader
from app.errors import BadOption, EngineClosed, LoadCancelled
from app.values.draft_heads import head_sizes, is_draft_head, refuse_draft_head
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
from app.values.reply_statistics import Margin

log = logging.getLogger(__name__)


def request_tokenizer(loaded: LoadedModel, fill: Fill = fill_here) -> RequestTokenizer:
    """Make a tokenizer of requests for other threads, from a copy of the model's. Must be called by the thread that
    uses the model."""
    own = deepcopy(loaded.tokenizer)
    own("")  # switches off truncation and padding, which its file may have set
    info = loaded.info
    return RequestTokenizer(own, info.context, fill, info.name, loaded.vocabulary, info.chat_format)


class Session:
    """Keeps one model loaded, and at most one sentence-embedding model, and answers requests one at a time."""

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
        """Begin without a model. `taken` is the memory in bytes that the process took before the engine began.
        Without a sandbox, models are trusted.

        `device`, and later the newest model's device, decides where texts are embedded: on the CPU if it is "cpu",
        else on a CUDA device, if one works."""
        # transformers' progress bars and warnings are for programmers; users see our events instead.
        transformers.logging.set_verbosity_error()  # type: ignore[no-untyped-call]
        transformers.logging.disable_progress_bar()  # type: ignore[no-untyped-call]
        self._locate = locate
        self._sandbox = sandbox
        self._fill = sandbox.fill if sandbox else fill_here
        self._cache = MeasurementCache(cache_dir)
        self._unpacked = cache_dir / "gguf" if cache_dir else None
        self._taken = taken
        self._plan, self._estimate = plan, estimate
        self._ranks = Ranks(plan)
        self._sentences = sentences or SentenceModels(sandbox)
        self._device: Device = "cpu" if "cpu" in plan.devices else device
        self._folders: tuple[ModelFolder, ...] = ()  # of the loaded model and of its draft model
        self._choice: ModelChoice | None = None
        self._loaded: LoadedModel | None = None
        self._idle_measurement: IdleMeasurement | None = None
        self._tokenizer: tuple[ModelChoice, RequestTokenizer] | None = None
        self.reader = CachedTokenReader()
        """The reader of the loaded model's tokens, for any thread."""

    @property
    def info(self) -> ModelInfo | None:
        return self._loaded.current_info if self._loaded else None

    def open(self, choice: ModelChoice, progress: Progress) -> LoadedModel:
        """Load the chosen model unless it is loaded already. Return it.

        If the model is not found, the old model stays. If the new model cannot be loaded, the old model is loaded
        again, but not after LoadCancelled or EngineClosed. Raises the error in all these cases."""
        if self._loaded and choice == self._choice and self._ranks.is_whole:
            return self._loaded
        folders = self._located(choice, progress)
        earlier, earlier_choice = self._folders, self._choice
        try:
            try:
                return self._load(folders, choice, progress)
            except Exception as error:
                if not self._makes_room(error):
                    raise
            return self._load(folders, choice, progress)
        except EngineClosed:
            raise
        except Exception as error:
            if error.__traceback__:
                clear_frames(error.__traceback__)  # the frames refer to the weights that were read so far
            if not isinstance(error, LoadCancelled):
                self._return_to(earlier, earlier_choice, progress)
            elif not self._loaded:
                self._drop()
            raise

    @property
    def peak(self) -> int:
        """The maximum number of bytes that the loaded model has taken on its device; 0 if unknown."""
        if self._loaded is None:
            return 0
        device = torch.device(self._loaded.info.device)
        if device.type == "cuda":
            return int(torch.cuda.max_memory_reserved(device))
        return max(0, peak_bytes() - self._taken)

    def close(self) -> None:
        """Unload the models and give their memory back."""
        self._sentences.close()
        self._drop()
        self._ranks.close()

    def forget(self) -> None:
        """Drop everything that was kept of earlier prompts, in the runner, the n-gram pool and the draft models."""
        if self._loaded:
            self._loaded.runner.forget()
            self._loaded.statistics.forget()
            for source in self._loaded.draft_models:
                source.model.forget()

    def tokenizer_for(self, choice: ModelChoice) -> RequestTokenizer | None:
        """Return the tokenizer of requests to this model, for any thread; None if the model is not loaded."""
        known = self._tokenizer
        return known[1] if known and known[0] == choice else None

    def events(
        self,
        request: Request,
        progress: Progress = no_progress,
        is_stopping: Callable[[], bool] = never_stop,
        tokens: RequestTokens | None = None,
    ) -> Iterator[Event]:
        """Open the request's model and yield the reply's events, the last of which is Finished. Raises all errors.

        The reply ends early when `is_stopping` returns True. `tokens` are used if the loaded model's tokenizer made
        them."""
        if request.logits.grammar and self._sandbox:
            self._sandbox.check_grammar(request.logits.grammar)
        loaded = self.open(request.model, progress)
        if request.is_cold:
            self.forget()
        known = self._tokens(request, tokens)

        def events() -> Iterator[Event]:
            return reply_events(loaded, request, known, is_stopping, self.reader.spelled)

        with self._forgetting_on_error():
            yield from self._written_or_begun_again(events)
        keep(loaded, self._cache)

    def embed(self, job: EmbeddingJob) -> None:
        """Embed the next piece of a job's texts, on the device that `__init__` describes."""
        device: Device = "cpu" if self._device == "cpu" else "auto"
        job.add(self._sentences.embed(job.model, job.piece(), job.on_tokens, device))

    def ask_more(self) -> float:
        """Continue the IdleMeasurement of the loaded model by one block; return the seconds it took, or 0."""
        return self._idle_measurement.ask() if self._idle_measurement else 0.0

    def margin(
        self, request: Request, written: Sequence[int], progress: Progress
    ) -> Iterator[Prefilling | Margin]:
        """Read the prompt and a reply's first tokens, yielding progress, then the Margin of the two likeliest
        tokens. This prefill is not counted in the statistics, and its logits may be rounded differently from a
        step's."""
        loaded = self.open(request.model, progress)
        ids = self._tokens(request).followed_by(written)
        with self._forgetting_on_error():
            logits = yield from loaded.runner.prefill(ids)
            tokens, values = likeliest(logits[None], 2)
        first, second = self.reader.texts(tokens[0].tolist())
        yield Margin(first, second, float(values[0, 0] - values[0, 1]))

    def _tokens(self, request: Request, known: RequestTokens | None = None) -> RequestTokens:
        """Return the known tokens if the loaded model's tokenizer made them, else make them."""
        tokenizer = self.tokenizer_for(request.model)
        assert tokenizer
        return known if known and known.made_by is tokenizer else tokenizer.tokens(request)

    @contextmanager
    def _forgetting_on_error(self) -> Iterator[None]:
        """Forget earlier prompts if the model fails, because the cache may contain half of a step. After a
        BadOption, such as that of a wrong grammar, nothing was committed."""
        try:
            yield
        except BadOption:
            raise
        except Exception:
            self.forget()
            raise

    def _located(self, choice: ModelChoice, progress: Progress) -> tuple[ModelFolder, ...]:
        """Return the folder of the model, then of its draft model. Raises AppError if one is missing or cannot
        be used."""
        names = (choice.name, choice.draft_model) if choice.draft_model else (choice.name,)
        folders = tuple(self._locate(name, progress) for name in names)
        refuse_draft_head(folders[0])
        if choice.offload:
            check_can_offload(folders[0], choice, self._plan)
        for draft in folders[1:]:
            if is_draft_head(draft.path):
                head_sizes(draft.path, draft.name)  # an invalid config is refused before anything is loaded
        return folders

    def _written_or_begun_again(self, events: Callable[[], Iterator[Event]]) -> Iterator[Event]:
        """Yield a reply's events. If memory runs out before the first piece, free memory and begin again once."""
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
        """Free memory after it ran out, and return whether to try again. Another try makes sense if the
        sentence-embedding model could leave the GPU, or if cuBLAS could not start."""
        if not is_out_of_memory(error):
            return False
        if self._sentences.leave_gpu():
            log.warning("memory ran out, so the sentence-embedding model leaves the GPU: %s", error)
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
        if here.offload:
            read = load_in_part(folder, drafts, here, self._sandbox, self._estimate, progress)
        else:
            read = load(folder, here, self._sandbox, self._unpacked, progress=progress)
        for draft in drafts:
            read = with_draft_model(read, draft, here, self._sandbox, self._unpacked, progress)
        loaded = measured(read, self._cache, progress, ranks=self._ranks.size)
        progress(f"Loading {folder.name}", LOADED, LOADED)
        self._loaded = self._ranks.join(
            loaded, folder, replace(here, quantisation=loaded.info.quantisation), self._unpacked
        )
        tokenizer = request_tokenizer(self._loaded, self._fill)
        self._tokenizer, self.reader = (choice, tokenizer), tokenizer.reader()
        self._folders, self._choice = folders, choice
        self._idle_measurement = IdleMeasurement(self._loaded, self._cache)
        return self._loaded

    def _return_to(
        self, folders: tuple[ModelFolder, ...], choice: ModelChoice | None, progress: Progress
    ) -> None:
        """Load the earlier model again, unless a model is loaded. If that fails, log a warning."""
        if not folders or choice is None or self._loaded:
            return
        try:
            self._load(folders, choice, progress)
        except Exception:
            self._drop()
            log.warning("%s could not be loaded again", folders[0].name, exc_info=True)

    def _drop(self) -> None:
        self._loaded = self._choice = self._idle_measurement = self._tokenizer = None
        self._folders = ()
        self.reader = CachedTokenReader()
        release_memory()
