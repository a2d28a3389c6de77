"""While nobody waits, the model is asked for the first successors that its load had no time for."""

from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import cast

import pytest

from app.engine.block.entries import Packed
from app.engine.block.step_profile import StepProfile, StepTimes
from app.engine.loading.idle_asking import SECONDS, IdleAsking
from app.engine.loading.loading import LoadedModel, load
from app.engine.loading.measuring import measured
from app.engine.lookahead.model_statistics import no_successors, num_asked
from app.engine.measuring.measurement_cache import MeasurementCache
from app.engine.runner.runner import BlockRunner
from app.engine.session.session import Session
from app.values.messages import ModelChoice, ModelFolder, Sampling
from tests.engine.places import Places
from tests.engine.recurrent_architectures import CHAINED
from tests.engine.replies import load as load_zoo

ASKED = 700
"""Tokens that the load had time for."""
VOCABULARY = 4096


@pytest.fixture
def fresh(model_folders: dict[str, Path]) -> Callable[[], LoadedModel]:
    """The tiny model with all its first successors, loaded anew at each call."""
    folder, choice = ModelFolder(model_folders["tiny"], "tiny"), ModelChoice("tiny", "float32", "cpu")
    return lambda: measured(load(folder, choice), MeasurementCache(None), lambda *_: None)


def cut(loaded: LoadedModel) -> Packed:
    """Forget the successors that a short load would not have; returns all of them."""
    whole = loaded.statistics.first
    known = whole.copy()
    known[ASKED:] = 0
    loaded.statistics.learn_first(known)
    return whole


def test_every_token_is_asked_and_kept(fresh: Callable[[], LoadedModel], tmp_path: Path) -> None:
    loaded = fresh()
    whole = cut(loaded)
    asking = IdleAsking(loaded, MeasurementCache(tmp_path))
    while asking.ask():
        pass
    assert asking.is_done
    assert (loaded.statistics.first == whole).all()
    (file,) = tmp_path.glob("successors-*.json")
    again = measured(fresh(), MeasurementCache(tmp_path), lambda *_: None)
    assert (again.statistics.first == whole).all()
    assert file.exists()


def test_a_block_at_a_time_and_the_chat_goes_on_where_it_was(fresh: Callable[[], LoadedModel]) -> None:
    loaded = fresh()
    whole = cut(loaded)
    pool = loaded.statistics.pool([5, 6, 7], Sampling(), ())
    runner = cast(BlockRunner, loaded.runner)
    for _ in runner.prefill([5, 6, 7]):
        pass
    assert IdleAsking(loaded, MeasurementCache(None)).ask() > 0
    asked = num_asked(loaded.statistics.first)
    assert ASKED < asked < VOCABULARY
    assert runner.length == 3
    drafted = {token for _, token, _ in pool.edges([asked - 1], 1)}
    assert {(entry >> 10) - 1 for entry in whole[asked - 1].tolist() if entry} <= drafted, (
        "this chat knows them"
    )


def test_after_a_minute_the_next_load_goes_on(fresh: Callable[[], LoadedModel], tmp_path: Path) -> None:
    loaded = fresh()
    cut(loaded)
    asking = IdleAsking(loaded, MeasurementCache(tmp_path), count(0.0, SECONDS).__next__)
    assert asking.ask() == SECONDS
    assert asking.ask() == 0
    assert num_asked(loaded.statistics.first) < VOCABULARY
    assert list(tmp_path.glob("successors-*.json"))


def test_a_model_that_fails_is_asked_no_more(
    fresh: Callable[[], LoadedModel], caplog: pytest.LogCaptureFixture
) -> None:
    loaded = fresh()
    cut(loaded)
    loaded.statistics.learn_first(loaded.statistics.first[:, :3])
    asking = IdleAsking(loaded, MeasurementCache(None))
    assert (asking.ask(), asking.is_done) == (0, True)
    assert "no more first successors" in caplog.text


def test_models_that_take_chains_are_not_asked() -> None:
    loaded = load_zoo(CHAINED[0].make())
    loaded = replace(loaded, profile=StepProfile(StepTimes((1,), (0.001,))))
    loaded.statistics.learn_first(no_successors(loaded.vocabulary))
    assert IdleAsking(loaded, MeasurementCache(None)).ask() == 0


def test_a_session_asks_of_what_is_loaded_alone(model_folders: dict[str, Path]) -> None:
    session = Session(Places(model_folders))
    assert session.ask_more() == 0
    loaded = session.open(ModelChoice("tiny", "float32", "cpu"), lambda *_: None)
    cut(loaded)
    assert session.ask_more() > 0
    session.close()
    assert session.ask_more() == 0
