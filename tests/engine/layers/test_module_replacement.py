"""Modules are told by what they do: what agrees is replaced, whatever its class, and nothing else."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from app.engine.attention.sdpa import attend
from app.engine.layers.fused_modules import (
    Activation,
    FusedAttention,
    FusedGatedMLP,
    FusedLayer,
    FusedNorm,
    NormShape,
)
from app.engine.layers.module_replacement import (
    captured_calls,
    copy_with,
    find_attentions,
    find_layers,
    find_mlps,
    find_norms,
    mismatch_share,
)
from tests.engine.architectures import BRANCHING, LLAMA, Architecture, llama_dynamic
from tests.engine.layers.fusing import fused_model, named
from tests.engine.replies import Zoo, load
from tests.support.written_out import WrittenOut

FUSED = (FusedNorm, FusedGatedMLP, FusedAttention, FusedLayer)
EXPECTED = {
    # norms, gated MLPs, attentions, layers
    "llama": (5, 2, 2, 2),
    "qwen2": (5, 2, 2, 2),
    "qwen3": (5, 2, 2, 2),  # heads are normalised in the kernel that rotates them
    "mistral": (5, 2, 2, 2),
    "gemma2": (9, 2, 2, 0),  # norms before the residual sums, too
    "gemma3": (17, 4, 4, 0),
    "phi3": (5, 2, 2, 2),
    "gpt2": (0, 0, 0, 0),
    "gpt-oss": (5, 0, 0, 0),  # sinks and experts
    "olmo2": (9, 2, 0, 0),  # norms over all heads
    "smollm3": (9, 4, 3, 4),  # one layer turns nothing
    "cohere": (0, 2, 0, 0),  # norms with a mean, neighbours turn together
    "starcoder2": (0, 0, 2, 0),
}


def parts_of(model: nn.Module) -> tuple[int, ...]:
    counts = Counter(type(module) for module in model.modules())
    return (counts[FusedNorm], counts[FusedGatedMLP], counts[FusedAttention], counts[FusedLayer])


@pytest.mark.parametrize("name", EXPECTED)
def test_of_each_architecture_it_takes_what_agrees(zoo: Zoo, name: str) -> None:
    assert parts_of(fused_model(zoo.loaded(named(name)), WrittenOut())) == EXPECTED[name]


class CountingActivations(WrittenOut):
    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def gated_activation(self, gate: Tensor, up: Tensor, activation: Activation) -> Tensor:
        self.count += 1
        return super().gated_activation(gate, up, activation)


def test_modules_of_the_same_structure_share_the_trial_of_the_first() -> None:
    kernels, model = CountingActivations(), LLAMA.make()
    assert len(find_mlps(model, kernels)) == 2 and kernels.count == 1
    model.model.layers[1].mlp.up_proj.to(torch.bfloat16)
    assert (
        len(find_mlps(model, kernels)) == 1 and kernels.count == 2
    )  # its types are others, so it is tried and fails


def test_attentions_share_a_trial_only_with_equal_windows(zoo: Zoo) -> None:
    model = fused_model(zoo.loaded(named("gemma2")), WrittenOut())
    windows = [module.scoring.window for module in model.modules() if isinstance(module, FusedAttention)]
    assert len(set(windows)) == 2


def test_weights_are_asked_of_norms_alone() -> None:
    class QuantisedProduct(nn.Module):
        """Its weight is spread out whenever it is asked for, which takes as long as a long prompt."""

        @property
        def weight(self) -> Tensor:
            pytest.fail("a weight was spread out in vain")

    model: Any = LLAMA.make()
    model.model.layers[0].mlp.down_proj = QuantisedProduct()
    assert len(find_norms(model, WrittenOut())) == 5


@pytest.mark.parametrize(
    ("name", "kind"), [("llama", (True, False)), ("gpt-oss", (False, False)), ("gemma3", (False, True))]
)
def test_a_norms_way_of_weighing_is_found(name: str, kind: tuple[bool, bool]) -> None:
    model = named(name).make().bfloat16()
    for module in model.modules():
        if hasattr(module, "weight") and module.weight.dim() == 1:  # as trained ones: of ones all are alike
            module.weight.uniform_(-0.5, 0.5, generator=torch.Generator().manual_seed(0))
    norms = find_norms(model, WrittenOut())
    assert norms
    shapes = {norm.shape for norm in norms.values()}  # type: ignore[union-attr]
    assert shapes == {NormShape(model.config.rms_norm_eps, *kind)}


class Norm(nn.Module):
    """RMSNorm with a mistake."""

    def __init__(self, mistake: str, eps: float = 1e-5) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.linspace(0.5, 2, 32).bfloat16(), requires_grad=False)
        self.mistake, self.eps = mistake, eps

    def forward(self, states: Tensor) -> Tensor:
        values = states.float()
        if self.mistake == "mean":
            values = values - values.mean(-1, keepdim=True)
        if self.mistake == "half":
            values = values.bfloat16()
        eps = 2 * self.eps if self.mistake == "eps" else self.eps
        values = values * torch.rsqrt(values.pow(2).mean(-1, keepdim=True) + eps)
        said = self.weight * values.bfloat16()
        return -said if self.mistake == "sign" else said


class Holding(nn.Module):
    """A model of one module."""

    dtype, device = torch.bfloat16, torch.device("cpu")

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module


@pytest.mark.parametrize("mistake", ["", "mean", "half", "eps", "sign"])
def test_a_norm_of_another_kind_is_left_alone(mistake: str) -> None:
    model: Any = Holding(Norm(mistake))
    assert len(find_norms(model, WrittenOut())) == (not mistake)


def test_layer_norms_and_norms_without_eps_are_left_alone() -> None:
    for norm in (nn.LayerNorm(32, bias=False), nn.LayerNorm(32), nn.RMSNorm(32), Norm("", eps=0)):
        model: Any = Holding(norm.bfloat16())
        assert not find_norms(model, WrittenOut())


class Gated(nn.Module):
    """A gated MLP, perhaps with something done in between or behind."""

    def __init__(self, activation: nn.Module, way: str = "") -> None:
        super().__init__()
        self.gate_proj, self.up_proj = (nn.Linear(16, 48, dtype=torch.bfloat16) for _ in range(2))
        self.down_proj = nn.Linear(48, 16, dtype=torch.bfloat16)
        self.activation, self.way = activation, way

    def forward(self, states: Tensor) -> Tensor:
        gate, up = self.gate_proj(states), self.up_proj(states)
        if self.way == "swapped":
            gate, up = up, gate
        said = self.down_proj(self.activation(gate) * up)
        return 2 * said if self.way == "doubled" else said


@pytest.mark.parametrize(
    ("activation", "way", "is_taken"),
    [
        (nn.SiLU(), "", True),
        (nn.GELU(approximate="tanh"), "", True),
        (nn.ReLU(), "", False),
        (nn.Sigmoid(), "", False),
        (nn.SiLU(), "swapped", False),
        (nn.SiLU(), "doubled", False),
    ],
)
def test_an_mlp_is_taken_if_it_multiplies_a_bent_gate_with_up(
    activation: nn.Module, way: str, is_taken: bool
) -> None:
    torch.manual_seed(0)
    mlp = Gated(activation, way)
    model: Any = Holding(mlp)
    found = find_mlps(model, WrittenOut())
    assert (mlp in found) == is_taken
    if is_taken:
        rows = torch.randn(3, 16).bfloat16()
        assert torch.equal(found[mlp](rows), mlp(rows))


def test_what_cannot_be_tried_is_left_alone_and_no_hook_stays() -> None:
    class Refuses(Gated):
        def forward(self, states: Tensor) -> Tensor:
            raise ValueError(f"not like this: {states.shape}")

    mlp = Refuses(nn.SiLU())
    model: Any = Holding(mlp)
    assert not find_mlps(model, WrittenOut())
    assert not mlp.down_proj._forward_pre_hooks


def llama() -> Any:
    runner: Any = load(LLAMA.make()).runner
    return runner.model


def test_attention_that_turns_otherwise_is_left_alone() -> None:
    class Backwards(WrittenOut):
        def write_rotated(self, states: Any, tables: Any, slots: Any, norms: Any = None) -> Tensor:
            return super().write_rotated(states, (tables[0], -tables[1]), slots, norms)

    calls = captured_calls(llama(), attend)
    assert len(find_attentions(calls, {}, WrittenOut())) == 2
    assert not find_attentions(calls, {}, Backwards())


def test_attention_keeps_what_its_layer_told() -> None:
    runner: Any = load(named("gemma2").make()).runner
    found = find_attentions(captured_calls(runner.model, attend), {}, WrittenOut())
    seen = {(each.scoring.window, each.scoring.softcap) for each in found.values()}  # type: ignore[union-attr]
    assert seen == {(12, 5.0), (0, 5.0)}


def test_a_layer_needs_its_norm_replaced_and_every_bit_the_same() -> None:
    model, kernels = llama(), WrittenOut()
    norms, calls = find_norms(model, kernels), captured_calls(model, attend)
    assert len(find_layers(calls, norms)) == 2
    assert not find_layers(calls, {})
    model.model.layers[0].post_attention_layernorm.register_forward_hook(lambda _norm, _args, said: said + 1)
    assert list(find_layers(calls, norms))


def test_trials_leave_the_model_as_it_was(zoo: Zoo) -> None:
    loaded = zoo.loaded(LLAMA)
    model: Any = loaded.runner.model  # type: ignore[attr-defined]
    kinds = [type(module) for module in model.modules()]
    fused_model(loaded, WrittenOut())
    assert [type(module) for module in model.modules()] == kinds
    assert not any(isinstance(module, FUSED) for module in model.modules())
    assert not any(module._forward_pre_hooks for module in model.modules())


def test_values_are_unlike_beyond_their_rounding() -> None:
    ones = torch.ones(4, 100)
    assert mismatch_share(ones, ones) == 0
    assert mismatch_share(ones.half(), ones) == float("inf")
    assert mismatch_share(ones[:2], ones) == float("inf")
    assert mismatch_share(ones * torch.nan, ones) == float("inf")
    assert mismatch_share(ones + 1e-3, ones) == float("inf")
    near = ones.bfloat16()
    near[0, 0] += 2**-7
    assert 0 < mismatch_share(near, ones.bfloat16()) < 0.01
    assert mismatch_share(near + 2**-7, ones.bfloat16()) == float("inf")


@pytest.mark.parametrize("architecture", [named("llama"), named("gemma3")], ids=str)
def test_no_weight_is_kept_twice(zoo: Zoo, architecture: Architecture) -> None:
    loaded = zoo.loaded(architecture)
    model: Any = loaded.runner.model  # type: ignore[attr-defined]
    fused = fused_model(loaded, WrittenOut())
    ours, theirs = (
        {tensor.untyped_storage().data_ptr() for tensor in (*each.parameters(), *each.buffers())}
        for each in (fused, model)
    )
    assert ours <= theirs  # weights of heads' norms are in no module
    assert fused.config is model.config


class Same(nn.Module):
    """Says what the Linear says."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.weight, self.bias = linear.weight, linear.bias

    def forward(self, states: Tensor) -> Tensor:
        return nn.functional.linear(states, self.weight, self.bias)


