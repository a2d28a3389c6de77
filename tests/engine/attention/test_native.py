"""Our attention for CPUs: a row's bits depend on nothing but the text before it."""

import pytest
import torch
from torch import Tensor

from app.engine.attention import BlockView, LayerCache, Scoring, sdpa
from app.engine.attention.backend_choice import Attention, DeviceCapabilities, HeadShape, choose_attention
from app.engine.block.block import Block
from app.engine.cpu_kernels import cpu_kernels
from tests.tiers import named, pairwise

pytestmark = pytest.mark.skipif(cpu_kernels() is None, reason="there is no C compiler here")

SHAPE = HeadShape(6, 2, 24, torch.float32)
SHAPES = named([SHAPE, HeadShape(4, 4, 64, torch.float32), HeadShape(8, 1, 72, torch.float32)])


def machine() -> DeviceCapabilities:
    return DeviceCapabilities(torch.device("cpu"), cpu_kernels=cpu_kernels())


def native() -> Attention:
    return choose_attention("auto", machine(), SHAPE)


def test_it_is_the_default_for_float32_alone() -> None:
    assert native().name == "native"
    assert choose_attention("auto", machine(), HeadShape(6, 2, 24, torch.bfloat16)).name == "sdpa"
    assert choose_attention("auto", machine(), HeadShape(6, 2, 20, torch.float32)).name == "sdpa"


@pairwise(
    shape=SHAPES,
    prefix=named([0, 1, 29, 31, 32, 250, 255, 256, 300, 511, 513]),
    threads=named([1, 2]),
    deep=(),
)
def test_a_line_of_a_tree_has_the_bits_of_single_steps(shape: HeadShape, prefix: int, threads: int) -> None:
    """Rows 0, 2, 5, 6, ... are the text; between them lie guesses that see the text before them."""
    real = (0, 2, 5, 6, 9)
    rows, states = 11, torch.Generator().manual_seed(prefix)
    query = torch.randn((1, shape.count, rows, shape.size), generator=states)
    keys, values = torch.randn((2, 1, shape.shared, prefix + rows, shape.size), generator=states)
    parents = tuple(max((each for each in real if each < row), default=-1) for row in range(rows))
    torch.set_num_threads(threads)
    try:
        together = attended(query, keys, values, parents, prefix)
    finally:
        torch.set_num_threads(1)
    order = [*range(prefix), *(prefix + row for row in real)]
    line = LayerCache(keys[:, :, order], values[:, :, order])
    for depth, row in enumerate(real):
        end = prefix + depth + 1
        alone = attended(
            query[:, :, row : row + 1],
            line.keys[:, :, :end].contiguous(),
            line.values[:, :, :end].contiguous(),
            (-1,),
            end - 1,
        )
        assert torch.equal(together[:, row], alone[:, 0])
    torch.testing.assert_close(together, expected(query, keys, values, parents, prefix))


def attended(query: Tensor, keys: Tensor, values: Tensor, parents: tuple[int, ...], prefix: int) -> Tensor:
    return native().attend(query, LayerCache(keys, values), view(parents, prefix), Scoring(0.3))


def expected(query: Tensor, keys: Tensor, values: Tensor, parents: tuple[int, ...], prefix: int) -> Tensor:
    return sdpa.attend(query, LayerCache(keys, values), view(parents, prefix), Scoring(0.3))


def view(parents: tuple[int, ...], prefix: int) -> BlockView:
    rows = len(parents)
    return BlockView(
        Block((0,) * rows, tuple(range(prefix, prefix + rows)), parents, (0,)), prefix, sdpa.attend
    )
