"""The one loaded model, and what happens to a request: ids, then text, then events."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from traceback import clear_frames
from typing import Protocol

import torch
import transformers

from app.engine.control_tokens import ControlTokens
from app.engine.decoders import generate, make_decoder
from app.engine.loading import LoadedModel, load
from app.engine.logits_processing import Texts
from app.engine.lookahead.constraint import Constraint
from app.engine.lookahead.factory import ReplyContext
from app.engine.measurement_cache import open_cache
from app.engine.measuring import LOADED, keep, measured
from app.engine.memory import is_uninitialised, peak_bytes, release_memory, restart_peak
from app.engine.parallel.group import Ranks
from app.engine.parallel.plan import ALONE, RankPlan
from app.engine.prompt import begun, encode, make_reader
from app.engine.reader import CachedTokenReader
from app.engine.reply_sampler import make_reply_sampler
from app.engine.sampling import likeliest
from app.engine.sandbox import Sandbox, fill_here
from app.engine.step import FirstToken, StatisticsMeter, Step
from app.engine.step_profile import choose_buckets
from app.engine.stopping import StoppingCriteria
from app.engine.text import Decode, ReplyText
from app.errors import EngineClosed
from app.messages import (
    Decoding,
    Event,
    Finished,
    Locate,
    ModelChoice,
    ModelFolder,
    ModelInfo,
    Options,
    Origin,
    Piece,
    Prefilling,
    Progress,
    Request,
    Statistics,
    StopReason,
)
from app.step_trace import NO_TRACE, Margin, StepTrace

log = logging.getLogger(__name__)


class StopSignal(Protocol):
    """Checked after every step of a request."""

    @property
    def is_stopping(self) -> bool:
        """Whether the person asked to stop."""


class NeverStop:
    """Never stops a reply."""

    is_stopping = False


def no_progress(_what: str, _done: int, _total: int) -> None:
    """Ignores progress."""


class Session:
    """Keeps one model loaded and answers requests, one at a time."""

    def __init__(
        self,
        locate: Locate,
        cache_dir: Path | None = None,
        taken: int = 0,
        sandbox: Sandbox | None = None,
        plan: RankPlan = ALONE,
    ) -> None:
        """`taken` are bytes that the process took before there was an engine; no sandbox: models are trusted."""
        # Its bars and warnings are for programmers; what a person must know comes as events.
        transformers.logging.set_verbosity_error()  # type: ignore[no-untyped-call]
        transformers.logging.disable_progress_bar()  # type: ignore[no-untyped-call]
        self._locate = locate
        self._sandbox = sandbox
        self._fill = sandbox.fill if sandbox else fill_here
        self._cache = open_cache(cache_dir)
        self._unpacked = cache_dir / "gguf" if cache_dir else None
        self._taken = taken
        self._ranks = Ranks(plan)
        self._folder: ModelFolder | None = None
        self._choice: ModelChoice | None = None
        self._loaded: LoadedModel | None = None
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
        folder = self._locate(choice.name, progress)
        before = self._folder, self._choice
        try:
            return self._load_or_retry(folder, choice, progress)
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
        """Let go of the model and give its memory back."""
        self._drop()
        self._ranks.close()

    def forget(self) -> None:
        """Drop what runner and pool know of earlier prompts."""
        if self._loaded:
            self._loaded.runner.forget()
            self._loaded.statistics.forget()

    def events(self, request: Request, progress: Progress, stop: StopSignal) -> Iterator[Event]:
        """Everything that happens to a request behind loading; ends with Finished, or raises."""
        loaded = self.open(request.model, progress)
        if request.is_cold:
            self.forget()
        prompt = loaded.within_vocabulary(self._encode(loaded, request))
        with self._forgetting_on_error():
            yield from _reply(loaded, request, prompt, stop, self.reader.texts)
        keep(loaded, self._cache)

    def margin(
        self, request: Request, written: Sequence[int], progress: Progress
    ) -> Iterator[Prefilling | Margin]:
        """Reads the prompt and a reply's first tokens, and ends with what the model holds likeliest behind them.

        The prefill counts in no statistics; its logits may round differently from a step's."""
        loaded = self.open(request.model, progress)
        prompt = self._encode(loaded, request)
        ids = loaded.within_vocabulary([*prompt, *written])
        with self._forgetting_on_error():
            logits = yield from loaded.runner.prefill(ids)
            tokens, values = likeliest(logits[None], 2)
        first, second = self.reader.texts(tokens[0].tolist())
        yield Margin(first, second, float(values[0, 0] - values[0, 1]))

    def _encode(self, loaded: LoadedModel, request: Request) -> list[int]:
        return encode(loaded.tokenizer, request.prompt, loaded.info.context, self._fill, request.tools)

    @contextmanager
    def _forgetting_on_error(self) -> Iterator[None]:
        """Forget the cache when the model fails: it may hold half of a step."""
        try:
            yield
        except Exception:
            self.forget()
            raise

    def _load_or_retry(self, folder: ModelFolder, choice: ModelChoice, progress: Progress) -> LoadedModel:
        """Where cuBLAS could not start, which it says for want of memory, once more with all memory freed."""
        try:
            return self._load(folder, choice, progress)
        except Exception as error:
            if not is_uninitialised(error):
                raise
            log.warning("cuBLAS could not start, so the model is loaded once more: %s", error)
            clear_frames(error.__traceback__)
        return self._load(folder, choice, progress)

    def _load(self, folder: ModelFolder, choice: ModelChoice, progress: Progress) -> LoadedModel:
        progress(f"Loading {folder.name}", 0, LOADED)
        self._drop()
        restart_peak()
        here = self._ranks.begin(choice)
        read = load(folder, here, self._sandbox, self._unpacked)
        loaded = measured(read, self._cache, progress, ranks=self._ranks.size)
        self._loaded = self._ranks.join(loaded, folder, here, self._unpacked)
        progress(f"Loading {folder.name}", LOADED, LOADED)
        self.reader = make_reader(self._loaded.tokenizer, self._loaded.info.context, self._fill)
        self._folder, self._choice = folder, choice
        return self._loaded

    def _return_to(self, folder: ModelFolder | None, choice: ModelChoice | None, progress: Progress) -> None:
        """Have the model again that made room for one that failed, if that can be."""
        if folder is None or choice is None or self._loaded:
            return
        try:
            self._load(folder, choice, progress)
        except Exception:
            self._drop()
            log.warning("%s could not be loaded again", folder.name, exc_info=True)

    def _drop(self) -> None:
        """Give the old model's memory back before the next one takes its own."""
        self._loaded = self._choice = self._folder = None
        self.reader = CachedTokenReader()
        release_memory()


