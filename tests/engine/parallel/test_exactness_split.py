"""A model that is split among ranks: lookahead writes what plain writes, and about what one device computes."""

from collections.abc import Iterator

import pytest
import torch

from app.engine.block.block import chain_block
from app.engine.lookahead import make_lookahead
from app.engine.lookahead.plain import plain
from app.engine.parallel.tensor import reason_against_split
from app.engine.runner.runner import BlockRunner
from app.values.messages import Decoding, Sampling
from tests.engine.architectures import BRANCHING, LLAMA, WINDOW, Architecture
from tests.engine.parallel.groups import Group, on_a_cpu, say
from tests.engine.replies import GREEDY, numbers
from tests.engine.replies import load as load_here
from tests.tiers import named, some, tiered

pytestmark = on_a_cpu

PROMPT = numbers(WINDOW + 18)
SAMPLINGS = {
    "greedy": GREEDY,
    "T0.7": Sampling(temperature=0.7, seed=1),
    "penalised": Sampling(temperature=1.5, top_k=20, top_p=0.9, min_p=0.05, repetition_penalty=1.2, seed=4),
}
DECODINGS = {
    "W5-N4-G8": Decoding("lookahead", 5, 4, 8),
    "W15-N5-G15": Decoding("lookahead", 15, 5, 15),
    "24-rows": Decoding("auto", rows=24),
}
PAIRS = {("W5-N4-G8", "greedy"), ("24-rows", "T0.7"), ("W15-N5-G15", "penalised")}
REPRESENTATIVE = ("qwen3", "gemma3", "mixtral")
"""Norms of heads, sliding windows, experts."""
SPLITTABLE = [
    each
    for each in BRANCHING
    if not reason_against_split(each.make().config.get_text_config(decoder=True), 2)
]


@pytest.fixture(scope="module")
def group(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Group]:
    group = Group(2, tmp_path_factory.mktemp("split"), "tensor")
    yield group
    group.ranks.close()


def is_default(architecture: str, decoding: str, sampling: str) -> bool:
    """One of each kind once, one with all samplings."""
    if architecture == str(LLAMA):
        return (decoding, sampling) in PAIRS
    return architecture in REPRESENTATIVE and (decoding, sampling) == ("W5-N4-G8", "T0.7")


@tiered(is_default, architecture=named(SPLITTABLE), decoding=DECODINGS, sampling=SAMPLINGS)
def test_lookahead_writes_what_plain_writes(
    group: Group, architecture: Architecture, decoding: Decoding, sampling: Sampling
) -> None:
    runner = group.split(architecture).runner
    expected = say(runner, PROMPT, lambda: plain, sampling)
    runner.forget()
    said = say(runner, PROMPT, lambda: make_lookahead(decoding), sampling)
    assert said.tokens == expected.tokens
    assert len(said.steps) <= len(expected.steps)


@pytest.mark.parametrize("architecture", some(named(SPLITTABLE), str(LLAMA), *REPRESENTATIVE))
def test_a_split_model_computes_what_one_device_does(group: Group, architecture: Architecture) -> None:
    split, whole = group.split(architecture).runner, load_here(architecture.make()).runner
    found, expected = (_logits(each) for each in (split, whole))
    assert torch.allclose(found, expected, atol=1e-3, rtol=1e-3), (found - expected).abs().max()


def _logits(runner: BlockRunner) -> torch.Tensor:
    for _ in runner.prefill(PROMPT):
        pass
    return runner.forward(chain_block(numbers(9), len(PROMPT), tuple(range(9)))).clone()
