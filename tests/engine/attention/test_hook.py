"""What transformers calls in each layer."""

from typing import Any

import pytest
import torch

from app.engine.attention import BlockView, LayerCache, Scoring, attend_layer, sdpa
from tests.engine.attention.cases import Case, inputs

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


def test_without_a_given_scale_it_is_one_over_the_root_of_the_size() -> None:
    view = BlockView(ONE_ROW.block, ONE_ROW.prefix, sdpa.attend)
    assert torch.equal(called(view), called(view, scaling=16**-0.5))


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
