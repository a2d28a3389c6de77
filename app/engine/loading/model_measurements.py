"""Measures a model when it is loaded: the times of its steps, and the likeliest next tokens (successors) after each
single token.

Both are cached for this model on this machine. Each load measures successors for about 1.5 seconds. The rest is
measured while the model is idle, block by block, so that a new request waits for one block at most."""

import logging
from base64 import b64decode, b64encode
from collections.abc import Callable
from ctypes import PyDLL
from dataclasses import asdict, replace
from functools import partial
from itertools import chain
from math import inf
from time import perf_counter
from typing import Any
from zlib import compress, decompress
from zlib import error as zlib_error

import numpy as np
from transformers import PreTrainedTokenizerBase

from app.engine.block.context_entries import SUCCESSORS, SUCCESSORS_LAYOUT, Packed
from app.engine.block.step_profile import Buckets, StepProfile
from app.engine.drafters.draft_model_chances import LearnedWeights
from app.engine.drafters.mixed_tree import DraftModelSource, DraftModelStatistics
from app.engine.loading.loading import LoadedModel
from app.engine.loading.parts import LOADED, PREPARED, STEPS, part_of_load
from app.engine.lookahead.acceptance_estimator import CELLS_LAYOUT, NUM_CELLS, Counts
from app.engine.lookahead.model_statistics import (
    ROWS,
    ModelStatistics,
    measure_first_successors,
    no_successors,
    num_measured,
)
from app.engine.lookahead.native_drafter import best_drafter, compiled_drafter
from app.engine.lookahead.step_time_curve import CurveShape
from app.engine.machine.compiling import Compiled
from app.engine.machine.hardware import is_exact
from app.engine.measuring.measurement_cache import CacheKey, MeasurementCache, cache_key_of
from app.engine.measuring.step_timing import MeasuredRunner, profile_steps
from app.engine.runner.runner import BlockRunner
from app.values.dataclass_json import read
from app.values.messages import Progress

log = logging.getLogger(__name__)

SECONDS = 60.0
"""Seconds of idle measurement after each load; the block that exceeds them is the last."""
BLOCK_SECONDS = 0.1
"""A block should take less than this many seconds. If even one row takes longer, nothing is measured while idle."""
SECONDS_UNSAVED = 10.0
"""After this many seconds of idle measurement, the results are saved."""


def measured(
    loaded: LoadedModel,
    cache: MeasurementCache,
    progress: Progress,
    find_drafter: Callable[[], Compiled[PyDLL]] = compiled_drafter,
    ranks: int = 1,
) -> LoadedModel:
    """Return the model with its step profile and statistics, from the cache or measured and then cached.

    A model that only decodes plainly is returned unchanged. The profile is that of this process alone;
    statistics from replies are cached separately for each number of ranks (processes that share each step)."""
    runner = loaded.runner
    if not loaded.can_draft or not isinstance(runner, MeasuredRunner):
        return loaded
    cache_key = cache_key_of(runner.model, loaded.current_info)
    profile = cache.read("step", cache_key, partial(read, StepProfile), StepProfile())
    if not profile:
        profile = profile_steps(runner, part_of_load(progress, "Measuring the model's step", PREPARED, STEPS))
        if profile.is_whole or loaded.info.offloaded:  # an offloaded model is no faster at the next load
            cache.write("step", cache_key, asdict(profile))
    is_same_text = is_exact(runner.model) or bool(profile.bucket_sets)
    drafter, largest = find_drafter(), profile.free.buckets[-1]
    info = replace(loaded.info, same_text=is_same_text).with_note("same-text", profile.note)
    info = info.with_note("compiler", info.note("compiler") or drafter.note)
    make_drafter = best_drafter(drafter)
    learned = cache_key if ranks == 1 else {**cache_key, "ranks": str(ranks)}
    for source in loaded.draft_models:
        subject = _of_draft_model(learned, source)
        source.recall(cache.read("draft-model", subject, _to_draft_statistics, source.statistics))
        make_drafter = source.drafters(make_drafter)
    first = _first_successors(loaded, runner, cache, cache_key, progress, largest)
    statistics = ModelStatistics(
        runner.vocabulary,
        loaded.info.parameters,
        first,
        special=frozenset(loaded.tokenizer.all_special_ids) | loaded.eos_ids,
        counts=cache.read("chances", learned, _to_counts, dict[int, Counts]()),
        shapes=cache.read("curves", learned, _to_shapes, dict[Buckets, CurveShape]()),
        make_drafter=make_drafter,
    )
    return replace(loaded, profile=profile, cache_key=learned, info=info, statistics=statistics)


def keep(loaded: LoadedModel, cache: MeasurementCache) -> None:
    """Write acceptance counts, step curves and statistics about draft models to the cache; they contain no text."""
    if not loaded.cache_key:
        return
    known = loaded.statistics
    counts = {kind: list(cells.items()) for kind, cells in known.counts.items()}
    cache.write("chances", loaded.cache_key, {"layout": CELLS_LAYOUT, "counts": counts})
    shapes = [[padded, shape.plain, shape.drafted] for padded, shape in known.shapes.items()]
    if shapes:
        cache.write("curves", loaded.cache_key, shapes)
    for source in loaded.draft_models:
        cache.write("draft-model", _of_draft_model(loaded.cache_key, source), asdict(source.statistics))


