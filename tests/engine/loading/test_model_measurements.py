"""What is measured at load and while nobody waits is kept for the model, checked when read, never in the way."""

import json
import shutil
from base64 import b64encode
from collections.abc import Callable, Iterator
from ctypes import PyDLL
from dataclasses import replace
from functools import partial
from itertools import count
from math import inf
from pathlib import Path
from typing import Any, cast
from zlib import compress

import numpy as np
import pytest
from tokenizers.processors import TemplateProcessing

from app.engine.block.context_entries import SUCCESSORS, Packed, unpack_successor
from app.engine.block.step_profile import StepProfile, StepTimes
from app.engine.loading import model_measurements
from app.engine.loading.loading import LoadedModel, load
from app.engine.loading.model_measurements import (
    SECONDS,
    IdleMeasurement,
    first_token_of_texts,
    keep,
    measured,
)
from app.engine.lookahead.acceptance_estimator import NUM_CELLS
from app.engine.lookahead.drafter import PythonDrafter
from app.engine.lookahead.model_statistics import no_successors, num_measured
from app.engine.machine.compiling import Compiled
from app.engine.measuring.measurement_cache import MeasurementCache
from app.engine.runner.runner import BlockRunner
from app.engine.runner.sequential_runner import LONGEST_CHAIN, SequentialRunner
from app.engine.session.session import Session
from app.values.messages import ModelChoice, ModelFolder, Sampling
from tests.engine.places import Places
from tests.engine.recurrent_architectures import CHAINED, RECURRENT
from tests.engine.replies import Letters
from tests.engine.replies import load as load_zoo
from tests.tiers import some

CHOICE = ModelChoice("tiny", "float32", "cpu")
MEASURING, ASKING = "Measuring the model's step", "Measuring which tokens are likely after each token"


@pytest.fixture(scope="module", autouse=True)
def unhurried() -> Iterator[None]:
    """A load has time to ask about every token, also on a busy machine."""
    ask = model_measurements.measure_first_successors

    def patiently(*given: Any, seconds: float = 600.0) -> Packed:
        return ask(*given, seconds=seconds)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(model_measurements, "measure_first_successors", patiently)
        patch.setattr(model_measurements, "SECONDS", SECONDS)
        patch.setattr(model_measurements, "BLOCK_SECONDS", inf)  # on a loaded machine a block may take longer
        yield


class ProgressLog:
    """A progress that remembers what went on."""

    def __init__(self) -> None:
        self.whats = list[str]()

    def __call__(self, what: str, _done: int, _total: int) -> None:
        if what not in self.whats:
            self.whats.append(what)


@pytest.fixture
def fresh(model_folders: dict[str, Path]) -> Callable[[], LoadedModel]:
    """The tiny model, loaded anew at each call."""
    folder = ModelFolder(model_folders["tiny"], "tiny")
    return lambda: load(folder, CHOICE)


def opened(loaded: LoadedModel, notes: MeasurementCache) -> tuple[LoadedModel, list[str]]:
    """The measured model, and the steps that were reported."""
    steps = ProgressLog()
    return measured(loaded, notes, steps), steps.whats


def first_of(loaded: LoadedModel) -> Packed:
    first = loaded.statistics.first
    assert first is not None
    return first


def note_of(folder: Path, kind: str) -> Path:
    (file,) = folder.glob(f"{kind}-*.json")
    return file


def rewrite(file: Path, change: Callable[[Any], Any]) -> None:
    saved = json.loads(file.read_text())
    saved["note"] = change(saved["note"])
    file.write_text(json.dumps(saved))


def counted(loaded: LoadedModel) -> LoadedModel:
    """The model after a reply at two temperatures."""
    for temperature in (0.0, 1.0):
        loaded.statistics.pool([1, 2, 3, 1, 2, 3], Sampling(temperature), ()).observe([1, 2], [3, 1, 9])
    return loaded


