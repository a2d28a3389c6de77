"""torch's FlexAttention over the same layer, in a section of its own: compiling it may take long, or fail."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from app.engine.gpu_report.attention_times import Layer, copy_finding
from app.engine.gpu_report.correctness import backend
from app.engine.gpu_report.findings import Finding
from app.engine.gpu_report.gauge import Gauge, Run
from app.engine.gpu_report.plan import Plan

FLEX = "flex_attention"


@torch.inference_mode()
def flex_times(plan: Plan, gauge: Gauge) -> Iterator[Finding]:
    """At one number of rows, the longest prefixes first; the best of our backends beside it in turn."""
    copied = gauge.bandwidth()
    yield copy_finding(FLEX, copied)
    flex = torch.compile(flex_attention) if plan.is_flex_compiled else flex_attention
    for prefix in sorted(plan.prefixes, reverse=True):
        for heads in plan.heads:
            layer = Layer(heads, prefix, plan.judged_rows, plan.torch_dtype, gauge.device)
            ours = backend("auto", heads, plan.torch_dtype, gauge.device)
            by_flex = flex_run(layer, flex)
            yield layer.finding(FLEX, gauge.kernel(by_flex, plan.samples), copied)
            beside = gauge.kernel(layer.run(ours.attend), plan.samples)
            yield layer.finding(f"{ours.name}, beside flex_attention", beside, copied)


def flex_run(layer: Layer, flex: Callable[..., Any]) -> Run:
    """One call; the mask is made before, as a step would make it once for all its layers."""
    query, (keys, values) = layer.query, layer.cache
    visible = torch.from_numpy(layer.view.block.visible).to(query.device)
    border = torch.tensor(layer.prefix, device=query.device)  # a number would be compiled in

    def is_seen(_batch: Tensor, _head: Tensor, row: Tensor, key: Tensor) -> Tensor:
        return (key < border) | visible[row, (key - border).clamp(min=0)]

    mask = create_block_mask(is_seen, None, None, layer.rows, keys.shape[2], device=str(query.device))
    return lambda: flex(query, keys, values, block_mask=mask, scale=layer.scoring.scale, enable_gqa=True)
