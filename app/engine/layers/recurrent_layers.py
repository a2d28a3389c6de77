"""Lets recurrent layers read a draft tree in one pass: each row continues the state after its own ancestors.

A gated delta net and a state space (Mamba-2) keep a matrix S. Row i decays S by exp(g_i) and adds the product of
its key k_i and an update u_i; its result is the product of its query q_i and the new S. Along a row's path
the new state S_i and the result y_i are sums. S is the state before the block, and G_i the sum of g to row i:

    S_i = exp(G_i) S + sum over j of exp(G_i - G_j) k_j u_j^T             j: row i and its ancestors in the block
    y_i = exp(G_i) q_i S + sum over j of exp(G_i - G_j) (q_i . k_j) u_j

So matrix products [T, T] with the mask "is an ancestor" compute all rows at once. In a state space u_i is the
row's input times its step. In a delta net, with the row's value v_i and rate b_i, u_i = b_i (v_i - k_i exp(g_i)
S_parent). So the u of all rows solve a triangular system, because parents come before their children. In some
delta nets g is a vector, with a decay for each channel.
"""

from collections.abc import Callable
from functools import cache, partial
from inspect import unwrap
from types import FunctionType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import silu, softplus
from transformers import PreTrainedModel
from transformers.activations import ACT2FN

from app.engine.runner.kv_cache import BlockCache, block_cache, layer_windows
from app.engine.runner.recurrent_state import RecurrentLayer, StateAfter

Function = Callable[..., Any]

_NO_LIMIT = (0.0, float("inf"))
_PAIRS = 1024
"""How many pairs of rows are computed at once if each channel has its own decay; this limits the memory."""


def _convolution(
    of_line: Function,
    inputs: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    activation: str | None = None,
    **others: Any,
) -> Tensor:
    """Compute a convolution [1, C, T] of each row's newest inputs [1, C, T, kernel] with weights [C, kernel].

    Inputs [1, C, n] have no branches, so they are left to the layer's own function."""
    if inputs.dim() == 3:
        line: Tensor = of_line(inputs, weight, bias, activation=activation, **others)
        return line
    found = (inputs * weight[:, None]).sum(dim=3)
    if bias is not None:
        found = found + bias[:, None]
    return found if activation is None else ACT2FN[activation](found)


def _convolution_of_row(
    of_row: Function, inputs: Tensor, conv_state: RecurrentLayer, weight: Tensor, *others: Any, **named: Any
) -> Tensor:
    """Compute a convolution [1, C, 1] of a single row. Some layers call a separate function for single rows."""
    newest = conv_state.update_conv_state(inputs, conv_kernel_size=weight.shape[-1])
    return _convolution(of_row, newest, weight, *others, **named)


def _delta_rule(
    of_chunk: Function,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    g: Tensor,
    beta: Tensor,
    initial_state: RecurrentLayer,
    use_qk_l2norm_in_kernel: bool = False,
    **others: Any,
) -> tuple[Tensor, StateAfter]:
    """Compute a gated delta net's results [1, T, H, V] from queries, keys [1, T, H or fewer, K] and values.

    Also returns a function for the state after a path. g (the decay's logarithm) is [1, T, H], or [1, T, H, K] if
    each channel has a decay of its own; beta is [1, T, H]."""
    layer = initial_state
    if layer.visible is None:
        given = {"g": g, "beta": beta, "use_qk_l2norm_in_kernel": use_qk_l2norm_in_kernel, **others}
        found, state = of_chunk(query, key, value, initial_state=layer.state, **given)
        return found, _StateAfter(lambda _rows, _last: state)
    heads = value.shape[2]
    q, keys, v = map(_by_head, (query, key, value))
    if use_qk_l2norm_in_kernel:
        q, keys = (part * torch.rsqrt(part.square().sum(dim=-1, keepdim=True) + 1e-6) for part in (q, keys))
    q, k = (_repeated(part, heads) for part in (q * q.shape[-1] ** -0.5, keys))
    state = q.new_zeros((heads, k.shape[-1], v.shape[-1])) if layer.state is None else layer.state[0]
    paths = _Paths(g[0], layer.visible)
    seen, predicted = (torch.cat((q, k), dim=1) * paths.decay.repeat(1, 2, 1) @ state).chunk(2, dim=1)
    rate = beta[0].T.float()[..., None]
    updates = rate * (v - predicted)
    by_query, by_key = paths.products(torch.stack((q, k)), k)
    if v.shape[1] > 1:
        updates = torch.linalg.solve_triangular(rate * by_key, updates, upper=False, unitriangular=True)
    found = seen + by_query @ updates
    return found.transpose(0, 1)[None].to(query.dtype), _StateAfter(
        _state_after, state, keys, updates, paths.sums, False
    )


