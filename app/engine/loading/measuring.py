"""What is measured when a model is loaded: what its steps cost, and its successors of each token alone.

Both are cached for this model on this machine, so that only the first load takes these seconds.
"""

from base64 import b64decode, b64encode
from collections.abc import Callable
from ctypes import PyDLL
from dataclasses import asdict, replace
from math import inf
from typing import Any
from zlib import compress, decompress
from zlib import error as zlib_error

import numpy as np
from transformers import PreTrainedTokenizerBase

from app.engine.block.entries import SUCCESSORS, SUCCESSORS_LAYOUT, Packed
from app.engine.block.step_profile import Buckets, StepProfile, StepTimes
from app.engine.drafters.draft_model_chances import LearnedWeights
from app.engine.drafters.model_drafter import DraftModelSource, Lessons
from app.engine.loading.loading import LoadedModel
from app.engine.lookahead.acceptance_estimator import CELLS_LAYOUT, NUM_CELLS, Counts
from app.engine.lookahead.drafter import MakeDrafter
from app.engine.lookahead.model_statistics import (
    ROWS,
    ModelStatistics,
    ask_first_successors,
    no_successors,
    num_asked,
)
from app.engine.lookahead.native_drafter import best_drafter, compiled_drafter
from app.engine.lookahead.step_curve import CurveShape
from app.engine.machine.compiling import Compiled
from app.engine.measuring.measurement_cache import CacheKey, MeasurementCache, cache_key_of
from app.engine.measuring.profiling import MeasuredRunner, ProgressListener, profile_steps
from app.values.messages import Progress

WEIGHTS, STEPS, LOADED = 40, 70, 100
"""Percent of a load that is done once the weights are read, the steps measured, and the successors known."""
NOTHING_COUNTED: dict[int, Counts] = {}
NO_SHAPES: dict[Buckets, CurveShape] = {}
NOTHING_SAID = no_successors(0)


def measured(
    loaded: LoadedModel,
    cache: MeasurementCache,
    progress: Progress,
    find_drafter: Callable[[], Compiled[PyDLL]] = compiled_drafter,
    ranks: int = 1,
) -> LoadedModel:
    """The model with its step profile and its statistics, from the cache or measured now.

    The profile is that of this process alone; what replies teach is kept apart for each number of ranks."""
    runner = loaded.runner
    if not loaded.can_draft or not isinstance(runner, MeasuredRunner):
        return loaded
    cache_key = cache_key_of(runner.model, loaded.current_info)
    profile = cache.read("step", cache_key, _to_profile, StepProfile())
    if not profile:
        profile = profile_steps(runner, part_of_load(progress, "Measuring the model's step", WEIGHTS, STEPS))
        if profile.is_whole or loaded.info.offloaded:  # whose steps take as long at the next load
            cache.write("step", cache_key, asdict(profile))
    is_same_text = runner.model.dtype.itemsize >= 4 or bool(profile.bucket_sets)
    drafter, largest = find_drafter(), profile.free.buckets[-1]
    info = replace(
        loaded.info,
        same_text=is_same_text,
        same_text_note=profile.note,
        compiler_note=loaded.info.compiler_note or drafter.note,
    )
    make_drafter = best_drafter(drafter)
    learned = cache_key if ranks == 1 else {**cache_key, "ranks": str(ranks)}
    for source in loaded.draft_models:
        subject = _of_draft_model(learned, source)
        source.recall(cache.read("draft-model", subject, _to_lessons, source.lessons))
        make_drafter = source.drafters(make_drafter)
    first = _first_successors(loaded, runner, cache, cache_key, progress, largest)
    statistics = _experience(loaded, runner, cache, learned, first, make_drafter)
    return replace(loaded, profile=profile, cache_key=learned, info=info, statistics=statistics)


