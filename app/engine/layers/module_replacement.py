"""Finds which modules of a model can be replaced by fused modules, by trials and not by the names of classes.

A module is a candidate if it has parts with certain names. Then it and its replacement get the same input, and
their results must agree:

    norm         random rows, large and tiny     equal values up to the rounding of a row's sum
    gated MLP    random rows                     equal inputs of down_proj up to rounding, and down_proj is last
    attention    its input in a real pass        equal queries, keys, values, scoring and output
    layer        its input in a real pass        bitwise identical to the layer itself with the same new parts
    whole layer  its input in a real pass        bitwise identical to the replaced layer
    decoder      its input in a real pass        bitwise identical to the decoder with whole layers

A module whose replacement does not agree is kept, so an unknown architecture becomes slower, not wrong. Modules of
the same structure, such as all layers, share the trial of the first; norms are tried one by one.
"""

import logging
from collections.abc import Callable, Hashable, Iterable, Mapping
from contextlib import ExitStack
from copy import deepcopy
from dataclasses import dataclass
from inspect import signature
from itertools import chain, islice
from math import inf
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from app.engine.attention import Attend, BlockView, LayerCache, Scoring
from app.engine.block.block import chain_block
from app.engine.layers.fused_modules import (
    Activation,
    FusedAttention,
    FusedGatedMLP,
    FusedLayer,
    FusedNorm,
    HeadNorms,
    LayerKernels,
    NormShape,
)
from app.engine.layers.packed_weight import CpuPackedWeight
from app.engine.layers.products import JoinedProduct, SeparateProducts
from app.engine.machine.device_faults import is_no_verdict
from app.engine.machine.hardware import is_close
from app.engine.runner.kv_cache import CACHE_NAME, BlockCache, block_cache
from app.engine.runner.runner import run_block

log = logging.getLogger(__name__)

Replaced = dict[nn.Module, nn.Module]
"""{module: its replacement}"""

NORM_KINDS = ((True, False), (False, False), (False, True))
"""(rounds_first, adds_one) of the norms of Llama, gpt-oss and Gemma."""

LARGEST_ROW = 32_768
"""Maximum number of values of a row that one Triton program normalises in registers."""

_SCALES = (1.0, 1e-3, 30.0, 1e-5, 1.0, 3.0)
"""The scales of a norm's trial rows; at the smallest, eps dominates the divisor. A row of zeros follows them."""
ROUNDINGS = {4: 16, 2: 2}
"""Bytes of a value -> its allowed error in units in the last place. More is allowed in float32, because only there
the rounding errors of a row's sum are visible."""

NOISE = 1e-6
"""Errors below this share of a row's largest value are allowed, because torch's tanh has such errors near -1."""

UNLIKE = 0.05
"""The maximum share of values in half precision with errors above NOISE. A larger share shows that the module
rounds other intermediate values than its replacement."""

TEXT = (3, 1, 4, 1, 5, 9, 2)
"""The tokens of the real pass."""

M = TypeVar("M", bound=nn.Module)

Make = Callable[[Any, Any], nn.Module | None]
"""(a module, the replacement of a module of the same structure or None) -> the module's replacement. If there is no
replacement of such a module, the new one is tried first; None if the trial fails."""


@dataclass(frozen=True, slots=True)
class ModuleCall:
    """The arguments and the output of a module in a real pass, and the scoring that attention used last before the
    module returned."""

    args: tuple[Any, ...]
    named: dict[str, Any]
    output: Any
    scoring: Scoring | None


Calls = Mapping[nn.Module, ModuleCall]
"""{module of the model: its call in the real pass}"""


