"""Packed weights multiply as the dense ones did, and the promise of equal text holds on them."""

import platform

import pytest
import torch
from torch import Tensor, nn
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel

from app.engine.layers.packing import BlockedLinear, can_pack, pack_weights
from app.values.messages import Decoding, Sampling
from tests.engine.oracle import Oracle, branching, half_right, right, wrong
from tests.engine.replies import GREEDY, load, says_plainly, with_pool, write

pytestmark = pytest.mark.skipif(
    platform.machine() not in ("x86_64", "AMD64") or not torch.backends.mkldnn.is_available(),
    reason="weights are packed for oneDNN on x86 alone",
)

VOCABULARY = 512
PROMPT = list(range(7, 47))


def make_model(dtype: torch.dtype = torch.float32, vocabulary: int = VOCABULARY) -> PreTrainedModel:
    """Its gate, up, down, query and output weights are large enough to be packed; key and value are not."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=384,
        intermediate_size=640,
        num_hidden_layers=2,
        num_attention_heads=6,
        num_key_value_heads=2,
        max_position_embeddings=256,
        tie_word_embeddings=True,
    )
    model = LlamaForCausalLM(config).to(dtype).requires_grad_(False)
    for parameter in model.parameters():
        parameter.data *= 2.0
    return model


def linears(model: PreTrainedModel) -> list[nn.Module]:
    return [module for module in model.modules() if isinstance(module, nn.Linear | BlockedLinear)]


def random_states(*shape: int, dtype: torch.dtype) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(1)).to(dtype)


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16), ids=str)
@pytest.mark.parametrize("bias", (True, False))
def test_a_packed_linear_is_the_linear(dtype: torch.dtype, bias: bool) -> None:
    if not can_pack(dtype):
        pytest.skip(f"this CPU has no kernels for packed weights in {dtype}")
    linear = nn.Linear(384, 640, bias=bias, dtype=dtype).requires_grad_(False)
    packed = BlockedLinear(linear)
    for rows in (0, 1, 3, 16, 70):
        states = random_states(1, rows, 384, dtype=dtype)
        assert packed(states).shape == (1, rows, 640)
        assert torch.allclose(packed(states), linear(states), rtol=0.02, atol=1e-2)
    assert torch.equal(packed.weight, linear.weight)


def test_large_weights_are_packed_and_small_ones_left() -> None:
    model = make_model()
    assert pack_weights(model) == 2 * 5 + 1
    small = [module for module in linears(model) if isinstance(module, nn.Linear)]
    assert {module.out_features for module in small} == {128}


def test_the_packed_model_says_what_it_said() -> None:
    model, ids = make_model(), torch.arange(5, 45)[None]
    before = model(ids).logits
    pack_weights(model)
    assert torch.allclose(model(ids).logits, before, atol=1e-3)


def test_a_tied_head_that_is_most_of_the_model_is_not_kept_twice() -> None:
    model = make_model(vocabulary=8192)
    pack_weights(model)
    assert model.lm_head.weight is model.get_input_embeddings().weight


def test_float16_stays_as_it_is() -> None:
    assert pack_weights(make_model(torch.float16)) == 0


@pytest.mark.parametrize("sampling", (GREEDY, Sampling(temperature=0.9, seed=3)), ids=("greedy", "sampled"))
def test_lookahead_on_packed_weights_says_what_plain_says(sampling: Sampling) -> None:
    runner = load(make_model()).runner
    expected = says_plainly(runner, PROMPT, sampling)
    for drafts in ((right,), (branching, wrong), (wrong, half_right)):
        runner.forget()
        oracle = Oracle((*PROMPT, *expected.tokens), drafts)
        said = write(runner, PROMPT, with_pool(oracle, Decoding(window=5, ngram=5)), sampling)
        assert said.tokens == expected.tokens
        assert said.longest_run > 2 or drafts[0] is wrong


def test_loading_packs_and_still_counts_every_parameter() -> None:
    model = make_model()
    count = model.num_parameters()
    assert load(model).info.parameters == count
    assert any(isinstance(module, BlockedLinear) for module in model.modules())