@pytest.fixture(scope="module")
def noted(
    model_folders: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> tuple[LoadedModel, Path]:
    """A measured model after a reply, and the folder of its notes."""
    folder = tmp_path_factory.mktemp("notes")
    notes = MeasurementCache(folder)
    whole = counted(opened(load(ModelFolder(model_folders["tiny"], "tiny"), CHOICE), notes)[0])
    whole.statistics.curve(whole.profile.free, ()).refine(8, 1.0)
    keep(whole, notes)
    return whole, folder


@pytest.fixture
def notes(noted: tuple[LoadedModel, Path], tmp_path: Path) -> MeasurementCache:
    """Notes of the tiny model, which a test may change."""
    shutil.copytree(noted[1], tmp_path, dirs_exist_ok=True)
    return MeasurementCache(tmp_path)


def test_the_second_load_measures_and_asks_nothing(fresh: Callable[[], LoadedModel], tmp_path: Path) -> None:
    first, steps = opened(fresh(), MeasurementCache(tmp_path))
    assert steps == [MEASURING, ASKING]
    again, steps = opened(fresh(), MeasurementCache(tmp_path))
    assert steps == []
    assert again.profile == first.profile
    assert (first_of(again) == first_of(first)).all()
    assert first_of(first).shape == (4096, SUCCESSORS)
    assert num_measured(first_of(first)) == 4096


def test_a_compiler_that_is_missing_is_a_note_of_the_model(
    fresh: Callable[[], LoadedModel], notes: MeasurementCache
) -> None:
    def nothing() -> Compiled[PyDLL]:
        return Compiled(None, "Drafts are made in Python.")

    loaded = measured(fresh(), notes, ProgressLog(), nothing)
    assert loaded.info.refusals["compiler"] == "Drafts are made in Python."
    assert loaded.statistics._make_drafter is PythonDrafter
    again = measured(fresh(), notes, ProgressLog(), lambda: Compiled(None))
    assert "compiler" not in again.info.refusals


def test_without_a_folder_every_load_finds_out_anew(fresh: Callable[[], LoadedModel]) -> None:
    for _ in range(2):
        assert opened(fresh(), MeasurementCache(None))[1] == [MEASURING, ASKING]


def test_a_folder_that_cannot_be_written_costs_a_measurement_and_no_more(
    fresh: Callable[[], LoadedModel], tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("in the way")
    loaded, steps = opened(fresh(), MeasurementCache(tmp_path / "file"))
    assert steps == [MEASURING, ASKING]
    keep(loaded, MeasurementCache(tmp_path / "file"))
    assert bool(loaded.profile)


def test_tokens_that_there_was_no_time_to_ask_about_are_asked_next_time(
    fresh: Callable[[], LoadedModel], notes: MeasurementCache, tmp_path: Path
) -> None:
    whole, _ = opened(fresh(), notes)
    loaded, kept = fresh(), first_of(whole).copy()
    kept[700:] = 0
    write_successors(tmp_path, kept)
    again, steps = opened(loaded, notes)
    assert steps == [ASKING]
    assert (first_of(again) == first_of(whole)).all()


def write_successors(folder: Path, first: Packed) -> None:
    packed = b64encode(compress(first.tobytes())).decode()
    rewrite(note_of(folder, "successors"), lambda note: {**note, "packed": packed})


def test_successors_of_another_vocabulary_are_asked_anew(
    fresh: Callable[[], LoadedModel], notes: MeasurementCache, tmp_path: Path
) -> None:
    opened(fresh(), notes)
    write_successors(tmp_path, np.ones((99, SUCCESSORS), dtype=np.int32))
    assert opened(fresh(), notes)[1] == [ASKING]


def test_what_was_counted_of_guesses_is_there_after_the_next_start(
    fresh: Callable[[], LoadedModel], notes: MeasurementCache
) -> None:
    loaded = counted(opened(fresh(), notes)[0])
    keep(loaded, notes)
    again, _ = opened(fresh(), notes)
    assert again.statistics.counts == loaded.statistics.counts
    assert set(again.statistics.counts) == {0, 2}


def test_what_steps_really_took_is_there_after_the_next_start(
    fresh: Callable[[], LoadedModel], notes: MeasurementCache
) -> None:
    loaded = opened(fresh(), notes)[0]
    free, padded = loaded.profile.free, loaded.profile.batch_invariant.buckets[:1]
    loaded.statistics.curve(free, ()).refine(8, 1.0)
    loaded.statistics.curve(loaded.profile.batch_invariant, padded).refine_plain(2.0)
    keep(loaded, notes)
    again, steps = opened(fresh(), notes)
    assert (again.statistics.shapes, steps) == (loaded.statistics.shapes, [])
    assert set(again.statistics.shapes) == {(), padded}
    assert again.statistics.curve(free, ()).shape == loaded.statistics.curve(free, ()).shape


def test_nothing_of_what_was_written_is_kept(
    fresh: Callable[[], LoadedModel], notes: MeasurementCache, tmp_path: Path
) -> None:
    loaded = opened(fresh(), notes)[0]
    loaded.statistics.pool([3001, 3002, 3003], Sampling(), ([3004, 3005],)).observe([3001], [3002])
    keep(loaded, notes)
    note = json.loads(note_of(tmp_path, "chances").read_text())["note"]
    assert set(note) == {"layout", "counts"}
    assert all(cell < NUM_CELLS and len(pair) == 2 for cell, pair in note["counts"]["0"])


BROKEN: dict[str, tuple[Callable[[Any], Any], ...]] = {
    "step": (
        lambda note: {**note, "free": {**note["free"], "seconds": [-1.0] * len(note["free"]["seconds"])}},
        lambda note: {**note, "free": {"buckets": [1], "seconds": [], "per_token": []}},
        lambda note: {**note, "free": {**note["free"], "per_token": [-1.0]}},
        lambda note: {**note, "free": {"buckets": [1]}},
        lambda note: {**note, "bucket_sets": [[7]]},
        lambda _note: {},
        lambda _note: None,
    ),
    "successors": tuple(
        partial(lambda garbage, note: {**note, "packed": garbage}, garbage)
        for garbage in ("", "???", "AAAA", 7, None, [], "eJwDAAAAAAE=")
    ),
    "curves": (
        lambda note: [[*note[0][:2], []]],
        lambda note: [[*note[0][:2], [0.0] * len(note[0][2])]],
        lambda note: [[note[0][0], float("nan"), note[0][2]]],
        lambda note: [["wide", *note[0][1:]]],
        lambda note: [note[0][:2]],
        lambda _note: {"0": "nothing"},
    ),
    "chances": (
        lambda note: {**note, "layout": "another"},
        lambda note: {**note, "counts": {"0": [[10**9, [1, 2]]]}},
        lambda note: {**note, "counts": {"0": [[-1, [1, 2]]]}},
        lambda note: {**note, "counts": {"0": [[5, [3, 2]]]}},
        lambda note: {**note, "counts": {"0": [[5, [0, -6]]]}},
        lambda note: {**note, "counts": {"0": [[5, [0, float("nan")]]]}},
        lambda note: {**note, "counts": {"0": [["5", "2"]]}},
        lambda note: {**note, "counts": {"cold": []}},
        lambda note: {**note, "counts": []},
        lambda _note: "nothing",
    ),
}
BROKEN_NOTES = {
    f"{kind}-{number}": (kind, change)
    for kind, changes in BROKEN.items()
    for number, change in enumerate(changes)
}
BY_DEFAULT = ("step-0", "step-6", "successors-6", "curves-2", "chances-0", "chances-3")


@pytest.mark.parametrize("broken", some(BROKEN_NOTES, *BY_DEFAULT))
def test_a_note_that_makes_no_sense_is_not_believed(
    fresh: Callable[[], LoadedModel],
    noted: tuple[LoadedModel, Path],
    notes: MeasurementCache,
    tmp_path: Path,
    broken: tuple[str, Callable[[Any], Any]],
) -> None:
    (kind, change), whole = broken, noted[0]
    rewrite(note_of(tmp_path, kind), change)
    again, steps = opened(fresh(), notes)
    assert steps == {"step": [MEASURING], "successors": [ASKING]}.get(kind, [])
    assert (first_of(again) == first_of(whole)).all()
    if kind != "step":  # its curves are for the old profile
        assert again.statistics.curve(again.profile.free, ()).is_unproven == (kind == "curves")
    assert again.statistics.counts == ({} if kind == "chances" else whole.statistics.counts)


def test_a_model_that_takes_one_row_at_a_time_is_not_measured(tmp_path: Path) -> None:
    recurrent = load_zoo(RECURRENT[0].make())
    notes = MeasurementCache(tmp_path)
    loaded, steps = opened(recurrent, notes)
    keep(loaded, notes)
    assert (loaded, steps, list(tmp_path.iterdir())) == (recurrent, [], [])


def test_chains_are_measured_and_each_tokens_successors_are_asked_for(tmp_path: Path) -> None:
    """Behind a line break and each token alone, as a batch: what the model says there when it is asked alone."""
    loaded, steps = opened(load_zoo(CHAINED[0].make(), WithTexts()), MeasurementCache(tmp_path))
    assert steps == [MEASURING, ASKING]
    assert loaded.profile.free.buckets[0] == 1 and loaded.profile.free.buckets[-1] == LONGEST_CHAIN
    assert loaded.info.same_text and "the same text" in loaded.info.note("same-text")
    first, runner = first_of(loaded), loaded.runner
    assert isinstance(runner, SequentialRunner)
    for token in (0, 7, 127):
        best = runner.feed([WithTexts.line_break, token], 0).argmax().item()
        assert unpack_successor(first[token][0])[0] == best
    again, steps = opened(load_zoo(CHAINED[0].make(), WithTexts()), MeasurementCache(tmp_path))
    assert (again.profile, steps) == (loaded.profile, [])


def test_chains_whose_activations_are_rounded_are_not_said_to_write_the_same_text(tmp_path: Path) -> None:
    model: Any = load_zoo(CHAINED[0].make(), WithTexts())
    model.runner.model.rounding = 0.6  # as a Linear has that rounds activations to 8 bits
    info = opened(model, MeasurementCache(tmp_path))[0].info
    assert not info.same_text and "may differ" in info.note("same-text")


class WithTexts(Letters):
    """A tokenizer that knows a line break and nothing else."""

    line_break = 3
    bos_token_id = None
    all_special_ids: tuple[int, ...] = ()

    def encode(self, _text: str) -> list[int]:
        return [self.line_break]


def test_a_text_begins_with_what_the_tokenizer_puts_before_it_or_with_a_line_break(
    fresh: Callable[[], LoadedModel],
) -> None:
    tokenizer = fresh().tokenizer
    tokenizer.bos_token = tokenizer.convert_ids_to_tokens(7)
    line_break = tokenizer.encode("\n")
    assert first_token_of_texts(tokenizer, 4096) == line_break[-1] != 7
    assert first_token_of_texts(tokenizer, 5) == 0, (
        "a token that the model has no weights for cannot be asked"
    )
    before_every_text = TemplateProcessing(single="B $A", special_tokens=[("B", 7)])
    tokenizer.backend_tokenizer.post_processor = before_every_text
    assert tokenizer.encode("\n") == [7, *line_break]
    assert first_token_of_texts(tokenizer, 4096) == 7


ASKED = 700
"""Tokens that the load had time for."""
VOCABULARY = 4096


@pytest.fixture
def ready(fresh: Callable[[], LoadedModel], noted: tuple[LoadedModel, Path]) -> Callable[[], LoadedModel]:
    """The tiny model with all its first successors, loaded anew at each call."""
    return lambda: measured(fresh(), MeasurementCache(noted[1]), lambda *_: None)


def cut(loaded: LoadedModel) -> Packed:
    """Forget the successors that a short load would not have; returns all of them."""
    whole = loaded.statistics.first
    known = whole.copy()
    known[ASKED:] = 0
    loaded.statistics.learn_first(known)
    return whole


def test_every_token_is_asked_and_kept(ready: Callable[[], LoadedModel], tmp_path: Path) -> None:
    loaded = ready()
    whole = cut(loaded)
    asking = IdleMeasurement(loaded, MeasurementCache(tmp_path))
    while asking.ask():
        pass
    assert asking.is_done
    assert (loaded.statistics.first == whole).all()
    (file,) = tmp_path.glob("successors-*.json")
    again = measured(ready(), MeasurementCache(tmp_path), lambda *_: None)
    assert (again.statistics.first == whole).all()
    assert file.exists()


def test_a_block_at_a_time_and_the_chat_goes_on_where_it_was(ready: Callable[[], LoadedModel]) -> None:
    loaded = ready()
    whole = cut(loaded)
    pool = loaded.statistics.pool([5, 6, 7], Sampling(), ())
    runner = cast(BlockRunner, loaded.runner)
    for _ in runner.prefill([5, 6, 7]):
        pass
    assert IdleMeasurement(loaded, MeasurementCache(None)).ask() > 0
    asked = num_measured(loaded.statistics.first)
    assert ASKED < asked < VOCABULARY
    assert runner.length == 3
    drafted = {token for _, token, _ in pool.edges([asked - 1], 1)}
    assert {(entry >> 10) - 1 for entry in whole[asked - 1].tolist() if entry} <= drafted, (
        "this chat knows them"
    )


def test_after_a_minute_the_next_load_goes_on(ready: Callable[[], LoadedModel], tmp_path: Path) -> None:
    loaded = ready()
    cut(loaded)
    asking = IdleMeasurement(loaded, MeasurementCache(tmp_path), count(0.0, SECONDS).__next__)
    assert asking.ask() == SECONDS
    assert asking.ask() == 0
    assert num_measured(loaded.statistics.first) < VOCABULARY
    assert list(tmp_path.glob("successors-*.json"))


def test_a_model_that_fails_is_asked_no_more(
    ready: Callable[[], LoadedModel], caplog: pytest.LogCaptureFixture
) -> None:
    loaded = ready()
    cut(loaded)
    loaded.statistics.learn_first(loaded.statistics.first[:, :3])
    asking = IdleMeasurement(loaded, MeasurementCache(None))
    assert (asking.ask(), asking.is_done) == (0, True)
    assert "the measurement of first successors has ended" in caplog.text


def test_models_that_take_chains_are_not_asked() -> None:
    loaded = load_zoo(CHAINED[0].make())
    loaded = replace(loaded, profile=StepProfile(StepTimes((1,), (0.001,))))
    loaded.statistics.learn_first(no_successors(loaded.vocabulary))
    assert IdleMeasurement(loaded, MeasurementCache(None)).ask() == 0


def test_a_session_asks_of_what_is_loaded_alone(model_folders: dict[str, Path]) -> None:
    session = Session(Places(model_folders))
    assert session.ask_more() == 0
    loaded = session.open(ModelChoice("tiny", "float32", "cpu"), lambda *_: None)
    cut(loaded)
    assert session.ask_more() > 0
    session.close()
    assert session.ask_more() == 0
