"""Our product is right, and a row's bits are its own: alone, among any number of others, at any place."""

import pytest
import torch
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from torch import Tensor, nn

from app.engine.products.tiles import COLUMNS, MOST_ROWS, Card, choose_parts, inner
from tests.engine.attention.cases import DEVICE
from tests.engine.products.twins import MAJOR
from tests.tiers import examples, named, pairwise

pytest.importorskip("triton", reason="triton is not installed")

from app.engine.products.fixed import FixedLinear, FixedProduct, Product, on_device

DTYPES = [torch.float32, torch.float16, torch.bfloat16]
ROUNDING = {torch.float32: 4e-6, torch.float16: 2e-3, torch.bfloat16: 1e-2}
SHARED = 96 << 10
FEW, MANY = Card(MAJOR, 1, SHARED), Card(MAJOR, 64, SHARED)
"""One multiprocessor never cuts K; many cut it into as many parts as it has room for."""

SHAPES = {
    "smaller than a tile": (32, 48),
    "whole tiles": (COLUMNS, 512),
    "odd": (COLUMNS + 3, 517),
    "a row": (1, 640),
    "few of many": (7, 1031),
}


def states(rows: int, ins: int, dtype: torch.dtype, seed: int = 0) -> Tensor:
    made = torch.randn(rows, ins, generator=torch.Generator().manual_seed(seed))
    return made.to(DEVICE, dtype)


CARDS = {"whole": FEW, "in parts": MANY}
CASES = {"shape": SHAPES, "dtype": named(DTYPES), "product": CARDS}


@pytest.fixture(scope="module", params=CARDS.values(), ids=CARDS)
def product(request: pytest.FixtureRequest) -> Product:
    return on_device(request.param, DEVICE)


@pairwise(**CASES, has_bias={"bias": True, "no bias": False}, deep=(), indirect=["product"])
def test_it_is_the_product(
    product: Product, dtype: torch.dtype, shape: tuple[int, int], has_bias: bool
) -> None:
    outs, ins = shape
    rows, weight = states(19, ins, dtype), states(outs, ins, dtype, seed=1)
    bias = states(1, outs, dtype, seed=2)[0] if has_bias else None
    expected = rows.double() @ weight.double().T + (0 if bias is None else bias.double())
    said = product(rows, weight, bias)
    assert said.dtype == dtype
    error = (said.double() - expected).abs().max() / expected.abs().max()
    assert error < ROUNDING[dtype]


@pairwise(**CASES, deep=(), indirect=["product"])
def test_a_row_says_alone_what_it_says_among_others(
    product: Product, dtype: torch.dtype, shape: tuple[int, int]
) -> None:
    outs, ins = shape
    rows, weight, bias = (
        states(MOST_ROWS, ins, dtype),
        states(outs, ins, dtype, 1),
        states(1, outs, dtype, 2)[0],
    )
    whole = product(rows, weight, bias)
    for count in (1, 17, 64, 127):
        for first in (0, MOST_ROWS - count):
            some = slice(first, first + count)
            assert torch.equal(product(rows[some], weight, bias), whole[some])


def test_rows_beyond_a_block_say_it_too(product: Product) -> None:
    rows, weight = states(MOST_ROWS + 70, 64, torch.float16), states(32, 64, torch.float16, 1)
    whole = product(rows, weight, None)
    for row in (0, MOST_ROWS - 1, MOST_ROWS, MOST_ROWS + 69):
        assert torch.equal(product(rows[row : row + 1], weight, None), whole[row : row + 1])


def test_rows_may_lie_apart(product: Product) -> None:
    wide, weight = states(5, 128, torch.float16), states(32, 64, torch.float16, 1)
    for rows in (wide[:, 64:], wide.view(5, 64, 2)[:, :, 1], wide[:1].expand(5, 128)[:, :64]):
        assert torch.equal(product(rows, weight, None), product(rows.contiguous(), weight, None))


@examples(25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_whatever_the_shape(product: Product, data: st.DataObject) -> None:
    outs, ins = data.draw(st.integers(1, 300)), data.draw(st.integers(1, 700))
    dtype = data.draw(st.sampled_from(DTYPES))
    count = data.draw(st.integers(1, MOST_ROWS))
    row = data.draw(st.integers(0, count - 1))
    rows, weight = states(count, ins, dtype, seed=row), states(outs, ins, dtype, seed=count)
    whole = product(rows, weight, None)
    assert torch.equal(product(rows[row : row + 1], weight, None)[0], whole[row])
    expected = rows[row].double() @ weight.double().T
    scale = rows[row].double().norm() * weight.double().norm(dim=1).max()
    assert (whole[row].double() - expected).abs().max() <= ROUNDING[dtype] * scale


def test_other_rows_leave_no_trace_even_if_they_are_no_numbers(product: Product) -> None:
    rows, weight = states(20, 600, torch.float16), states(40, 600, torch.float16, 1)
    expected = product(rows[3:4], weight, None)
    rows[4:] = float("nan")
    assert torch.equal(product(rows, weight, None)[3:4], expected)


def test_the_tickets_are_given_back() -> None:
    product = FixedProduct(MANY, DEVICE)
    rows, weight = states(3, 2048, torch.float16), states(130, 2048, torch.float16, 1)
    assert choose_parts(130, 2048, 2, MANY).count > 1
    first = product(rows, weight, None)
    assert not product._tickets.any()
    assert torch.equal(product(rows, weight, None), first)


def test_what_is_cut_in_parts_is_added_up_first_to_last() -> None:
    """Parts of 3, 2e8 and -2e8: from the first to the last the 3 is rounded away, and back to front it stays."""
    ins = 16 * inner(4)
    parts = choose_parts(1, ins, 4, MANY)
    assert parts.count == 4
    rows = torch.zeros(1, ins, device=DEVICE)
    rows[0, [0, parts.span, 2 * parts.span]] = torch.tensor([3.0, 2e8, -2e8], device=DEVICE)
    said = on_device(MANY, DEVICE)(rows, torch.ones(1, ins, device=DEVICE), None)
    assert said.item() == 0.0


@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
def test_it_takes_a_linears_place(product: Product, bias: bool) -> None:
    linear = nn.Linear(48, 32, bias=bias, device=DEVICE, dtype=torch.float16).requires_grad_(False)
    fixed = FixedLinear(linear, product)
    assert fixed.weight is linear.weight and (fixed.bias is linear.bias)
    for shape in ((1, 0, 48), (1, 3, 48), (48,), (2, 3, 48)):
        rows = torch.ones(shape, device=DEVICE, dtype=torch.float16)
        torch.testing.assert_close(fixed(rows), linear(rows), atol=1e-2, rtol=1e-2)
