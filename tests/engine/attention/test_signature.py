"""What a pass and a layer are to attention."""

from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from app.engine.attention import BlockView, LayerCache, Scoring, attend_layer, sdpa
from app.engine.block.block import chain_block
from tests.engine.attention.cases import Case, inputs
from tests.engine.lookahead.drafting import drawn

ONE_ROW = Case(parents=())


class Recorder:
    """Attends like sdpa, and keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[Scoring] = []

    def __call__(
        self, query: torch.Tensor, cache: LayerCache, view: BlockView, scoring: Scoring
    ) -> torch.Tensor:
        self.asked.append(scoring)
        return sdpa.attend(query, cache, view, scoring)


def called(view: BlockView, **arguments: Any) -> torch.Tensor:
    given = inputs(ONE_ROW)
    arguments = {"attention_mask": None, **arguments}
    out, weights = attend_layer(
        torch.nn.Identity(), given.query, given.cache.keys, given.cache.values, block=view, **arguments
    )
    assert weights is None
    return out


def test_a_layer_tells_the_backend_what_only_it_knows() -> None:
    recorder, sinks = Recorder(), torch.zeros(4)
    view = BlockView(ONE_ROW.block, ONE_ROW.prefix, recorder)
    called(view, scaling=0.3, sliding_window=3, softcap=2.0, s_aux=sinks)
    assert recorder.asked == [Scoring(0.3, 3, 2.0, sinks)]


def test_a_pass_remembers_the_window_of_each_layer() -> None:
    view = BlockView(ONE_ROW.block, ONE_ROW.prefix, sdpa.attend)
    for window in (None, 3, 0):
        called(view, sliding_window=window)
    assert view.windows == [0, 3, 0]


@pytest.mark.parametrize("name", ["attention_mask", "position_bias"])
def test_a_mask_or_a_bias_of_the_models_own_is_refused_by_name(name: str) -> None:
    view = BlockView(ONE_ROW.block, ONE_ROW.prefix, sdpa.attend)
    with pytest.raises(ValueError, match=name):
        called(view, **{name: torch.zeros(2)})


def test_layers_of_a_kind_share_one_mask() -> None:
    view = BlockView(chain_block((1, 2), 5, ()), 5, sdpa.attend)
    assert view.sight(3) is view.sight(3)
    assert view.sight(0) is view.sight(0)
    assert view.additive(3, 2, torch.float32) is view.additive(3, 2, torch.float32)
    assert view.path_table() is view.path_table()
    assert view.lengths is view.lengths


class Copies(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes for each copy to another device whether the host waits for it."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.waits: list[bool] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        del types
        if "_to_copy" in str(func):
            self.waits.append(not (kwargs or {}).get("non_blocking"))
        return func(*args, **(kwargs or {}))


def test_no_upload_of_a_pass_is_waited_for() -> None:
    with Copies() as copies:
        view = BlockView(chain_block((1, 2), 5, ()), 5, sdpa.attend, torch.device("meta"))
        view.positions, view.path_table(), view.lengths, view.sight(0)
    assert copies.waits == [False] * 4


def test_masks_of_two_types_are_two() -> None:
    view = BlockView(chain_block((1, 2), 5, ()), 5, sdpa.attend)
    masks = [view.additive(0, 1, dtype) for dtype in (torch.float32, torch.float64)]
    assert [mask.dtype for mask in masks if mask is not None] == [torch.float32, torch.float64]


def test_one_row_sees_everything_and_needs_no_mask() -> None:
    view = BlockView(chain_block((1,), 5, ()), 5, sdpa.attend)
    assert view.sight(0) is None
    assert view.additive(0, 4, torch.float32) is None


def test_a_sliding_window_counts_positions_and_not_rows() -> None:
    sight = BlockView(Case(prefix=3, parents=(0, 0)).block, 3, sdpa.attend).sight(2)
    assert sight is not None
    #                          prefix | block: 3, its children 4 and 4
    assert drawn(sight.numpy()) == ["..11..", "...11.", "...1.1"]


def test_a_given_table_of_paths_is_used() -> None:
    table = torch.zeros((1, 34), dtype=torch.int32)
    assert BlockView(chain_block((1,), 5, ()), 5, sdpa.attend, paths=table).path_table() is table
