"""Measures attention backends: their error against float64, and their times."""

from collections.abc import Iterator
from itertools import product
from random import Random

import torch
from torch import Tensor
from torch.utils.benchmark import Timer

from app.engine.attention import BlockView, LayerCache, Scoring, sdpa
from app.engine.attention.backend_choice import Attention, HeadShape, capabilities_of, choose_attention
from app.engine.block.block import Block
from app.engine.lookahead.draft_tree import DraftTree
from app.errors import AttentionUnavailable
from app.values.messages import AttentionName
from tools.gpu_report.plan import Plan, Row

BACKENDS: tuple[AttentionName, ...] = ("sdpa", "triton", "flash")
ALLOWED = {torch.bfloat16: 2**-7, torch.float16: 2**-10, torch.float32: 2**-16}
"""The largest error that a type's rounding explains, relative to a row's norm."""
MAX_DEPTH = 20


@torch.inference_mode()
def attention_errors(plan: Plan) -> Iterator[Row]:
    """Compare each backend with sdpa in float64, for a random draft tree after each prefix."""
    for name, heads in plan.heads.items():
        backends = _available(plan, heads)
        for prefix, rows in product((0, *plan.prefixes), plan.attention_rows):
            layer = Layer(plan, heads, prefix, rows)
            expected = layer.exact()
            for backend in backends:
                error = layer.attended(backend).double().sub(expected).norm(dim=-1) / expected.norm(dim=-1)
                worst = float(error.max().nan_to_num(nan=1e9))
                yield {
                    "heads": name,
                    "prefix": prefix,
                    "rows": rows,
                    "backend": backend.name,
                    "error": worst,
                    "is right": str(worst <= ALLOWED[heads.dtype]),
                }


@torch.inference_mode()
def attention_times(plan: Plan) -> Iterator[Row]:
    """Yield the milliseconds of one layer's attention by backend."""
    for name, heads in plan.heads.items():
        backends = _available(plan, heads)
        for prefix, rows in product(plan.prefixes, plan.attention_rows):
            layer = Layer(plan, heads, prefix, rows)
            row: Row = {"heads": name, "prefix": prefix, "rows": rows}
            for backend in backends:
                timer = Timer("attend(backend)", globals={"attend": layer.attended, "backend": backend})
                row[f"{backend.name} ms"] = 1000 * timer.blocked_autorange(min_run_time=plan.seconds).median
            yield row


def _available(plan: Plan, heads: HeadShape) -> list[Attention]:
    found = []
    for name in BACKENDS:
        try:
            found.append(choose_attention(name, capabilities_of(plan.torch_device), heads))
        except AttentionUnavailable:
            continue
    return found


class Layer:
    """One layer's random states for a random draft tree after a prefix."""

    def __init__(self, plan: Plan, heads: HeadShape, prefix: int, rows: int) -> None:
        def states(count: int, length: int) -> Tensor:
            source = torch.Generator(plan.device).manual_seed(count + length)
            shape = (1, count, length, heads.size)
            return torch.randn(shape, generator=source, device=plan.device).to(heads.dtype)

        self._block, self._prefix = random_tree(rows, prefix), prefix
        self._query = states(heads.count, rows)
        self._cache = LayerCache(states(heads.shared, prefix + rows), states(heads.shared, prefix + rows))
        self._scoring = Scoring(heads.size**-0.5)
        self._view = self._make_view()

    def attended(self, backend: Attention) -> Tensor:
        """Attend with a backend. Later calls reuse the first call's masks and tables, as a step's layers do."""
        return backend.attend(self._query, self._cache, self._view, self._scoring)

    def exact(self) -> Tensor:
        """Attend in float64, as the reference."""
        wide = LayerCache(*(states.double() for states in self._cache))
        return sdpa.attend(self._query.double(), wide, self._make_view(), self._scoring)

    def _make_view(self) -> BlockView:
        return BlockView(self._block, self._prefix, sdpa.attend, self._query.device)


def random_tree(rows: int, prefix: int) -> Block:
    """Return a draft tree of `rows` rows, at most MAX_DEPTH deep."""
    source, tree = Random(0), DraftTree([0])
    for token in range(1, rows):
        parents = [node for node in range(len(tree)) if tree.depths[node] < MAX_DEPTH]
        tree.add(source.choice(parents[-8:]), token, "prompt")
    positions = tuple(prefix + depth for depth in tree.depths)
    return Block(tuple(tree.tokens), positions, tuple(tree.parents), tuple(range(rows)))
