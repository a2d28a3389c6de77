"""Kernels that a reply may come to need are compiled when the model is loaded."""

from torch import Tensor

from app.engine.attention import Attend, BlockView, LayerCache, Scoring, sdpa
from app.engine.attention.selector import Attention
from app.engine.runner.runner import compile_variants
from tests.engine.architectures import LLAMA
from tests.engine.replies import load


def noting(name: str, calls: list[str]) -> Attend:
    """Attends, and notes that it was asked."""

    def attend(query: Tensor, cache: LayerCache, view: BlockView, scoring: Scoring) -> Tensor:
        calls.append(name)
        return sdpa.attend(query, cache, view, scoring)

    return attend


def test_every_variant_attends_once_in_every_layer() -> None:
    calls: list[str] = []
    spans, groups = noting("spans", calls), noting("groups", calls)
    model = LLAMA.make()
    load(model)
    compile_variants(model, Attention("triton", spans, spans, variants=(spans, groups)))
    layers = int(model.config.num_hidden_layers)
    assert calls == ["spans"] * layers + ["groups"] * layers
