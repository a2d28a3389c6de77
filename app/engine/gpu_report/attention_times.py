"""One layer's attention by its rows and prefix: our backends beside a dense mask as transformers has it.

What must be read is the cache: keys and values of all key heads, prefix and block. Its bytes by the time it took
are the bandwidth, told as a share of a large copy's. The buffers lie as the cache's do, with room behind.
"""

from collections.abc import Callable, Iterator
from itertools import product

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from app.engine.attention import BlockView, LayerCache, Scoring
from app.engine.attention.sdpa import attend as attend_by_sdpa
from app.engine.gpu_report.correctness import backend
from app.engine.gpu_report.findings import Finding
from app.engine.gpu_report.gauge import Gauge, Run, Times
from app.engine.gpu_report.plan import Plan
from app.engine.gpu_report.shapes import HeadShape
from app.engine.gpu_report.trees import random_tree
from app.engine.kv_cache import CHUNK
from app.errors import AttentionUnavailable

DENSE = "dense mask, heads repeated"

Contender = Callable[[Tensor, LayerCache, BlockView, Scoring], Tensor]


@torch.inference_mode()
def attention_times(plan: Plan, gauge: Gauge) -> Iterator[Finding]:
    """Every point of the plan, the longest prefixes first: they are judged."""
    copied = gauge.bandwidth()
    yield copy_finding("attention", copied)
    for heads in plan.heads:
        contenders, missing = _contenders(plan, heads, gauge.device)
        yield from missing
        for prefix, rows in product(sorted(plan.prefixes, reverse=True), plan.attention_rows):
            layer = Layer(heads, prefix, rows, plan.torch_dtype, gauge.device)
            for name, attend in contenders.items():
                yield layer.finding(name, gauge.kernel(layer.run(attend), plan.samples), copied)


def copy_finding(section: str, bandwidth: float) -> Finding:
    """The measured copy that a section's shares are of."""
    return Finding("copy", {"section": section}, {"bytes_per_second": bandwidth})


def _contenders(
    plan: Plan, heads: HeadShape, device: torch.device
) -> tuple[dict[str, Contender], list[Finding]]:
    found: dict[str, Contender] = {DENSE: dense_mask}
    missing = []
    for name in plan.backends:
        try:
            found[name] = backend(name, heads, plan.torch_dtype, device).attend
        except AttentionUnavailable as error:
            missing.append(Finding("attention", {"heads": heads.name, "by": name}, {"not_run": str(error)}))
    return found, missing


def dense_mask(query: Tensor, cache: LayerCache, view: BlockView, scoring: Scoring) -> Tensor:
    """As transformers calls it: key heads repeated for each query head, one mask for all of them."""
    end, share = view.prefix_length + len(view.block), query.shape[1] // cache.keys.shape[1]
    key, value = (states[:, :, :end] for states in cache)
    if share > 1:
        key, value = (states.repeat_interleave(share, dim=1) for states in (key, value))
    mask = view.additive(scoring.window, 1, query.dtype)
    return scaled_dot_product_attention(query, key, value, attn_mask=mask, scale=scoring.scale)


class Layer:
    """A layer's states at one point, as a step hands them over."""

    def __init__(
        self, heads: HeadShape, prefix: int, rows: int, dtype: torch.dtype, device: torch.device
    ) -> None:
        self.heads, self.prefix, self.rows = heads, prefix, rows
        end = prefix + rows
        capacity = -(-end // CHUNK) * CHUNK
        self.query = torch.randn((1, rows, heads.count, heads.size), device=device).to(dtype).transpose(1, 2)
        buffers = (
            torch.randn((1, heads.shared, capacity, heads.size), device=device).to(dtype) for _ in range(2)
        )
        self.cache = LayerCache(*(buffer[:, :, :end] for buffer in buffers))
        self.view = BlockView(random_tree(rows, prefix), prefix, attend_by_sdpa, device)
        self.scoring = Scoring(heads.size**-0.5)

    def run(self, attend: Contender) -> Run:
        """One call; masks and tables are made by the first one, as a step makes them for all its layers."""
        return lambda: attend(self.query, self.cache, self.view, self.scoring)

    def finding(self, name: str, took: Times, copied: float) -> Finding:
        """What it came to."""
        read = self.heads.cache_bytes(self.prefix + self.rows, self.query.element_size())
        at: dict[str, str | int] = {
            "heads": self.heads.name,
            "prefix": self.prefix,
            "rows": self.rows,
            "by": name,
        }
        share = read / took.median / copied
        return Finding("attention", at, {"ms": took.to_json(), "bytes": read, "share_of_copy": share})