class AttentionProbe:
    """An attention function that records its inputs and returns the same values for all inputs of a shape."""

    def __init__(self) -> None:
        self.states: tuple[Tensor, ...] = ()
        self.scoring = Scoring(0.0)

    def __call__(self, query: Tensor, cache: LayerCache, view: BlockView, scoring: Scoring) -> Tensor:
        """Record query [1, H, T, D], cached keys and values, and scoring; return fixed values [1, T, H, DV]."""
        del view
        self.states, self.scoring = (query, cache.keys, cache.values), scoring
        shape = (1, query.shape[2], query.shape[1], cache.values.shape[3])
        count = query.shape[2] * query.shape[1] * cache.values.shape[3]
        return torch.linspace(-1, 1, count, device=query.device).to(query.dtype).view(shape)


@torch.inference_mode()
def find_norms(model: PreTrainedModel, kernels: LayerKernels) -> Replaced:
    """Return replacements of the RMSNorms that have a weight, if their trials succeed."""
    # Norms share no trial, because a norm whose weights are all 1 agrees with several kinds.
    return _found(model.modules(), lambda norm: _fused_norm(norm, kernels))


@torch.inference_mode()
def find_mlps(model: PreTrainedModel, kernels: LayerKernels) -> Replaced:
    """Return replacements of the MLPs that compute activation(gate) * up and then down_proj."""
    rows = torch.empty(0, dtype=model.dtype, device=model.device)

    def fused(mlp: nn.Module, like: FusedGatedMLP | None) -> nn.Module | None:
        if like:
            return FusedGatedMLP(mlp, _gate_and_up(mlp), like.activation, kernels)
        return _fused_mlp(mlp, rows, kernels)

    return _found(_having(model.modules(), "down_proj"), _sharing(fused))


@torch.inference_mode()
def find_attentions(calls: Calls, replaced: Replaced, kernels: LayerKernels) -> Replaced:
    """Return replacements of the self-attentions that rotate heads and then attend; they use fused norms."""
    attentions = _having(calls, "o_proj", "head_dim", "layer_idx")

    def fused(attention: Any, like: FusedAttention | None) -> nn.Module | None:
        call = calls[attention]
        if like is None or call.scoring is None:
            return _fused_attention(attention, call, kernels)
        sizes = like.products.sizes if isinstance(like.products, JoinedProduct) else []
        return FusedAttention(attention, _projections(attention, sizes), call.scoring, kernels)

    def varying(attention: nn.Module) -> Any:
        call = calls[attention]
        return call.scoring, call.named.get("position_embeddings")

    found = _found(attentions, _sharing(fused, varying))
    # The new norms are set after the trials above, because these require bitwise identical results.
    results: dict[Hashable, bool] = {}
    for module, attention in found.items():
        for name in ("q_norm", "k_norm"):
            norm = attention.get_submodule(name)
            setattr(attention, name, replaced.get(norm, norm))
        _take_head_norms(attention, calls[module], results)
    return found


def _take_head_norms(attention: Any, call: ModuleCall, results: dict[Hashable, bool]) -> None:
    """Let the kernels that rotate heads normalise them, too, if the result is the same up to rounding.

    `results` are those of earlier trials, {structure of the attention: whether the result was the same}."""
    query, keys = attention.q_norm, attention.k_norm
    if not (isinstance(query, FusedNorm) and isinstance(keys, FusedNorm) and query.shape == keys.shape):
        return
    if len(query.weight) != attention.head_dim or len(keys.weight) != attention.head_dim:
        return  # these norms span all heads
    structure = _structure(attention)
    separate = None if structure in results else probe_attention(attention, call)[0]
    attention.q_norm, attention.k_norm = nn.Identity(), nn.Identity()
    attention.head_norms = HeadNorms(query.weight, keys.weight, query.shape)
    if separate:
        together, _ = probe_attention(attention, call)
        pairs = zip(together.states, separate.states, strict=True)
        results[structure] = all(is_close(*pair) for pair in pairs)
    if not results[structure]:
        attention.q_norm, attention.k_norm, attention.head_norms = query, keys, None