def _of_draft_model(cache_key: CacheKey, source: DraftModelSource) -> CacheKey:
    """Return the key under which the statistics about a draft model are cached.

    The key needs no version of the format, because LearnedWeights refuses another number of weights."""
    return cache_key | {"draft model": source.model.name}


def _first_successors(
    loaded: LoadedModel,
    runner: MeasuredRunner,
    cache: MeasurementCache,
    cache_key: CacheKey,
    progress: Progress,
    largest: int,
) -> Packed:
    vocabulary = runner.vocabulary
    decode = partial(_to_packed, vocabulary=vocabulary)
    first = cache.read("successors", cache_key, decode, no_successors(vocabulary))
    if num_measured(first) < vocabulary:
        start = first_token_of_texts(loaded.tokenizer, vocabulary)
        listen = part_of_load(progress, "Measuring which tokens are likely after each token", STEPS, LOADED)
        first = measure_first_successors(runner, first, start, listen, min(ROWS, largest))
        keep_first(first, cache, cache_key)
    return first


def keep_first(first: Packed, cache: MeasurementCache, cache_key: CacheKey) -> None:
    """Write the successors of single tokens to the cache."""
    packed = b64encode(compress(first.tobytes())).decode()
    cache.write("successors", cache_key, {"layout": SUCCESSORS_LAYOUT, "packed": packed})


def first_token_of_texts(tokenizer: PreTrainedTokenizerBase, vocabulary: int) -> int:
    """Return the token that the tokenizer puts before every text, else the token of a line break, else 0.

    A BOS token that the tokenizer does not put there is not used: a chat model may expect a role after BOS."""
    line_break = tokenizer.encode("\n")
    bos = tokenizer.bos_token_id
    start = bos if bos is not None and bos in line_break[:1] else line_break[-1] if line_break else 0
    return start if start < vocabulary else 0


def _to_packed(note: dict[str, Any], vocabulary: int) -> Packed:
    _check_layout(note, SUCCESSORS_LAYOUT)
    try:
        numbers = np.frombuffer(decompress(b64decode(note["packed"])), dtype=np.int32)
    except zlib_error as broken:
        raise ValueError(f"successors that cannot be unpacked: {broken}") from broken
    return numbers.reshape(vocabulary, SUCCESSORS)


def _check_layout(note: dict[str, Any], layout: str) -> None:
    if note["layout"] != layout:
        raise ValueError("it has the layout of another version")


def _to_counts(note: dict[str, Any]) -> dict[int, Counts]:
    _check_layout(note, CELLS_LAYOUT)
    counts = {
        int(kind): {cell: (float(right), float(tried)) for cell, (right, tried) in cells}
        for kind, cells in note["counts"].items()
    }
    for cell, (right, tried) in chain.from_iterable(cells.items() for cells in counts.values()):
        if not (0 <= cell < NUM_CELLS and 0 <= right <= tried < inf):
            raise ValueError(f"cell {cell} of {NUM_CELLS} cannot have {right} right guesses of {tried}")
    return counts


def _to_draft_statistics(note: dict[str, Any]) -> DraftModelStatistics:
    weights = {
        int(kind): LearnedWeights(tuple(map(float, one["weights"])), tuple(map(float, one["squares"])))
        for kind, one in note["weights"].items()
    }
    return DraftModelStatistics(float(note["gain"]), weights)


def _to_shapes(note: list[Any]) -> dict[Buckets, CurveShape]:
    return {
        tuple(map(int, padded)): CurveShape(float(plain), tuple(map(float, drafted)))
        for padded, plain, drafted in note
    }


class IdleMeasurement:
    """Measures, while the model is idle, the successors that were not measured at load."""

    def __init__(
        self, loaded: LoadedModel, cache: MeasurementCache, clock: Callable[[], float] = perf_counter
    ) -> None:
        self._loaded, self._cache, self._clock = loaded, cache, clock
        pairs = zip(loaded.profile.free.buckets, loaded.profile.free.seconds, strict=True)
        self._rows = max((rows for rows, took in pairs if rows <= ROWS and took < BLOCK_SECONDS), default=0)
        is_possible = isinstance(loaded.runner, BlockRunner) and not loaded.info.devices
        self._left = SECONDS if self._rows and is_possible else 0.0
        self._unsaved = 0.0

    @property
    def is_done(self) -> bool:
        """Whether the successors of all tokens are known, or the time is used up."""
        first = self._loaded.statistics.first
        return self._left <= 0 or num_measured(first) == len(first)

    def ask(self) -> float:
        """Measure the successors of one block of tokens; return the seconds that this took, 0 if nothing was
        measured.

        An error is logged and ends the measurement. Saves successors after SECONDS_UNSAVED and at the end."""
        runner, known = self._loaded.runner, self._loaded.statistics.first
        if self.is_done or not isinstance(runner, BlockRunner):
            return 0.0
        began = self._clock()
        try:
            start = first_token_of_texts(self._loaded.tokenizer, len(known))
            self._loaded.statistics.learn_first(
                measure_first_successors(
                    runner.with_small_cache(), known, start, lambda *_: None, self._rows, seconds=0
                )
            )
        except Exception:
            log.warning("the measurement of first successors has ended", exc_info=True)
            self._left = 0.0
            return 0.0
        took = self._clock() - began
        self._left -= took
        self._unsaved += took
        if self.is_done or self._unsaved > SECONDS_UNSAVED:
            keep_first(self._loaded.statistics.first, self._cache, self._loaded.cache_key)
            self._unsaved = 0.0
        return took