def _reply(
    loaded: LoadedModel, request: Request, prompt: list[int], stop: StopSignal, texts: Texts
) -> Iterator[Event]:
    """Reading the prompt, then the reply as it is written, then its end."""
    decoding = _supported(request.options.decoding, loaded)
    loaded.runner.same_text_buckets = choose_buckets(loaded.profile) if decoding.same_text else ()
    before = begun(loaded.tokenizer, request.prompt)
    decode = loaded.decode_with(request.control)
    stopper = _make_stopper(loaded, request.options, len(prompt), before, decode)
    text = ReplyText(decode, request.options.stop, before)
    meter = StatisticsMeter(len(prompt))
    reason: StopReason | None = None
    sampler = make_reply_sampler(loaded, request, len(prompt), before, texts)
    decoder = make_decoder(decoding, _reply_context(loaded, request, sampler.constraint))
    for item in generate(loaded.runner, prompt, decoder, sampler.sample, stopper):
        match item:
            case Prefilling():
                yield item
            case FirstToken(token, _, reason):
                piece = _piece(text, (token,), ("model",), meter.first_token(item), NO_TRACE)
                yield sampler.with_logprobs(piece)
            case Step(tokens, origins):
                reason = item.reason
                yield sampler.with_logprobs(_piece(text, tokens, origins, meter.add(item), item.trace))
        if stop.is_stopping:
            break
    if rest := text.flush():
        yield Piece(rest, (), (), meter.statistics)
    yield Finished(reason or "stopped", meter.statistics, loaded.current_info, decoding.decoder)


def _piece(
    text: ReplyText,
    tokens: tuple[int, ...],
    origins: tuple[Origin, ...],
    statistics: Statistics,
    trace: StepTrace,
) -> Piece:
    texts = text.push(tokens)
    ends = tuple(accumulate(map(len, texts)))
    return Piece("".join(texts), tokens, origins, statistics, ends, trace)


def _supported(decoding: Decoding, loaded: LoadedModel) -> Decoding:
    return decoding if loaded.can_draft else replace(decoding, decoder="plain")


def _reply_context(loaded: LoadedModel, request: Request, constraint: Constraint) -> ReplyContext:
    *documents, prediction = (
        _drafted_tokens(loaded, text) for text in (*request.documents, request.prediction)
    )
    sampling, texts = request.options.sampling, (tuple(documents), prediction)
    return ReplyContext(loaded.statistics, loaded.profile, sampling, *texts, constraint)


def _drafted_tokens(loaded: LoadedModel, text: str) -> tuple[int, ...]:
    """A text to draft from, without tokens that the model cannot read: what is drafted is fed to it."""
    written = ControlTokens(loaded.tokenizer).written(text) if text else ()
    return tuple(token for token in written if token < loaded.vocabulary)


def _make_stopper(
    loaded: LoadedModel, options: Options, prompt_tokens: int, before: Sequence[int], decode: Decode
) -> StoppingCriteria:
    return StoppingCriteria(
        eos_ids=frozenset() if options.ignore_eos else loaded.eos_ids,
        max_new_tokens=options.max_new_tokens,
        room=loaded.info.context - prompt_tokens,
        stops=options.stop,
        decode=decode,
        before=before,
    )
