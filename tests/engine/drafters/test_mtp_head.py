"""A head that knows what its target says is right every time, and what it says depends on the text alone."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from torch import Tensor
from transformers.modeling_layers import MtpModel

from app.engine.block.block import chain_block, common_length
from app.engine.drafters.head_reader import HeadReader, MtpHead
from app.engine.drafters.mixed_tree import DraftModelSource
from app.engine.loading.head_loading import read_heads, reader_of
from app.engine.loading.loading import LoadedModel, load
from app.engine.runner.hidden_states import HiddenStates, number_of_layers
from app.engine.runner.runner import BlockRunner
from app.values.messages import ModelChoice, Sampling
from tests.engine.head_replies import drafted, require_counted_on, require_sampled
from tests.engine.heads import CONFIGS, VOCABULARY, Taught, write_with_head
from tests.engine.replies import Reply
from tests.tiers import named, some, tiered

CHOICE = ModelChoice("target", dtype="float32", device="cpu")
KINDS = some({kind: kind for kind in CONFIGS}, "deepseek-v3", "qwen3.5")
DEPTH = 5


@dataclass
class Opened:
    """A target and the source of drafts that its head is."""

    loaded: LoadedModel
    runner: BlockRunner
    source: DraftModelSource


def opened(folder: Path, kind: str, taught: Taught) -> Opened:
    loaded = load(write_with_head(folder, kind, taught), CHOICE)
    assert loaded.info.heads, loaded.info.note("heads")
    assert isinstance(loaded.runner, BlockRunner)
    (source,) = loaded.draft_models
    return Opened(loaded, loaded.runner, source)


def read(runner: BlockRunner, text: Sequence[int]) -> None:
    """Make this text what the target has committed."""
    for _ in runner.prefill(text):
        pass


def write(target: Opened, prompt: Sequence[int], sampling: Sampling) -> Reply:
    return drafted(target.runner, target.source, prompt, sampling)


@tiered(
    lambda *ids: ids in {("token", "deepseek-v3"), ("state", "qwen3.5")},
    taught=named(("token", "state")),
    kind=named(CONFIGS),
)
def test_a_head_that_knows_the_next_token_is_accepted_in_every_step(
    tmp_path: Path, kind: str, taught: Taught
) -> None:
    target = opened(tmp_path / kind, kind, taught)
    for start in (70, 1000, 3000):
        require_counted_on(write(target, range(start, start + 20), Sampling()), start + 20)


@pytest.mark.parametrize("kind", some(named(CONFIGS), "qwen3.5"))
def test_a_sampled_token_is_what_the_head_expects_too(tmp_path: Path, kind: str) -> None:
    target = opened(tmp_path / kind, kind, "token")
    for seed in (0, 2):
        require_sampled(write(target, range(70, 90), Sampling(0.9, top_k=40, seed=seed)), 90)


@pytest.mark.parametrize("kind", KINDS)
def test_whatever_was_asked_before_the_answer_is_that_of_a_fresh_head(tmp_path: Path, kind: str) -> None:
    target = opened(tmp_path / kind, kind, "")
    heads, runner = read_heads(target.runner.model), target.runner
    warm = Warm(fresh(heads, runner))
    generator = random.Random(4)
    for turn in range(3):
        text = [generator.randrange(VOCABULARY) for _ in range(30 + turn)]
        read(runner, text[:-1])
        for _ in range(4):
            line = list(text)
            for _ in range(3):
                line.append(generator.randrange(VOCABULARY))
                assert_same(warm.read(line), fresh(heads, runner).read(line, 0))
        accepted = line[len(text) : len(text) + 2]
        runner.forward(chain_block([text[-1], *accepted], len(text) - 1, (0,)))
        runner.commit(range(3))  # the guesses were right, and their rows are read again
        line = [*text, *accepted, 7]
        assert_same(warm.read(line), fresh(heads, runner).read(line, 0))


class Warm:
    """A head that reads lines one after the other, of each only what is new."""

    def __init__(self, head: HeadReader) -> None:
        self.head, self.line = head, list[int]()

    def read(self, line: list[int]) -> Tensor:
        known = min(common_length(self.line, line), len(line) - 1)
        self.line = list(line)
        return self.head.read(line, known)


def fresh(heads: MtpModel, runner: BlockRunner) -> HeadReader:
    states = HiddenStates(runner.cache, number_of_layers(runner.model))
    return reader_of(MtpHead(heads), runner, states)


def assert_same(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)
