"""The kernels are what torch's operations come to, and a row's bits are its own: alone, and among any others."""

from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from app.engine.block.block import CacheSlots
from app.engine.layers.fused_modules import Activation, HeadNorms, NormShape
from app.engine.layers.module_replacement import NORM_KINDS, mismatch_share
from tests.engine.attention.cases import DEVICE
from tests.support.written_out import WrittenOut
from tests.tiers import examples, named, pairwise

pytest.importorskip("triton", reason="triton is not installed")

from app.engine.layers.triton_kernels import PIECE, TritonKernels, on_device

# In its interpreter numpy warns of what a card does without a word.
pytestmark = pytest.mark.filterwarnings("ignore:(overflow|invalid value) encountered in")

KERNELS, EXPECTED = on_device(DEVICE), WrittenOut()
DTYPES = [torch.float32, torch.float16, torch.bfloat16]
SIZES = (1, 7, 32, 100, 128, 896, 2048)
TURNS = [(4, 2, 8, 8), (5, 5, 64, 64), (3, 1, 128, 128), (2, 1, 256, 256), (4, 2, 24, 8), (4, 4, 80, 20)]
SHAPES = [NormShape(1e-5, *kind) for kind in NORM_KINDS]
ACTIVATIONS: tuple[Activation, ...] = ("silu", "gelu_tanh")
BY_WEIGHING = {str(shape): shape for shape in SHAPES}


def drawn(*shape: int, dtype: torch.dtype, seed: int = 0, scale: float = 1.0) -> Tensor:
    made = torch.randn(shape, generator=torch.Generator().manual_seed(seed))
    return (scale * made).to(DEVICE, dtype)


@pairwise(size=named(SIZES), dtype=named(DTYPES), shape=BY_WEIGHING, deep=())
def test_a_norm_is_the_norm(dtype: torch.dtype, size: int, shape: NormShape) -> None:
    rows, others = (drawn(3, size, dtype=dtype, seed=seed) for seed in (1, 2))
    weight = drawn(size, dtype=dtype, seed=3)
    assert mismatch_share(KERNELS.rms_norm(rows, weight, shape), EXPECTED.rms_norm(rows, weight, shape)) <= 1
    total, rms_norm = KERNELS.add_rms_norm(rows, others, weight, shape)
    assert torch.equal(total, rows + others)
    assert torch.equal(rms_norm, KERNELS.rms_norm(total, weight, shape))


@pairwise(shape=BY_WEIGHING, dtype=named([torch.float16, torch.bfloat16]), deep=())
def test_in_half_precision_nearly_every_value_of_a_norm_has_torchs_bits(
    dtype: torch.dtype, shape: NormShape
) -> None:
    """Only the sum over a row is added in another order; rounding hides that but for one value in some thousand."""
    rows, weight = drawn(40, 2048, dtype=dtype), drawn(2048, dtype=dtype, seed=1)
    other = KERNELS.rms_norm(rows, weight, shape) != EXPECTED.rms_norm(rows, weight, shape)
    assert other.double().mean() < 2e-3


@pairwise(size=named([48, PIECE, PIECE + 3]), dtype=named(DTYPES), activation=named(ACTIVATIONS), deep=())
def test_a_gated_product_is_the_product(dtype: torch.dtype, activation: Activation, size: int) -> None:
    gate, up = drawn(3, size, dtype=dtype, scale=3), drawn(3, size, dtype=dtype, seed=1)
    expected = EXPECTED.gated_activation(gate, up, activation)
    assert mismatch_share(KERNELS.gated_activation(gate, up, activation), expected) <= 1
    joined = torch.cat((gate, up), dim=-1)
    assert torch.equal(
        KERNELS.gated_activation(*joined.chunk(2, dim=-1), activation),
        KERNELS.gated_activation(gate, up, activation),
    )


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_a_gate_may_be_wide_open_and_shut(activation: Activation) -> None:
    gate = torch.tensor([[-1e4, -200.0, -90.0, 0.0, 90.0, 200.0, 1e4]], device=DEVICE)
    expected = torch.tensor([[0.0, 0.0, 0.0, 0.0, 90.0, 200.0, 1e4]], device=DEVICE)
    torch.testing.assert_close(KERNELS.gated_activation(gate, torch.ones_like(gate), activation), expected)