class Doubled(Same):
    """Says twice what the Linear says."""

    def forward(self, states: Tensor) -> Tensor:
        return 2 * super().forward(states)


def linears_of(model: nn.Module) -> list[nn.Linear]:
    return [module for module in model.modules() if type(module) is nn.Linear]


def copied(model: PreTrainedModel, replace: Callable[[nn.Linear], nn.Module]) -> PreTrainedModel:
    return copy_with(model, {linear: replace(linear) for linear in linears_of(model)})


@pytest.mark.parametrize("architecture", BRANCHING, ids=str)
def test_a_copy_says_what_the_model_says(architecture: Architecture) -> None:
    model = architecture.make()
    copy, ids = copied(model, Same), torch.arange(3, 30)[None]
    assert torch.equal(copy(ids).logits, model(ids).logits)
    assert sum(isinstance(module, Same) for module in copy.modules()) == len(linears_of(model))
    assert linears_of(copy) == []


def test_the_model_itself_stays_as_it_is() -> None:
    model, ids = LLAMA.make(), torch.arange(3, 30)[None]
    before, kinds = model(ids).logits, [type(module) for module in model.modules()]
    copy = copied(model, Doubled)
    assert [type(module) for module in model.modules()] == kinds
    assert torch.equal(model(ids).logits, before)
    assert not torch.equal(copy(ids).logits, before)


@pytest.mark.parametrize("is_tied", [False, True])
def test_a_copy_keeps_no_weight_twice_and_a_tied_head_stays_tied(is_tied: bool) -> None:
    model: Any = LLAMA.make()
    if is_tied:
        model.lm_head.weight = model.model.embed_tokens.weight
    copy: Any = copied(model, Same)
    ours = {tensor.data_ptr() for tensor in (*copy.parameters(), *copy.buffers())}
    assert ours == {tensor.data_ptr() for tensor in (*model.parameters(), *model.buffers())}
    assert copy.lm_head.weight is model.lm_head.weight
    assert (copy.lm_head.weight is copy.model.embed_tokens.weight) == is_tied
    assert copy.model.embed_tokens is model.model.embed_tokens
    assert copy.model.norm is model.model.norm
    assert copy.config is model.config


def test_a_rotary_table_that_changes_does_so_for_both() -> None:
    model: Any = llama_dynamic(32).make()
    copy: Any = copied(model, Same)
    model(torch.arange(60)[None])
    assert copy.model.rotary_emb is model.model.rotary_emb
