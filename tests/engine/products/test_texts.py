"""Whole models with our products: a step's bits do not notice its rows, and lookahead says what plain says."""

from itertools import count

import pytest
import torch
from transformers import PreTrainedModel

from app.engine.plain import plain
from app.engine.probing import probe
from app.engine.runner import BlockRunner
from app.engine.same_bits import find_classes, layers_with_rows, read_layers, read_text
from app.messages import Decoding, Sampling
from tests.engine.attention.cases import DEVICE
from tests.engine.oracle import Oracle, branching, half_right
from tests.engine.products.twins import with_ours
from tests.engine.replies import GREEDY, load, numbers, with_pool, write
from tests.engine.zoo import BRANCHING
from tests.tiers import named, pairwise, some

pytest.importorskip("triton", reason="triton is not installed")

WIDTHS = (1, 8, 16, 20, 70)


def half(name: str, dtype: torch.dtype = torch.bfloat16) -> BlockRunner:
    """A tiny model whose steady passes have our products."""
    model: PreTrainedModel = next(each for each in BRANCHING if each.name == name).make().to(DEVICE, dtype)
    runner = with_ours(load(model))
    runner.product = "ours"
    return runner


@pytest.mark.parametrize("name", some(named(["qwen2", "gemma2"]), "gemma2"))
def test_all_widths_of_a_step_are_one_class(name: str) -> None:
    """On a card a model's own norms may not be: there torch adds up fewer than 16 rows in other orders."""
    runner, text = half(name), numbers(24 + 12)
    # Few rows are enough in the interpreter, which does a hundred products in a second.
    layers = [(layer, rows[:40]) for layer, rows in layers_with_rows(runner, text)]
    widths = WIDTHS if DEVICE.type == "cpu" else WIDTHS[2:]
    assert find_classes(
        widths, lambda width: [*read_text(runner, text, 24, width), *read_layers(layers, width)]
    ) == (widths,)


@pairwise(
    dtype=named([torch.bfloat16, torch.float16]),
    sampling={"greedy": GREEDY, "sampled": Sampling(temperature=0.9, seed=3)},
    deep=(),
)
def test_lookahead_says_what_plain_says(dtype: torch.dtype, sampling: Sampling) -> None:
    runner = half("llama", dtype)
    runner.widths = WIDTHS if DEVICE.type == "cpu" else WIDTHS[2:]
    prompt = numbers(20)
    expected = write(runner, prompt, plain, sampling, limit=10)
    for drafts in ((branching,), (half_right,)):
        runner.forget()
        oracle = Oracle((*prompt, *expected.tokens), drafts)
        said = write(runner, prompt, with_pool(oracle, Decoding(window=3, ngram=4)), sampling, limit=10)
        assert said.tokens == expected.tokens
        assert len(said.steps) < len(expected.steps)


def test_the_probe_measures_both_ways_and_leaves_torchs_products() -> None:
    runner = half("llama")
    asked: list[str] = []

    def look(_done: int, _total: int) -> None:
        if runner.product not in asked:
            asked.append(runner.product)

    now = count()
    profile = probe(runner, look, clock=lambda: float(next(now)))  # in the interpreter it would take minutes
    assert sorted(asked) == ["ours", "torch"]
    # In its interpreter the kernel is no match for torch.
    assert profile.product == "torch" or DEVICE.type == "cuda"
    assert (runner.product, runner.widths) == ("torch", ())