@torch.inference_mode()
def find_layers(calls: Calls, replaced: Replaced) -> Replaced:
    """Return replacements of decoder layers that add attention to their states and then normalise the sum."""
    layers = _having(calls, "input_layernorm", "self_attn", "post_attention_layernorm", "mlp")

    def fused(layer: nn.Module, like: FusedLayer | None) -> nn.Module | None:
        theirs = copy_with(layer, replaced)
        if not isinstance(theirs.get_submodule("post_attention_layernorm"), FusedNorm):
            return None
        ours = FusedLayer(theirs)
        return ours if like or _is_same(ours, theirs, calls[layer], AttentionProbe()) else None

    return _found(
        layers, _sharing(fused, lambda layer: [type(replaced.get(part)) for part in layer.modules()])
    )


@torch.inference_mode()
def find_whole_layers(
    calls: Calls, replaced: Replaced, attend: Attend, make: Callable[[FusedLayer], nn.Module]
) -> Replaced:
    """Return what `make` makes of each fused layer, if its output is bitwise identical to the layer's."""
    fused = {layer: new for layer, new in replaced.items() if isinstance(new, FusedLayer)}

    def whole(layer: nn.Module, like: nn.Module | None) -> nn.Module | None:
        ours = make(fused[layer])
        return ours if like or _is_same(ours, fused[layer], calls[layer], attend) else None

    return _found(fused, _sharing(whole, fused.get))


def join_sums(calls: Calls, replaced: Replaced) -> None:
    """Let each fused layer compute the norm that follows its output, if this norm is fused, too."""
    norms = {norm: new for norm, new in replaced.items() if isinstance(new, FusedNorm) and norm in calls}
    for layer, new in replaced.items():
        if isinstance(new, FusedLayer):
            taking = (
                fused
                for norm, fused in norms.items()
                if any(each is calls[layer].output for each in calls[norm].args[:1])
            )
            new.following = tuple(islice(taking, 1))


@torch.inference_mode()
def find_whole_decoder(
    decoder: nn.Module,
    calls: Calls,
    replaced: Replaced,
    attend: Attend,
    make: Callable[[nn.Module], nn.Module],
) -> Replaced:
    """Return what `make` makes of the decoder, if its output is bitwise identical to the decoder's."""

    def whole(decoder: nn.Module) -> nn.Module | None:
        theirs = copy_with(decoder, replaced)
        ours = make(theirs)
        return ours if _is_same(ours, theirs, calls[decoder], attend) else None

    return _found([decoder], whole)


def _found(modules: Iterable[nn.Module], make: Callable[[nn.Module], nn.Module | None]) -> Replaced:
    """Return what `make` returns for each module; modules for which `make` returns None or fails are left out."""
    found: dict[nn.Module, nn.Module] = {}
    for module in modules:
        try:
            fused = make(module)
        except (TypeError, ValueError, RuntimeError, LookupError, AttributeError) as error:
            if is_no_verdict(error):
                raise
            log.info("%s is not replaced: %s", type(module).__name__, error)
            continue
        if fused is not None:
            found[module] = fused.train(False)
    return found


def _sharing(
    make: Make, varying: Callable[[nn.Module], Any] = lambda _module: None
) -> Callable[[nn.Module], nn.Module | None]:
    """Return `make` with its second argument filled in: the last replacement of a module of the same structure.

    Two modules have the same structure only if what `varying` returns for them has the same structure, too."""
    replacements: dict[Hashable, nn.Module] = {}

    def shared(module: nn.Module) -> nn.Module | None:
        structure = _structure((module, varying(module)))
        fused = make(module, replacements.get(structure))
        if fused is not None:
            replacements[structure] = fused
        return fused

    return shared


