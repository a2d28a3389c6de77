"""Whole models on the fused kernels: lookahead says what plain says, in float32 and in half precision."""

from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel

from app.engine.attention.backend_choice import Attention
from app.engine.block.block import chain_block
from app.engine.decoders.plain import plain
from app.engine.loading.loading import LoadedModel, prepare
from app.engine.runner.model_config import Rotary
from app.engine.runner.runner import BlockRunner
from app.errors import AttentionUnavailable
from app.values.messages import Decoding, ModelChoice, ModelFolder
from tests.engine.architectures import BRANCHING, LLAMA
from tests.engine.attention.backends import triton_backend
from tests.engine.attention.cases import DEVICE
from tests.engine.oracle import Oracle, branching
from tests.engine.replies import Letters, load, with_pool, write
from tests.engine.tiny import DEMO

pytest.importorskip("triton", reason="triton is not installed")


def demo(dtype: torch.dtype) -> LoadedModel:
    model: PreTrainedModel = AutoModelForCausalLM.from_pretrained(DEMO, dtype=dtype, local_files_only=True)
    model.requires_grad_(False).train(False).to(DEVICE)
    tokenizer = AutoTokenizer.from_pretrained(DEMO, local_files_only=True)
    return prepare(model, tokenizer, ModelFolder(DEMO, "demo"), ModelChoice("demo", attention="triton"))


def zoo(name: str) -> LoadedModel:
    model = next(each for each in BRANCHING if each.name == name).make().to(DEVICE)
    return prepare(model, Letters(), ModelFolder(Path("zoo"), "zoo"), ModelChoice("zoo", attention="triton"))


@pytest.mark.thorough
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_the_demo_model_says_the_same_with_lookahead(dtype: torch.dtype) -> None:
    """In half precision by blocks of one width, so that only attention could tell drafted from committed."""
    loaded = demo(dtype)
    assert (loaded.info.attention, loaded.info.note("lookahead")) == ("triton", "")
    prompt = loaded.tokenizer("Once upon").input_ids
    buckets = () if dtype == torch.float32 else (5,)
    expected = write(loaded.runner, prompt, plain, limit=4, buckets=buckets)
    oracle = Oracle((*prompt, *expected.tokens), (branching,))
    said = write(
        loaded.runner, prompt, with_pool(oracle, Decoding(window=0, ngram=4)), limit=4, buckets=buckets
    )
    assert said.tokens == expected.tokens
    assert len(said.steps) < len(expected.steps)


def test_half_precision_keeps_the_bits_of_logits_when_drafts_become_the_text() -> None:
    """Four rows as one chain or one by one, all in blocks of four rows; the cases below have the trial at load."""
    prepared = load(LLAMA.make().to(DEVICE, torch.bfloat16)).runner
    assert isinstance(prepared, BlockRunner)
    attend = triton_backend()
    runner = BlockRunner(
        prepared.model,
        prepared.context,
        Rotary("fixed", prepared.context),
        Attention("triton", attend, attend),
    )
    tokens = (3, 14, 15, 92)
    list(runner.prefill((), (4,)))
    together = runner.forward(chain_block(tokens, 0, wanted=(0, 1, 2, 3)))
    for place, token in enumerate(tokens):
        alone = runner.forward(chain_block((token,), place, wanted=(0,) * 4))
        runner.commit((0,))
        assert torch.equal(alone[0], together[place])


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["llama", "gemma2", "gpt-oss", "deepseek-v3", "phi3"])
def test_models_with_windows_caps_sinks_and_other_shapes_earn_lookahead(name: str) -> None:
    """Their trial at load holds our attention to transformers' own."""
    info = zoo(name).info
    assert (info.attention, info.note("lookahead")) == ("triton", "")


def test_heads_that_are_too_large_are_refused_with_a_sentence() -> None:
    with pytest.raises(AttentionUnavailable, match="512 values, and it takes at most 256"):
        zoo("gemma4")