def _state_space(
    of_chunk: Function,
    hidden_states: Tensor,
    dt: Tensor,
    A: Tensor,  # noqa: N803
    B: Tensor,  # noqa: N803
    C: Tensor,  # noqa: N803
    *,
    initial_states: RecurrentLayer,
    D: Tensor | None = None,  # noqa: N803
    dt_bias: Tensor | None = None,
    dt_softplus: bool = False,
    dt_limit: tuple[float, float] = _NO_LIMIT,
    **others: Any,
) -> tuple[Tensor, StateAfter]:
    """Compute a state space's results [1, T, H, P] of inputs [1, T, H, P], steps dt [1, T, H], A and D [H], and
    B and C [1, T, groups, N]. Also returns a function for the state after a path."""
    layer = initial_states
    if layer.visible is None:
        given = {"D": D, "dt_bias": dt_bias, "dt_softplus": dt_softplus, "dt_limit": dt_limit, **others}
        found, state = of_chunk(hidden_states, dt, A, B, C, initial_states=layer.state, **given)
        return found, lambda _rows, _last: state
    step = dt[0].float() if dt_bias is None else dt[0].float() + dt_bias.float()
    step = (softplus(step) if dt_softplus else step).clamp(*dt_limit)
    heads = hidden_states.shape[2]
    x, keys = _by_head(hidden_states), _by_head(B)
    k, q = _repeated(keys, heads), _repeated(_by_head(C), heads)
    shape = (heads, k.shape[-1], x.shape[-1])
    state = x.new_zeros(shape) if layer.state is None else layer.state[0].mT
    paths = _Paths(A.float() * step, layer.visible)
    updates = x * step.T[..., None]
    found = q * paths.decay @ state + paths.products(q, k) @ updates
    if D is not None:
        found = found + x * D.float()[:, None, None]
    found = found.transpose(0, 1).contiguous()[None]
    return found, partial(_state_after, state, keys, updates, paths.sums, True)


def _state_space_row(
    of_row: Function,
    state: RecurrentLayer,
    hidden_states: Tensor,
    dt: Tensor,
    A: Tensor,  # noqa: N803
    B: Tensor,  # noqa: N803
    C: Tensor,  # noqa: N803
    D: Tensor | None = None,  # noqa: N803
    dt_bias: Tensor | None = None,
    dt_softplus: bool = False,
    z: Tensor | None = None,
    dt_limit: tuple[float, float] = _NO_LIMIT,
    **_others: Any,
) -> Tensor:
    """Compute a state space's result [1, H, P] of a single row, whose arguments are expanded over P and N.
    Updates `state`. Some layers gate the result here by z [1, H, P]. dt is limited here, too, although
    transformers limits dt only in a pass of several rows."""
    found, after = _state_space(
        of_row,
        hidden_states[:, None],
        dt[None, ..., 0],
        A[:, 0, 0],
        B[:, None],
        C[:, None],
        initial_states=state,
        D=None if D is None else D[:, 0],
        dt_bias=None if dt_bias is None else dt_bias[:, 0],
        dt_softplus=dt_softplus,
        dt_limit=dt_limit,
    )
    state.update_recurrent_state(after)
    gated = found[:, 0] if z is None else found[:, 0] * silu(z)
    return gated.to(hidden_states.dtype)