def _structure(value: Any) -> Hashable:
    """Describe an object: all that it consists of, except the numbers in its tensors and the index of its layer."""
    if isinstance(value, Tensor):
        return value.shape, value.dtype, value.device
    if isinstance(value, nn.Module):
        return type(value), _structure(vars(value))
    if isinstance(value, Mapping):
        return tuple((name, _structure(each)) for name, each in value.items() if name != "layer_idx")
    if isinstance(value, list | tuple | set):
        return tuple(map(_structure, value))
    if isinstance(value, CpuPackedWeight):
        return type(value), value.bits, value.zero, _structure(value.parts)
    return value if isinstance(value, Hashable) else id(value)


def _fused_norm(module: nn.Module, kernels: LayerKernels) -> nn.Module | None:
    names = ("variance_epsilon", "eps", "epsilon")  # the names that classes use
    eps = next((one for name in names if isinstance(one := getattr(module, name, None), float)), 0.0)
    is_leaf = not any(True for _ in module.children()) and len(list(module.parameters())) == 1
    takes_rows_alone = len(signature(module.forward).parameters) == 1  # a gated norm takes the gate, too
    if not (eps and is_leaf and takes_rows_alone):
        return None
    weight = getattr(module, "weight", None)  # read last, because a quantised layer dequantises here
    if not (isinstance(weight, nn.Parameter) and weight.dim() == 1 and len(weight) <= LARGEST_ROW):
        return None
    if weight.element_size() not in ROUNDINGS:
        return None
    rows = torch.randn((len(_SCALES), len(weight)), generator=torch.Generator().manual_seed(0))
    rows *= torch.tensor(_SCALES)[:, None]
    rows[-2] += 2
    rows = torch.cat((rows, torch.zeros(1, len(weight)))).to(weight)
    expected = module(rows)
    best, share = None, 1.0
    for kind in NORM_KINDS:
        norm = FusedNorm(weight, NormShape(eps, *kind), kernels)
        other = mismatch_share(norm(rows), expected)
        if other < share:
            best, share = norm, other
        if not share:
            break
    return best


def _fused_attention(module: Any, call: ModuleCall, kernels: LayerKernels) -> nn.Module | None:
    theirs, answer = probe_attention(module, call)
    tables, query = call.named.get("position_embeddings"), theirs.states[0]
    # Only one table of cos and one of sin, in the type of the queries, are supported.
    if theirs.scoring.sinks is not None or not isinstance(tables, tuple) or len(tables) != 2:
        return None
    if any(
        table.dtype != query.dtype or table.shape[:2] != (1, query.shape[2]) or table.shape[2] % 2
        for table in tables
    ):
        return None
    products = _projections(module, [each.shape[1] * each.shape[3] for each in theirs.states])
    fused = FusedAttention(module, products, theirs.scoring, kernels)
    ours, new = probe_attention(fused, call)
    pairs = zip((*ours.states, new), (*theirs.states, answer), strict=True)
    is_same = all(torch.equal(*pair) for pair in pairs) and ours.scoring == theirs.scoring
    return fused if is_same else None


def _projections(attention: Any, sizes: list[int]) -> nn.Module:
    """Return the module that computes queries, keys and values of these sizes."""
    if isinstance(joined := getattr(attention, "qkv_proj", None), nn.Module):
        return JoinedProduct(joined, sizes)
    return SeparateProducts(attention.q_proj, attention.k_proj, attention.v_proj)


def _gate_and_up(mlp: Any) -> nn.Module:
    """Return the module that computes gate and up. Raises AttributeError if the MLP has none."""
    if isinstance(joined := getattr(mlp, "gate_up_proj", None), nn.Module):
        return JoinedProduct(joined, [mlp.down_proj.in_features] * 2)
    return SeparateProducts(mlp.gate_proj, mlp.up_proj)