def part_of_load(progress: Progress, what: str, begin: int, end: int) -> ProgressListener:
    """Reports one part of a load as percents of the whole, from `begin` to `end`. It never goes back."""
    furthest = begin

    def listen(done: int, total: int) -> None:
        nonlocal furthest
        furthest = max(furthest, begin + (end - begin) * done // max(total, 1))
        progress(what, furthest, LOADED)

    return listen


def keep(loaded: LoadedModel, cache: MeasurementCache) -> None:
    """Cache acceptance counts and step curves, which hold nothing of what was written."""
    if not loaded.cache_key:
        return
    known = loaded.statistics
    counts = {kind: list(cells.items()) for kind, cells in known.counts.items()}
    cache.write("chances", loaded.cache_key, {"layout": CELLS_LAYOUT, "counts": counts})
    shapes = [[padded, shape.plain, shape.drafted] for padded, shape in known.shapes.items()]
    if shapes:
        cache.write("curves", loaded.cache_key, shapes)
    for source in loaded.draft_models:
        cache.write("draft-model", _of_draft_model(loaded.cache_key, source), asdict(source.lessons))


def _of_draft_model(cache_key: CacheKey, source: DraftModelSource) -> CacheKey:
    """What lessons about a draft model go by; weights of another layout are refused by their number."""
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
    first = cache.read("successors", cache_key, _to_packed, NOTHING_SAID)
    if len(first) != vocabulary:
        first = no_successors(vocabulary)
    if num_asked(first) < vocabulary:
        start = first_token_of_texts(loaded.tokenizer, vocabulary)
        look = part_of_load(progress, "Asking the model for each token's successors", STEPS, LOADED)
        first = ask_first_successors(runner, first, start, look, min(ROWS, largest))
        keep_first(first, cache, cache_key)
    return first


def keep_first(first: Packed, cache: MeasurementCache, cache_key: CacheKey) -> None:
    """Cache first successors."""
    packed = b64encode(compress(first.tobytes())).decode()
    cache.write("successors", cache_key, {"layout": SUCCESSORS_LAYOUT, "packed": packed})


def _experience(
    loaded: LoadedModel,
    runner: MeasuredRunner,
    cache: MeasurementCache,
    cache_key: CacheKey,
    first: Packed,
    make_drafter: MakeDrafter,
) -> ModelStatistics:
    return ModelStatistics(
        runner.vocabulary,
        loaded.info.parameters,
        first,
        special=frozenset(loaded.tokenizer.all_special_ids) | loaded.eos_ids,
        counts=cache.read("chances", cache_key, _to_counts, NOTHING_COUNTED),
        shapes=cache.read("curves", cache_key, _to_shapes, NO_SHAPES),
        make_drafter=make_drafter,
    )


def first_token_of_texts(tokenizer: PreTrainedTokenizerBase, vocabulary: int) -> int:
    """What the tokenizer puts before every text; where that is nothing, a line break.

    A chat model's BOS token may begin a message instead, behind which it expects a role rather than a text."""
    line_break = tokenizer.encode("\n")
    bos = tokenizer.bos_token_id
    start = bos if bos is not None and bos in line_break[:1] else line_break[-1] if line_break else 0
    return start if start < vocabulary else 0


def _to_profile(note: dict[str, Any]) -> StepProfile:
    free, batch_invariant = (
        StepTimes(
            tuple(note[mode]["buckets"]), _seconds(note[mode]["seconds"]), _seconds(note[mode]["per_token"])
        )
        for mode in ("free", "batch_invariant")
    )
    bucket_sets = tuple(tuple(buckets) for buckets in note["bucket_sets"])
    return StepProfile(free, batch_invariant, bucket_sets, str(note["note"]))


def _seconds(numbers: list[Any]) -> tuple[float, ...]:
    return tuple(map(float, numbers))


def _to_packed(note: dict[str, Any]) -> Packed:
    if note["layout"] != SUCCESSORS_LAYOUT:
        return NOTHING_SAID
    try:
        numbers = np.frombuffer(decompress(b64decode(note["packed"])), dtype=np.int32)
    except zlib_error as broken:
        raise ValueError(f"successors that cannot be unpacked: {broken}") from broken
    return numbers.reshape(-1, SUCCESSORS)


def _to_counts(note: dict[str, Any]) -> dict[int, Counts]:
    if note["layout"] != CELLS_LAYOUT:
        return {}
    return {
        int(kind): {_cell(cell): _counted(*pair) for cell, pair in cells}
        for kind, cells in note["counts"].items()
    }


def _to_lessons(note: dict[str, Any]) -> Lessons:
    weights = {
        int(kind): LearnedWeights(tuple(map(float, one["weights"])), tuple(map(float, one["squares"])))
        for kind, one in note["weights"].items()
    }
    return Lessons(float(note["gain"]), weights)


def _to_shapes(note: list[Any]) -> dict[Buckets, CurveShape]:
    return {
        tuple(map(int, padded)): CurveShape(float(plain), tuple(map(float, drafted)))
        for padded, plain, drafted in note
    }


def _cell(number: int) -> int:
    if not 0 <= number < NUM_CELLS:
        raise ValueError(f"cells have numbers from 0 to {NUM_CELLS - 1}, got {number}")
    return number


def _counted(right: float, tried: float) -> tuple[float, float]:
    if not 0 <= right <= tried < inf:
        raise ValueError(f"a guess is right as often as it was tried at most, got {right} of {tried}")
    return float(right), float(tried)