PLACES = {"after": None, "places": torch.tensor([4, 2, 7], device=DEVICE)}


def cache_slots(rows: int, shared: int, size: int, dtype: torch.dtype, places: Tensor | None) -> CacheSlots:
    """A cache of more rows than are written, of which 2 are committed."""
    keys, values = torch.full((2, 1, shared, rows + 6, size), 7.0, dtype=dtype, device=DEVICE)
    return CacheSlots(keys, values, 2, places)


@pairwise(turn=named(TURNS), dtype=named(DTYPES), places=PLACES, deep=())
def test_a_turn_has_torchs_bits_and_lies_in_the_cache(
    dtype: torch.dtype, turn: tuple[int, int, int, int], places: Tensor | None
) -> None:
    """Products and sums alone: nothing is added in another order."""
    count, shared, size, width = turn
    heads = drawn(1, 3, count + 2 * shared, size, dtype=dtype).transpose(1, 2)
    tables = drawn(1, 3, width, dtype=dtype, seed=1), drawn(1, 3, width, dtype=dtype, seed=2)
    query, keys, values = heads.split([count, shared, shared], dim=1)
    for states in ((query, keys, values), (query.contiguous(), keys.contiguous(), values.contiguous())):
        found, expected = (cache_slots(3, shared, size, dtype, places) for _ in range(2))
        said = KERNELS.write_rotated(states, tables, found)
        assert torch.equal(said, EXPECTED.write_rotated(states, tables, expected))
        assert torch.equal(found.keys, expected.keys) and torch.equal(found.values, expected.values)


@pairwise(turn=named(TURNS), dtype=named(DTYPES), shape=BY_WEIGHING, deep=())
def test_heads_are_normalised_before_they_turn(
    dtype: torch.dtype, turn: tuple[int, int, int, int], shape: NormShape
) -> None:
    count, shared, size, width = turn
    query, keys, values = (
        drawn(1, heads, 3, size, dtype=dtype, seed=heads, scale=3) for heads in (count, shared, shared)
    )
    tables = drawn(1, 3, width, dtype=dtype, seed=1), drawn(1, 3, width, dtype=dtype, seed=2)
    norms = HeadNorms(drawn(size, dtype=dtype, seed=3), drawn(size, dtype=dtype, seed=4), shape)
    found, expected = (cache_slots(3, shared, size, dtype, None) for _ in range(2))
    said = KERNELS.write_rotated((query, keys, values), tables, found, norms)
    tolerance = {torch.float32: 1e-5, torch.float16: 0.01, torch.bfloat16: 0.06}[dtype]
    wanted = EXPECTED.write_rotated((query, keys, values), tables, expected, norms)
    torch.testing.assert_close(said, wanted, atol=tolerance, rtol=tolerance)
    torch.testing.assert_close(found.keys, expected.keys, atol=tolerance, rtol=tolerance)
    assert torch.equal(found.values, expected.values)


def test_bfloat16_is_rounded_by_hand_as_torch_rounds_it() -> None:
    """Halfway to even, above it up, over the largest to infinity; no number stays none."""
    halves = [(1.0, 2**-8), (1 + 2**-7, 2**-8), (1.0, 2**-8 + 2**-15), (-1.0, -(2**-8))]
    extremes = [(3e38, 3e38), (-3e38, -3e38), (float("nan"), 1.0), (float("inf"), -float("inf"))]
    pairs = torch.tensor([*halves, *extremes], dtype=torch.bfloat16, device=DEVICE)
    rows, others = pairs[:, :1], pairs[:, 1:]
    total, _ = KERNELS.add_rms_norm(rows, others, torch.ones_like(rows[0]), SHAPES[0])
    torch.testing.assert_close(total, rows + others, rtol=0, atol=0, equal_nan=True)


Rows = Callable[[Tensor], Tensor]


