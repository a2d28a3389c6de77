"""Both kernels against attention written out in float64, one query at a time."""

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from app.engine.attention import BlockView, attend_layer
from app.engine.lookahead.draft_tree import DraftTree
from tests.engine.lookahead.drawing import drawn


@dataclass(frozen=True, slots=True)
class Case:
    """One layer's work: a tree of `parents` behind a prefix, `heads` query heads over `shared` key heads."""

    prefix: int = 5
    parents: tuple[int, ...] = (0, 1, 0, 3)
    heads: int = 4
    shared: int = 2
    window: int = 0
    softcap: float | None = None
    has_sinks: bool = False
    seed: int = 0


def tree_of(parents: tuple[int, ...]) -> DraftTree:
    tree = DraftTree(0)
    for token, parent in enumerate(parents, start=1):
        tree.add(parent, token, "prompt")
    return tree


def inputs(case: Case, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Query [1, H, T, 8], key and value [1, KV, L + T, 8], sinks [H]."""
    random = torch.Generator().manual_seed(case.seed)
    rows = 1 + len(case.parents)
    query = torch.randn(1, case.heads, rows, 8, generator=random)
    key, value = torch.randn(2, 1, case.shared, case.prefix + rows, 8, generator=random)
    return query.to(dtype), key.to(dtype), value.to(dtype), torch.randn(case.heads, generator=random)


def attended(case: Case, dtype: torch.dtype = torch.float32, is_steady: bool = False) -> Tensor:
    """What the layer gives [T, H, 8]."""
    tree = tree_of(case.parents)
    query, key, value, sinks = inputs(case, dtype)
    visible = torch.from_numpy(tree.visible()) if len(tree) > 1 else None
    out, weights = attend_layer(
        torch.nn.Identity(),
        query,
        key,
        value,
        None,
        block=BlockView(case.prefix, torch.tensor(tree.depths) + case.prefix, visible, is_steady),
        scaling=0.4,
        sliding_window=case.window or None,
        softcap=case.softcap,
        s_aux=sinks if case.has_sinks else None,
    )
    assert weights is None
    assert (out.dtype, out.is_contiguous()) == (dtype, True)
    return out[0]


def reference(case: Case, dtype: torch.dtype = torch.float32) -> Tensor:
    """The same, from the definition."""
    tree = tree_of(case.parents)
    query, key, value, sinks = (tensor.double() for tensor in inputs(case, dtype))
    out = torch.zeros(len(tree), case.heads, 8, dtype=torch.float64)
    for row in range(len(tree)):
        seen = seen_keys(case, tree, row)
        for head in range(case.heads):
            group = head * case.shared // case.heads
            scores = key[0, group, seen] @ query[0, head, row] * 0.4
            if case.softcap is not None:
                scores = case.softcap * torch.tanh(scores / case.softcap)
            weights = scores.exp() / (scores.exp().sum() + case.has_sinks * sinks[head].exp())
            out[row, head] = weights @ value[0, group, seen]
    return out


def seen_keys(case: Case, tree: DraftTree, row: int) -> list[int]:
    positions = [*range(case.prefix), *(case.prefix + depth for depth in tree.depths)]
    in_sight = [True] * case.prefix + tree.visible()[row].tolist()
    position = case.prefix + tree.depths[row]
    return [
        place
        for place, (at, sees) in enumerate(zip(positions, in_sight, strict=True))
        if sees and (not case.window or position - at < case.window)
    ]


CASES = [
    Case(),
    Case(prefix=0),
    Case(prefix=1),
    Case(prefix=600),
    Case(parents=()),
    Case(parents=(), prefix=0),
    Case(parents=(), window=3),
    Case(parents=(0, 1, 2, 3, 4, 5)),
    Case(parents=(0, 0, 0, 0)),
    Case(heads=4, shared=4),
    Case(heads=8, shared=1),
    Case(window=1),
    Case(window=2),
    Case(window=4),
    Case(window=100),
    Case(softcap=2.0),
    Case(softcap=0.5, window=3, prefix=1),
    Case(has_sinks=True),
    Case(has_sinks=True, softcap=1.5, window=3),
    Case(has_sinks=True, prefix=0, parents=()),
    Case(has_sinks=True, heads=4, shared=4),
]


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_a_layer_attends_as_the_definition_says(case: Case) -> None:
    torch.testing.assert_close(attended(case).double(), reference(case), atol=2e-5, rtol=2e-5)


@settings(max_examples=60)
@given(st.data())
def test_any_tree_behind_any_prefix_attends_as_the_definition_says(data: st.DataObject) -> None:
    rows = data.draw(st.integers(0, 8))
    case = Case(
        prefix=data.draw(st.integers(0, 20)),
        parents=tuple(data.draw(st.integers(0, row)) for row in range(rows)),
        heads=4,
        shared=data.draw(st.sampled_from([1, 2, 4])),
        window=data.draw(st.integers(0, 12)),
        softcap=data.draw(st.sampled_from([None, 1.0])),
        has_sinks=data.draw(st.booleans()),
        seed=data.draw(st.integers(0, 100)),
    )
    torch.testing.assert_close(attended(case).double(), reference(case), atol=2e-5, rtol=2e-5)


@pytest.mark.parametrize("case", [Case(), Case(softcap=2.0), Case(has_sinks=True, window=3)], ids=repr)
def test_half_precision_stays_near_the_definition(case: Case) -> None:
    dtype = torch.bfloat16
    torch.testing.assert_close(attended(case, dtype).double(), reference(case, dtype), atol=0.03, rtol=0.03)


def test_without_a_given_scale_it_is_one_over_the_root_of_the_size() -> None:
    query, key, value, _ = inputs(Case(parents=()))
    view = BlockView(5, torch.tensor([5]), None)
    default, _ = attend_layer(torch.nn.Identity(), query, key, value, None, block=view)
    given_one, _ = attend_layer(torch.nn.Identity(), query, key, value, None, block=view, scaling=8**-0.5)
    assert torch.equal(default, given_one)


def test_a_pass_remembers_the_window_of_each_layer() -> None:
    query, key, value, _ = inputs(Case(parents=()))
    view = BlockView(5, torch.tensor([5]), None)
    for window in (None, 3, 0):
        attend_layer(torch.nn.Identity(), query, key, value, None, block=view, sliding_window=window)
    assert view.windows == [0, 3, 0]


def test_layers_of_a_kind_share_one_mask() -> None:
    view = BlockView(5, torch.tensor([5, 6]), torch.tensor([[True, False], [True, True]]))
    assert view.sight(3) is view.sight(3)
    assert view.sight(0) is view.sight(0)


def test_a_sliding_window_counts_positions_and_not_rows() -> None:
    tree = tree_of((0, 0))
    view = BlockView(3, torch.tensor([3, 4, 4]), torch.from_numpy(tree.visible()))
    sight = view.sight(2)
    assert sight is not None
    #                          prefix | block: 3, its children 4 and 4
    assert drawn(sight.numpy()) == ["..11..", "...11.", "...1.1"]


@pytest.mark.parametrize("name", ["attention_mask", "position_bias"])
def test_a_mask_or_a_bias_of_the_models_own_is_refused_by_name(name: str) -> None:
    query, key, value, _ = inputs(Case(parents=()))
    view = BlockView(5, torch.tensor([5]), None)
    arguments: dict[str, Any] = {"attention_mask": None, name: torch.zeros(2)}
    with pytest.raises(ValueError, match=name):
        attend_layer(torch.nn.Identity(), query, key, value, block=view, **arguments)


@pytest.mark.parametrize("heads", [2, 8])
def test_a_steady_pass_rounds_the_same_wherever_a_key_lies(heads: int) -> None:
    """One row's 1,100 keys, all in order, or the last 20 of them at every third row of a block."""
    source = torch.Generator().manual_seed(heads)
    query, key, value = (torch.randn((1, heads, 1100, 64), generator=source).bfloat16() for _ in range(3))
    plain = BlockView(1099, torch.tensor([1099]), None, is_steady=True)
    expected, _ = attend_layer(torch.nn.Identity(), query[:, :, -1:], key, value, None, block=plain)
    rows = torch.arange(0, 60, 3)
    visible = torch.eye(60, dtype=torch.bool)
    visible[:, rows] |= torch.arange(60)[:, None] >= rows
    spread = [torch.cat((part[:, :, :1080], part[:, :, -60:]), dim=2) for part in (key, value)]
    for part, whole in zip(spread, (key, value), strict=True):
        part[:, :, 1080 + rows] = whole[:, :, 1080:]
    queries = query[:, :, -60:].clone()
    queries[:, :, 57] = query[:, :, -1]
    view = BlockView(1080, torch.arange(1080, 1140), visible, is_steady=True)
    said, _ = attend_layer(torch.nn.Identity(), queries, *spread, None, block=view)
    assert torch.equal(said[:, 57], expected[:, 0])


@pytest.mark.parametrize("case", [Case(), Case(softcap=2.0), Case(has_sinks=True, window=3)], ids=repr)
def test_a_steady_pass_stays_near_the_definition(case: Case) -> None:
    torch.testing.assert_close(attended(case, is_steady=True).double(), reference(case), atol=2e-5, rtol=2e-5)
