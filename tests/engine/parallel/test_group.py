"""An engine whose other ranks are processes: replies, their end by `kill -9`, and what comes after."""

import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
import torch

from app.conversation import Reply
from app.engine import Engine
from app.engine.block.step_profile import StepProfile, StepTimes
from app.engine.machine.device_options import RankPlan
from app.engine.parallel import group
from app.engine.parallel.group import Ranks
from app.engine.parallel.parallel_runner import profile_together
from app.engine.text.sandbox import Sandbox
from app.errors import BadOption
from app.system.child_process import ChildProcess
from app.values.logits import LogitsSettings
from app.values.messages import (
    Decoding,
    Finished,
    ModelChoice,
    ModelFolder,
    Options,
    Piece,
    Request,
    Sampling,
)
from tests.engine.asking import CPU, LONG, PROMPT, SHORT, Watched, ask, events_of, failure, ids_of
from tests.engine.places import Places
from tests.engine.recurrent_architectures import RECURRENT
from tests.engine.replies import load
from tests.tiers import some

SAMPLED = Sampling(temperature=0.8, seed=11)
WIDE = Decoding("lookahead", 5, 4, 8)
SHARED = replace(SHORT, sampling=SAMPLED, decoding=WIDE)


@pytest.fixture
def children(monkeypatch: pytest.MonkeyPatch) -> list[ChildProcess]:
    started: list[ChildProcess] = []

    def start(module: str) -> ChildProcess:
        started.append(ChildProcess(module))
        return started[-1]

    monkeypatch.setattr(group, "ChildProcess", start)
    return started


@pytest.fixture(params=some({"2": 2, "3": 3}, "2"))
def size(request: pytest.FixtureRequest) -> int:
    return cast(int, request.param)


@pytest.fixture
def engine(
    size: int,
    model_folders: dict[str, Path],
    measurements: Path,
    sandbox: Sandbox,
    children: list[ChildProcess],
) -> Iterator[Engine]:
    engine = Engine(Places(model_folders), measurements, sandbox, RankPlan(("cpu",) * size))
    yield engine
    engine.close()
    assert not any(child.is_running for child in children), "they end with the engine"


def plainly(options: Options) -> Options:
    return replace(options, decoding=Decoding("plain"))


def devices_of(reply: Reply) -> tuple[str, ...]:
    last = events_of(reply)[-1]
    assert isinstance(last, Finished), last
    return last.model.devices


def killer(children: list[ChildProcess]) -> Callable[[Watched], None]:
    """Kills the first of them."""

    def kill(_reply: Watched) -> None:
        if children[0].is_running:
            os.kill(children[0].pid, signal.SIGKILL)

    return kill


def test_replies_are_shared_and_a_killed_rank_ends_one_of_them(
    engine: Engine, size: int, children: list[ChildProcess]
) -> None:
    expected = ids_of(ask(engine, options=plainly(SHARED)))
    shared = ask(engine, options=SHARED)
    assert (ids_of(shared), devices_of(shared)) == (expected, ("cpu",) * size)

    with_logprobs = Reply()
    wanted = LogitsSettings(top_logprobs=2, frequency_penalty=0.0)
    engine.submit(Request(replace(CPU, name="tiny"), PROMPT, SHARED, logits=wanted), with_logprobs)
    assert ids_of(with_logprobs) == expected

    cut = ask(engine, options=replace(LONG, decoding=WIDE), reply=Watched(Piece, killer(children)))
    assert failure(cut) == (
        "Rank 1 (cpu) ended: it was killed, crashed, or had no memory left. "
        f"Send the message again: Foresight continues with {' and '.join(['cpu'] * (size - 1))}."
    )
    again = ask(engine, options=SHARED)
    assert (ids_of(again), devices_of(again)) == (expected, ("cpu",) * (size - 1) if size > 2 else ())

    if size > 2:  # by default no group is started anew: each process imports torch
        engine.unload()
        whole = ask(engine, options=SHARED)
        assert (ids_of(whole), devices_of(whole)) == (expected, ("cpu",) * size)


def test_one_device_starts_nothing(
    model_folders: dict[str, Path], measurements: Path, sandbox: Sandbox, children: list[ChildProcess]
) -> None:
    engine = Engine(Places(model_folders), measurements, sandbox, RankPlan(("cpu",)))
    assert devices_of(ask(engine)) == ()
    engine.close()
    assert children == []


def test_a_model_that_takes_no_trees_stays_on_one_device_and_says_so(children: list[ChildProcess]) -> None:
    ranks = Ranks(RankPlan(("cpu", "cpu")))
    choice = ranks.begin(ModelChoice("mamba"))
    loaded = ranks.join(load(RECURRENT[0].make()), ModelFolder(Path("mamba"), "mamba"), choice, None)
    assert loaded.info.refusals["device"] == "zoo cannot check draft trees, so one device is used."
    ranks.close()
    assert not any(child.is_running for child in children)


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a card")
def test_cards_that_are_not_there_are_refused_before_anything_is_started(
    children: list[ChildProcess],
) -> None:
    with pytest.raises(BadOption, match="No CUDA device is available here"):
        Ranks(RankPlan(("cuda:0", "cuda:1"))).begin(ModelChoice("tiny"))
    assert children == []


def test_a_profile_of_ranks_counts_the_rows_of_all_and_the_exchange() -> None:
    alone = StepProfile(
        StepTimes((1, 8, 16), (1.0, 2.0, 3.0), (0.1, 0.2, 0.3)),
        StepTimes((8, 16), (3.0, 4.0)),
        ((8, 16),),
        "same",
    )
    both = profile_together(alone, 2, 0.25)
    assert both.free == StepTimes((1, 15, 31), (1.0, 2.25, 3.25), (0.1, 0.2, 0.3))
    assert both.batch_invariant == StepTimes((15, 31), (3.25, 4.25))
    assert (both.bucket_sets, both.note) == (((15, 31),), "same")