def _fused_mlp(module: Any, like: Tensor, kernels: LayerKernels) -> nn.Module | None:
    products = _gate_and_up(module)
    made = torch.randn(
        (1, len(TEXT), module.down_proj.out_features), generator=torch.Generator().manual_seed(0)
    )
    rows = (3 * made).to(like)
    inputs: list[Tensor] = []
    activations: tuple[Activation, ...] = ("silu", "gelu_tanh")
    with module.down_proj.register_forward_pre_hook(lambda _module, args: inputs.append(args[0])):
        answer = module(rows)
        for activation in activations:
            fused = FusedGatedMLP(module, products, activation, kernels)
            fused(rows)
            if mismatch_share(inputs[-1], inputs[0]) <= 1:
                break
        else:
            return None
    is_last = torch.equal(module.down_proj(inputs[0]), answer)  # the MLP returns its last product unchanged
    return fused if is_last else None


def _having(modules: Iterable[nn.Module], *parts: str) -> list[nn.Module]:
    return [module for module in modules if all(hasattr(module, part) for part in parts)]


def mismatch_share(ours: Tensor, theirs: Tensor) -> float:
    """Return the share of values [..., size] with errors over NOISE; inf if errors are too many or too large."""
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        return inf
    expected = theirs.double().abs()
    noise = NOISE * expected.amax(-1, keepdim=True)
    error = (ours.double() - theirs.double()).abs()
    allowed = ROUNDINGS[theirs.element_size()] * torch.finfo(theirs.dtype).eps * expected
    if not bool((error <= allowed + noise).all()):
        return inf
    share = float((error > noise).double().mean())
    return share if share <= UNLIKE or theirs.element_size() == 4 else inf


@torch.inference_mode()
def captured_calls(model: PreTrainedModel, attend: Attend) -> Calls:
    """Run a short pass and return the last call of each module."""
    calls: dict[nn.Module, ModuleCall] = {}
    scorings: list[Scoring | None] = [None]

    def attended(query: Tensor, cache: LayerCache, view: BlockView, scoring: Scoring) -> Tensor:
        scorings.append(scoring)
        return attend(query, cache, view, scoring)

    def record(module: nn.Module, args: tuple[Any, ...], named: dict[str, Any], output: Any) -> None:
        calls[module] = ModuleCall(args, named, output, scorings[-1])

    with ExitStack() as hooks:
        for module in model.modules():
            hooks.enter_context(module.register_forward_hook(record, with_kwargs=True))
        run_block(model, block_cache(model.config), chain_block(TEXT, 0, wanted=(0,)), attended)
    return calls


def probe_attention(module: nn.Module, call: ModuleCall) -> tuple[AttentionProbe, Tensor]:
    """Run the module; return the recorded inputs of its attention, and the module's output."""
    attention = AttentionProbe()
    answer: Tensor = _called(module, call, attention)[0]
    return attention, answer


def _is_same(ours: nn.Module, theirs: nn.Module, call: ModuleCall, attend: Attend) -> bool:
    """Return whether the outputs of both layers or decoders are bitwise identical."""
    outputs = [_called(each, call, attend) for each in (ours, theirs)]
    return torch.equal(*(getattr(each, "last_hidden_state", each) for each in outputs))


def _called(module: nn.Module, call: ModuleCall, attend: Attend) -> Any:
    """Call the module with the arguments of the real pass, but with an empty cache and this attention."""
    given = call.named["block"]
    view = BlockView(given.block, 0, attend, given.device)
    return module(*call.args, **{**call.named, CACHE_NAME: BlockCache(), "block": view})


def copy_with(model: M, replaced: Mapping[nn.Module, nn.Module]) -> M:
    """Copy the model with these modules replaced. Both models share all weights, buffers and configs.

    Modules that contain a replaced module are copied. All other modules are shared with their state, so a rotary
    table that changes with the text's length changes for both models."""
    shared = [module for module in model.modules() if not any(part in replaced for part in module.modules())]
    configs = [module.config for module in model.modules() if getattr(module, "config", None) is not None]
    kept: dict[int, object] = {
        id(each): each for each in chain(model.parameters(), model.buffers(), shared, configs)
    }
    # deepcopy does not copy an object whose id is in its memo, and uses the memo's object instead.
    return deepcopy(model, kept | {id(old): new for old, new in replaced.items()})