def row_by_row(dtype: torch.dtype, size: int) -> list[Rows]:
    """Every kernel as a function of rows [n, size], its other inputs made of these."""
    weight = drawn(size, dtype=dtype, seed=5)
    norms: list[Rows] = [lambda rows, shape=shape: KERNELS.rms_norm(rows, weight, shape) for shape in SHAPES]
    gates: list[Rows] = [
        lambda rows, activation=activation: KERNELS.gated_activation(rows, 0.5 * rows, activation)
        for activation in ACTIVATIONS
    ]

    def of_sum(rows: Tensor) -> Tensor:
        return torch.cat(KERNELS.add_rms_norm(rows, 0.5 * rows, weight, SHAPES[0]), dim=-1)

    def rotated(rows: Tensor, norms: HeadNorms | None = None) -> Tensor:
        heads = rows[None, :, None].expand(1, len(rows), 3, size).transpose(1, 2)
        slots = cache_slots(len(rows), 1, size, dtype, None)
        tables = rows[None], 0.5 * rows[None]
        query = KERNELS.write_rotated((heads, heads[:, :1], heads[:, 1:2]), tables, slots, norms)
        written = (each[:, :, 2 : 2 + len(rows)] for each in (slots.keys, slots.values))
        return torch.cat((query, *written), dim=1)[0].transpose(0, 1)

    def normalised(rows: Tensor) -> Tensor:
        return rotated(rows, HeadNorms(weight, weight, SHAPES[0]))

    return [*norms, *gates, of_sum, rotated, normalised]


@pairwise(size=named([32, 100, 640]), dtype=named(DTYPES), deep=())
def test_a_row_says_alone_what_it_says_among_others(dtype: torch.dtype, size: int) -> None:
    rows = drawn(5, size, dtype=dtype)
    for say in row_by_row(dtype, size):
        whole = say(rows)
        for first, last in ((4, 5), (2, 4)):
            assert torch.equal(say(rows[first:last]), whole[first:last])


@examples(10)
@given(st.integers(1, 150), st.integers(1, 6), st.sampled_from(DTYPES), st.data())
def test_whatever_the_shape(half: int, count: int, dtype: torch.dtype, data: st.DataObject) -> None:
    rows, row = drawn(count, 2 * half, dtype=dtype, seed=count), data.draw(st.integers(0, count - 1))
    for say in row_by_row(dtype, 2 * half):
        assert torch.equal(say(rows[row : row + 1]), say(rows)[row : row + 1])


def test_other_rows_leave_no_trace_even_if_they_are_no_numbers() -> None:
    rows = drawn(5, 64, dtype=torch.bfloat16)
    for say in row_by_row(torch.bfloat16, 64):
        expected = say(rows[2:3])
        broken = rows.clone()
        broken[:2], broken[3:] = float("nan"), float("inf")
        assert torch.equal(say(broken)[2:3], expected)


def test_rows_may_lie_anywhere() -> None:
    """Apart, or at an odd address: there a card would read, and so add, in another order."""
    weight = drawn(32, dtype=torch.float16)
    wide, flat = drawn(4, 64, dtype=torch.float16), drawn(33, dtype=torch.float16)
    for rows in (wide[:, :32], wide.T[:32].T, flat[1:].view(1, 32)):
        expected = KERNELS.rms_norm(rows.clone(), weight, SHAPES[0])
        assert torch.equal(KERNELS.rms_norm(rows, weight, SHAPES[0]), expected)
    heads = drawn(1, 2, 3, 32, dtype=torch.float16)
    assert KERNELS.rms_norm(heads, weight, SHAPES[0]).shape == heads.shape


def test_no_rows_are_no_work() -> None:
    nothing = drawn(1, 0, 32, dtype=torch.float16)
    assert KERNELS.rms_norm(nothing, nothing.new_ones(32), SHAPES[0]).shape == nothing.shape
    assert KERNELS.gated_activation(nothing, nothing, "silu").shape == nothing.shape


def test_only_a_cpu_rounds_by_hand() -> None:
    assert on_device(torch.device("cpu")) == TritonKernels(by_hand=True)
    assert on_device(torch.device("cuda")) == TritonKernels(by_hand=False)
