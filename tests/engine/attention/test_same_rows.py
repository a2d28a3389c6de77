"""One row of the fused kernels rounds the same whatever is computed with it, and wherever its keys lie.

A text of positions 0, 1, 2, ... is read in blocks of many kinds, with one query, key and value for each position;
every row that stands in the text must come out bit by bit as when it was alone and all before it was committed.
"""

from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from torch import Tensor

from app.engine.attention import Attend, BlockView, LayerCache, Scoring
from app.engine.block.block import MAX_DEPTH, Block, chain_block, padded
from tests.engine.attention.backends import triton_backend
from tests.engine.attention.cases import DEVICE
from tests.tiers import examples, named, pairwise, some, tiered

DTYPES = named([torch.float32, torch.float16, torch.bfloat16])
HEADS, SHARED, SIZE = 2, 1, 16
FULL = Scoring(0.4)


@pytest.fixture(scope="module")
def attend() -> Attend:
    return triton_backend()


@dataclass(frozen=True, slots=True)
class Text:
    """States of a text's positions: query [n, H, D], key and value [n, KV, D]."""

    query: Tensor
    key: Tensor
    value: Tensor
    scoring: Scoring

    def read(self, attend: Attend, block: Block, real: tuple[int, ...], prefix: int) -> Tensor:
        """The block's real rows [R, H, D] behind this prefix; the others hold noise."""
        noise = torch.Generator().manual_seed(len(block))
        states = [torch.randn((len(block), *each.shape[1:]), generator=noise).to(each) for each in self._all]
        at = [block.positions[row] for row in real]
        for made, each in zip(states, self._all, strict=True):
            made[list(real)] = each[at]
        query, *new = (made.transpose(0, 1)[None].to(DEVICE) for made in states)
        old = (each[:prefix].transpose(0, 1)[None].to(DEVICE) for each in (self.key, self.value))
        cache = LayerCache(*(torch.cat(pair, dim=2) for pair in zip(old, new, strict=True)))
        view = BlockView(block, prefix, attend, DEVICE)
        return attend(query, cache, view, self.scoring)[0, list(real)].cpu()

    def alone(self, attend: Attend, position: int) -> Tensor:
        """The row at this position [H, D], all before it committed."""
        return self.read(attend, chain_block((0,), position, ()), (0,), position)[0]

    @property
    def _all(self) -> tuple[Tensor, Tensor, Tensor]:
        return self.query, self.key, self.value


def text(length: int, dtype: torch.dtype, scoring: Scoring = FULL, seed: int = 0) -> Text:
    random = torch.Generator().manual_seed(seed)
    query = torch.randn(length, HEADS, SIZE, generator=random)
    key, value = torch.randn(2, length, SHARED, SIZE, generator=random)
    return Text(query.to(dtype), key.to(dtype), value.to(dtype), scoring)


def spread(count: int, stride: int, start: int) -> tuple[Block, tuple[int, ...]]:
    """Real rows 0, stride, 2 * stride, ... each below the one before; rows between them see those before."""
    real = tuple(range(0, count * stride, stride))
    parents = (-1, *((row - 1) // stride * stride for row in range(1, count * stride)))
    positions = tuple(start + row // stride + (row % stride > 0) for row in range(count * stride))
    return Block((0,) * (count * stride), positions, parents, ()), real


def chained(count: int, start: int) -> tuple[Block, tuple[int, ...]]:
    return chain_block((0,) * count, start, ()), tuple(range(count))


def widened(count: int, start: int) -> tuple[Block, tuple[int, ...]]:
    block, real = spread(count, 2, start)
    return padded(block, len(block) + 25, 0), real  # more rows than one tile has, with their heads


MOVED: dict[str, Callable[[int, int], tuple[Block, tuple[int, ...]]]] = {
    "drafted in a chain": chained,
    "drafted among others": lambda count, start: spread(count, 3, start),
    "in a block that is padded": widened,
}


@pairwise(kind=named(MOVED), dtype=DTYPES, end=named([9, 66, 290]), deep=())
def test_a_key_may_lie_in_the_prefix_or_in_the_block(
    attend: Attend, kind: str, dtype: torch.dtype, end: int
) -> None:
    said = text(end + 1, dtype)
    drafted = 7
    block, real = MOVED[kind](drafted, end + 1 - drafted)
    rows = said.read(attend, block, real, end + 1 - drafted)
    for row in (0, 3, 6):
        assert torch.equal(rows[row], said.alone(attend, end - 6 + row))


@pytest.mark.parametrize(
    "scoring",
    [Scoring(0.4, window=20), Scoring(0.4, window=100), Scoring(0.4, softcap=2.0)],
    ids=["short window", "window", "cap"],
)
def test_so_it_is_with_windows_and_caps(attend: Attend, scoring: Scoring) -> None:
    said = text(300, torch.float16, scoring)
    block, real = spread(5, 2, 295)
    rows = said.read(attend, block, real, 295)
    assert torch.equal(rows[-1], said.alone(attend, 299))


@pytest.mark.parametrize("dtype", some(DTYPES, "torch.float32"))
def test_the_deepest_guesses_of_a_tree_come_out_as_when_alone(attend: Attend, dtype: torch.dtype) -> None:
    said, start = text(MAX_DEPTH + 21, dtype), 20
    block, real = spread(MAX_DEPTH + 1, 2, start)
    rows = said.read(attend, block, real, start)
    for depth in (0, MAX_DEPTH - 1, MAX_DEPTH):
        assert torch.equal(rows[depth], said.alone(attend, start + depth))


@pytest.mark.thorough
@pytest.mark.parametrize("length", (40, 50))
def test_a_chain_of_any_length_ends_like_its_last_row(attend: Attend, length: int) -> None:
    said = text(300, torch.float16)
    block, real = chained(length, 300 - length)
    rows = said.read(attend, block, real, 300 - length)
    for row in (1, 37):
        assert torch.equal(rows[-row], said.alone(attend, 300 - row))


@tiered(
    lambda end, scoring: (end, scoring) == ("2080", "window"),
    end=named([2047, 2080, 4500]),
    scoring={"full": FULL, "window": Scoring(0.4, window=1500)},
)
def test_it_does_not_matter_how_many_spans_a_program_does(end: int, scoring: Scoring) -> None:
    said = text(end + 3, torch.float32, scoring)
    block, real = spread(3, 2, end)
    by_span, by_group, folded = (
        said.read(triton_backend(busy, many_spans=many), block, real, end)
        for busy, many in ((10**6, 10**6), (1, 1), (10**6, 1))
    )
    assert torch.equal(by_span, by_group)
    assert torch.equal(by_span, folded), "the spans of a group are folded by a kernel of its own"


def test_nor_how_many_rows_are_done_at_once() -> None:
    said = text(60, torch.float32)
    block, real = spread(5, 2, 55)
    whole = said.read(triton_backend(), block, real, 55)
    assert torch.equal(said.read(triton_backend(scratch=1), block, real, 55), whole)


@examples(10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_whatever_is_drafted(attend: Attend, data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 8))
    start = data.draw(st.integers(0, 40) | st.integers(240, 300))
    window = data.draw(st.sampled_from([0, 0, 3, 40]))
    said = text(start + count, torch.float16, Scoring(0.4, window), seed=count)
    block, real = spread(count, data.draw(st.integers(1, 4)), start)
    if data.draw(st.booleans()):
        block = padded(block, len(block) + data.draw(st.integers(0, 30)), 0)
    rows = said.read(attend, block, real, start)
    assert torch.equal(rows[-1], said.alone(attend, start + count - 1))