class _Paths:
    """The decays of a block along its rows' paths.

    `decay` [H, T, 1 or K] is the decay from the block's beginning to each row, for all channels or for each
    channel. `sums` are its logarithms."""

    def __init__(self, logs: Tensor, visible: Tensor) -> None:
        """Start from `logs`, the logarithms of each row's own decay [T, H] or of its channels' decays [T, H, K]."""
        # In float64, because differences of long sums lose digits. transformers multiplies row by row instead.
        self.sums = (visible.double() @ logs.double().flatten(1)).view(*logs.shape[:2], -1).transpose(0, 1)
        self.decay = self.sums.exp().float()
        self._visible, self._is_by_channel = visible, logs.dim() == 3

    def products(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Return [..., H, T, T] of queries [..., H, T, K] and keys [H, T, K].

        If row j is row i or its ancestor, the value at (i, j) is the product of query i and key j, times the decay
        from j to i; otherwise it is 0."""
        if not self._is_by_channel:
            between = (self.sums - self.sums.mT).masked_fill_(~self._visible, -torch.inf).exp_().float()
            return queries @ keys.mT * between
        found = queries.new_zeros((*queries.shape[:-1], queries.shape[-2]))
        pairs = (torch.split(part, _PAIRS) for part in self._visible.nonzero(as_tuple=True))
        for rows, ancestors in zip(*pairs, strict=True):
            decayed = keys[:, ancestors] * (self.sums[:, rows] - self.sums[:, ancestors]).exp_().float()
            found[..., rows, ancestors] = (queries[..., rows, :] * decayed).sum(dim=-1)
        return found


class _StateAfter(partial[Tensor]):
    """A function for the state after a path. Some layers convert a state, by `to`, before they store it."""

    def to(self, _dtype: torch.dtype) -> "_StateAfter":
        """Ignore the conversion: states stay in float32."""
        return self


def _state_after(
    state: Tensor, keys: Tensor, updates: Tensor, sums: Tensor, is_transposed: bool, rows: Tensor, last: int
) -> Tensor:
    """Return the state [1, H, K, V], or [1, H, V, K] if `is_transposed`, after the path `rows` [n] to `last`.

    Every layer keeps these arguments until the commit, so they are as small as possible."""
    weights = (sums[:, last, None] - sums[:, rows]).exp().float()
    path = _repeated(keys.index_select(1, rows), len(state)) * weights
    found = state * sums[:, last, :, None].exp().float() + path.mT @ updates.index_select(1, rows)
    return (found.mT.contiguous() if is_transposed else found)[None]


def _by_head(rows: Tensor) -> Tensor:
    """Return rows [1, T, groups, size] as [groups, T, size] in float32."""
    return rows[0].transpose(0, 1).contiguous().float()


def _repeated(groups: Tensor, heads: int) -> Tensor:
    """Repeat each of these groups [groups, T, size] for its heads: [heads, T, size]."""
    return groups.repeat_interleave(heads // len(groups), dim=0) if len(groups) != heads else groups


_ROW = "mamba2_selective_state_update"
_REPLACED: dict[str, Function] = {
    "causal_conv1d_fn": _convolution,
    "causal_conv1d_update": _convolution_of_row,
    "torch_chunk_gated_delta_rule": _delta_rule,
    "torch_recurrent_gated_delta_rule": _delta_rule,
    "chunk_kimi_delta_attention": _delta_rule,
    "recurrent_kimi_delta_attention": _delta_rule,
    "mamba2_chunk_scan": _state_space,
    _ROW: _state_space_row,
}
"""{name of a function of transformers: our function, which gets transformers' as its first argument}"""

_KNOWN = frozenset(("torch_chunk_gated_delta_rule", "chunk_kimi_delta_attention", "mamba2_chunk_scan"))
_MARKS = frozenset(("update_conv_state", "update_recurrent_state"))
"""Methods of a cache that only recurrent layers call."""


@cache
def _tree_forward(forward: FunctionType, dt_limit: tuple[float, float]) -> Function:
    """Copy a layer's forward so that it calls our functions instead of its module's."""
    known = forward.__globals__
    ours = {name: partial(function, known[name]) for name, function in _REPLACED.items() if name in known}
    if _ROW in ours:
        ours[_ROW] = partial(ours[_ROW], dt_limit=dt_limit)
    return FunctionType(
        forward.__code__, known | ours, forward.__name__, forward.__defaults__, forward.__closure__
    )


class RecurrentMixer(nn.Module):
    """A recurrent layer of transformers that reads trees if its cache is a `BlockCache`."""

    def __init__(self, mixer: nn.Module) -> None:
        super().__init__()
        self.mixer = mixer

    def forward(self, *args: Any, **named: Any) -> Any:
        """Run the layer's own forward, with our functions if a `BlockCache` is among the named arguments."""
        if any(isinstance(value, BlockCache) for value in named.values()):
            limit = getattr(self.mixer, "time_step_limit", None) or _NO_LIMIT
            return _tree_forward(unwrap(type(self.mixer).forward), tuple(limit))(self.mixer, *args, **named)
        return self.mixer(*args, **named)


def read_trees(model: PreTrainedModel) -> None:
    """Let the model's recurrent layers read trees if their cache is a `BlockCache`.

    A trial must show whether the results are right. Recurrences that are not in _REPLACED raise errors."""
    for path, module in list(model.named_modules()):
        if not _MARKS.isdisjoint(_names(module)):
            model.set_submodule(path, RecurrentMixer(module))


def read_chains(model: PreTrainedModel) -> None:
    """Undo `read_trees` for a model whose trial failed."""
    for path, module in list(model.named_modules()):
        if isinstance(module, RecurrentMixer):
            model.set_submodule(path, module.mixer)


def calls_its_linears(model: PreTrainedModel) -> bool:
    """Return whether all layers are known to call their Linears, so that the Linears may be replaced.

    Recurrent layers of kinds that this module does not know may read the weights of their Linears instead."""
    config = model.config.get_text_config(decoder=True)
    if not block_cache(config).is_recurrent:
        return bool(layer_windows(config))
    used = [names for module in model.modules() if not _MARKS.isdisjoint(names := _names(module))]
    return all("update_recurrent_state" not in names or _KNOWN & names for names in used)


def _names(module: nn.Module) -> frozenset[str]:
    """Return the names that a module's forward uses."""
    code = getattr(unwrap(type(module).forward), "__code__", None)
    return frozenset(code.co_names if code else ())
