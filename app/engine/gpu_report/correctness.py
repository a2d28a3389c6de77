"""Every backend against attention in float64, and a row's bits against those of the row alone."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from app.engine.attention import Attend, BlockView, LayerCache, Scoring
from app.engine.attention.choosing import Attention, Heads, choose, machine_of
from app.engine.block import Block, chain_block, padded
from app.engine.gpu_report.findings import Finding
from app.engine.gpu_report.gauge import Gauge
from app.engine.gpu_report.plan import LayerCase, Plan
from app.engine.gpu_report.shapes import HeadShape
from app.engine.gpu_report.trees import defined, random_tree, sees
from app.errors import AttentionUnavailable
from app.messages import AttentionChoice

ROUNDING = {torch.bfloat16: 2**-7, torch.float16: 2**-10}
"""How far a row may be from the definition, in parts of its length: in half precision the distance of 1 and the
next number, which is what rounding its values can make. Sums are made in float32, where that does not show."""

SUMMING = 2**-23
"""In float32 the sums themselves show: as often as a head has values, this distance."""

UNWRITTEN = 3
"""Slots behind the block, full of NaN: what was never written must not be read."""

DRAFTED = 7
"""Real rows of a block whose bits are compared."""


@torch.inference_mode()
def correctness(plan: Plan, gauge: Gauge) -> Iterator[Finding]:
    """The error of every backend in every case, then the bits."""
    for case in plan.cases:
        for name in plan.backends:
            yield _against_float64(case, name, gauge.device)
    for end in plan.ends:
        for heads in plan.heads[:2]:
            yield from _same_rows(plan, heads, end, gauge.device)


def backend(name: AttentionChoice, heads: HeadShape, dtype: torch.dtype, device: torch.device) -> Attention:
    """The backend for such a layer; raises AttentionUnavailable where it cannot be used."""
    return choose(name, machine_of(device), Heads(heads.count, heads.shared, heads.size, dtype))


def _against_float64(case: LayerCase, name: AttentionChoice, device: torch.device) -> Finding:
    at: dict[str, str | int] = {
        "backend": name,
        "heads": f"{case.heads.count}/{case.heads.shared} of {case.heads.size}",
        "dtype": str(case.dtype).removeprefix("torch."),
        "prefix": case.prefix,
        "rows": case.rows,
        "extra": _extra(case),
    }
    try:
        attend = backend(name, case.heads, case.dtype, device).attend
    except AttentionUnavailable as unavailable:
        return Finding("error", at, {"not_run": str(unavailable)})
    error, finite = _error(case, attend, device)
    return Finding("error", at, {"error": error, "allowed": allowed(case), "is_finite": finite})


def allowed(case: LayerCase) -> float:
    """The worst error, in parts of a row's length, that the case's type explains."""
    return ROUNDING.get(case.dtype, SUMMING * case.heads.size)


def _extra(case: LayerCase) -> str:
    words = {"window": case.window, "cap": case.softcap, "sinks": case.has_sinks}
    return ", ".join(word if value is True else f"{word} {value}" for word, value in words.items() if value)


def _error(case: LayerCase, attend: Attend, device: torch.device) -> tuple[float, bool]:
    """The worst row's distance from the definition in parts of its length, and whether all values are finite."""
    heads, block = case.heads, random_tree(case.rows, case.prefix)
    query = _drawn((1, case.rows, heads.count, heads.size), case.dtype, device, 0).transpose(1, 2)
    keys, values = (
        _drawn((1, heads.shared, case.prefix + case.rows, heads.size), case.dtype, device, seed)
        for seed in (1, 2)
    )
    sinks = _drawn((heads.count,), torch.float32, device, 3) if case.has_sinks else None
    roomy = LayerCache(*(pad(states, (0, 0, 0, UNWRITTEN), value=torch.nan) for states in (keys, values)))
    scoring = case.scoring(sinks)
    out = attend(query, roomy, BlockView(block, case.prefix, attend, device), scoring).double()
    sight = sees(block, case.prefix, case.window, device)
    expected = defined(query, LayerCache(keys, values), sight, scoring)
    worst = ((out - expected).norm(dim=-1) / expected.norm(dim=-1)).max()
    return float(worst.nan_to_num(nan=1e9)), bool(out.isfinite().all())


