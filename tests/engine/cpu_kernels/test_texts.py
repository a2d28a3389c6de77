"""Whole models by the CPU's kernels: fused layers, one set of row counts in int8, the same text on and off."""

from functools import cache

import pytest
from torch import Tensor

from app.engine.cpu_kernels import cpu_kernels
from app.engine.decoders.lookahead_decoder import make_lookahead
from app.engine.loading.loading import LoadedModel, load
from app.engine.measuring.same_bits import (
    group_by_bits,
    layers_with_rows,
    read_layers,
    read_text,
    takes_rows_one_by_one,
)
from app.engine.measuring.step_timing import ANY_ROWS, PREFIX, measured_text, profile_steps
from app.engine.runner.runner import BlockRunner
from app.engine.text.prompt import encode
from app.values.messages import AttentionChoice, Decoding, ModelChoice, ModelFolder, Sampling
from app.values.quantisation_sizes import Quantisation
from tests.engine.replies import GREEDY, says_plainly, write
from tests.engine.tiny import DEMO

pytestmark = pytest.mark.skipif(cpu_kernels() is None, reason="there is no C compiler here")

SAMPLED = Sampling(temperature=0.8, top_p=0.95, seed=3)
SOME_ROWS = (1, 2, 3, 5, 8, 13, 24, 40, 96, 128)


@pytest.fixture(scope="module", params=["none", "int8"])
def loaded(request: pytest.FixtureRequest) -> LoadedModel:
    quantisation: Quantisation = request.param
    return read(quantisation)


@cache
def read(quantisation: Quantisation) -> LoadedModel:
    attention: AttentionChoice = "auto" if quantisation == "int8" else "native"
    return load(ModelFolder(DEMO, "demo"), ModelChoice("demo", "float32", "cpu", quantisation, attention))


def test_layers_and_attention_are_ours(loaded: LoadedModel) -> None:
    assert loaded.info.attention == "native"
    for words in ("norms", "gated activations", "rotary embeddings", "residual sums"):
        assert words in loaded.info.note("fused")


@pytest.mark.parametrize("sampling", [GREEDY, SAMPLED], ids=["greedy", "sampled"])
def test_the_text_is_the_same_on_and_off(loaded: LoadedModel, sampling: Sampling) -> None:
    prompt = encode(loaded.tokenizer, "How do I list the files of a folder?", loaded.info.context)
    expected = says_plainly(loaded.runner, prompt, sampling, limit=24).tokens
    for rows in (5, 40):
        loaded.runner.forget()
        ahead = make_lookahead(Decoding("auto", rows=rows))
        assert write(loaded.runner, prompt, ahead, sampling, limit=24).tokens == expected


def test_in_int8_every_number_of_rows_writes_the_same_bits() -> None:
    runner = read("int8").runner
    assert isinstance(runner, BlockRunner)
    assert profile_steps(runner, lambda _done, _total: None).bucket_sets == (ANY_ROWS,)
    text = measured_text(runner)
    layers = layers_with_rows(runner, text)

    def read_by(rows: int) -> list[Tensor]:
        return [*read_text(runner, text, PREFIX, rows), *read_layers(layers, rows)]

    assert group_by_bits(SOME_ROWS, read_by) == (SOME_ROWS,)


@pytest.mark.parametrize(("quantisation", "is_known"), [("int8", True), ("int4", False), ("none", False)])
def test_rows_are_known_to_be_taken_one_by_one_where_all_products_are_ours(
    quantisation: Quantisation, is_known: bool
) -> None:
    """Layers of int4 are torch's products, beside a head of 8 bits."""
    runner = read(quantisation).runner
    assert isinstance(runner, BlockRunner)
    assert runner.attention.name == "native"
    assert takes_rows_one_by_one(runner.model, runner.attention) == is_known