def _drawn(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device, seed: int) -> Tensor:
    source = torch.Generator(device).manual_seed(seed)
    return torch.randn(shape, generator=source, device=device).to(dtype)


@dataclass(frozen=True, slots=True)
class _Text:
    """States of a text's positions: query [n, H, D], key and value [n, KV, D]."""

    query: Tensor
    key: Tensor
    value: Tensor
    scoring: Scoring

    def read(self, attend: Attend, block: Block, real: Sequence[int], prefix: int) -> Tensor:
        """The block's real rows [R, H, D] behind this prefix; the others hold noise."""
        states = [
            _drawn((len(block), *each.shape[1:]), each.dtype, each.device, len(block))
            for each in (self.query, self.key, self.value)
        ]
        at = [block.positions[row] for row in real]
        for made, each in zip(states, (self.query, self.key, self.value), strict=True):
            made[list(real)] = each[at]
        query, *new = (made.transpose(0, 1)[None] for made in states)
        old = (each[:prefix].transpose(0, 1)[None] for each in (self.key, self.value))
        cache = LayerCache(*(torch.cat(pair, dim=2) for pair in zip(old, new, strict=True)))
        return attend(query, cache, BlockView(block, prefix, attend, query.device), self.scoring)[
            0, list(real)
        ]


def _same_rows(plan: Plan, heads: HeadShape, end: int, device: torch.device) -> Iterator[Finding]:
    """The last rows of a text up to position `end`: alone, and drafted in blocks of several kinds."""
    query, key, value = (
        _drawn((end + 1, count, heads.size), plan.torch_dtype, device, seed)
        for seed, count in enumerate((heads.count, heads.shared, heads.shared))
    )
    said = _Text(query, key, value, Scoring(heads.size**-0.5))
    for name in plan.backends:
        at: dict[str, str | int] = {"backend": name, "heads": heads.name, "end": end}
        try:
            attend = backend(name, heads, plan.torch_dtype, device).steady
        except AttentionUnavailable as error:
            yield Finding("same rows", at, {"not_run": str(error)})
            continue
        alone = torch.cat(
            [said.read(attend, chain_block((0,), p, ()), (0,), p) for p in range(end + 1 - DRAFTED, end + 1)]
        )
        for kind, (block, real) in _kinds(end + 1 - DRAFTED).items():
            rows = said.read(attend, block, real, end + 1 - DRAFTED)
            different = int((rows != alone).flatten(1).any(dim=1).sum())
            yield Finding("same rows", {**at, "kind": kind}, {"rows": len(real), "different": different})


def _kinds(start: int) -> dict[str, tuple[Block, tuple[int, ...]]]:
    """Blocks in which the same rows are drafted, committed keys before `start`."""
    chain = chain_block((0,) * DRAFTED, start, ())
    strewn, real = _strewn(3, start)
    return {
        "drafted in a chain": (chain, tuple(range(DRAFTED))),
        "drafted among others": (strewn, real),
        "padded to 64 rows": (padded(strewn, 64, 0), real),
    }


def _strewn(stride: int, start: int) -> tuple[Block, tuple[int, ...]]:
    """Real rows 0, 3, 6, ... each below the one before; the rows between see those before them."""
    count = DRAFTED * stride
    real = tuple(range(0, count, stride))
    visible = np.eye(count, dtype=np.bool_)
    for row in real:
        visible[row:, row] = True
    positions = tuple(start + row // stride + (row % stride > 0) for row in range(count))
    return Block((0,) * count, positions, visible, ()), real
