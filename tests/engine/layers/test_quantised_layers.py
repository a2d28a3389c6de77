"""Each kernel makes the product of the numbers that it was given, whatever the shape and the count of rows."""

import platform

import pytest
import torch
from torch import Tensor, nn

from app.engine.layers.quantised_layers import (
    CpuInt4Linear,
    CpuInt8Linear,
    CudaInt4Linear,
    QuantisedEmbedding,
    QuantisedLinear,
    QuantisedWeight,
    TiledInt4Linear,
    TiledInt8Linear,
    stands_for,
)
from tests.engine.attention.cases import DEVICE

GROUP = 32
CPU = torch.device("cpu")
TILED: tuple[type[QuantisedLinear], ...] = (TiledInt8Linear, TiledInt4Linear)
FOR_CPUS: tuple[type[QuantisedLinear], ...] = (CpuInt8Linear, CpuInt4Linear)
TYPES = (torch.float32, torch.bfloat16, torch.float16)
CASES = [(kernel, dtype) for kernel in TILED for dtype in TYPES] + [
    (kernel, torch.bfloat16) for kernel in (*FOR_CPUS, CudaInt4Linear)
]

every_kernel = pytest.mark.parametrize(("kernel", "dtype"), CASES, ids=str)
on_x86 = pytest.mark.skipif(
    platform.machine() not in ("x86_64", "AMD64"), reason="elsewhere torch's kernels may be others"
)


def numbers(bits: int, out_features: int, in_features: int, device: torch.device = CPU) -> QuantisedWeight:
    """Random numbers over their whole range, with scales as bfloat16 has them."""
    source = torch.Generator().manual_seed(0)
    group = in_features if bits == 8 else GROUP
    shape = (out_features, in_features // group)
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1)
    values = torch.randint(low, high, (out_features, in_features), generator=source, dtype=torch.int8)
    scale = (torch.rand(shape, generator=source) + 0.5).bfloat16().float() / high
    zero = torch.randint(-8, 8, shape, generator=source).float() if bits == 4 else torch.zeros(shape)
    return QuantisedWeight(values.to(device), scale.to(device), zero.to(device))


def device_of(kernel: type[QuantisedLinear]) -> torch.device:
    """Where a kernel is tried: on the card, if there is one. Skips kernels that need one where there is none."""
    if kernel is CudaInt4Linear and DEVICE.type != "cuda":
        pytest.skip("it is for cards")
    return CPU if kernel in FOR_CPUS else DEVICE


def states(rows: int, size: int, dtype: torch.dtype) -> Tensor:
    return torch.randn((1, rows, size), generator=torch.Generator().manual_seed(rows)).to(dtype)


def assert_is_product(layer: QuantisedLinear, given: QuantisedWeight, rows: int, dtype: torch.dtype) -> None:
    fed = states(rows, layer.in_features, dtype).to(given.values.device)
    product = layer(fed)
    assert (product.shape, product.dtype) == ((1, rows, layer.out_features), dtype)
    bias = 0.0 if layer.bias is None else layer.bias.double()
    expected = fed.double() @ given.dense().double().t() + bias
    error = {torch.float32: 1e-5, torch.bfloat16: 0.03, torch.float16: 0.01}[dtype]
    torch.testing.assert_close(product.double(), expected, rtol=error, atol=error * layer.in_features**0.5)


@every_kernel
@pytest.mark.parametrize("rows", [0, 1, 3, 16, 17, 70])
def test_the_product_is_that_of_the_numbers(
    kernel: type[QuantisedLinear], dtype: torch.dtype, rows: int
) -> None:
    device = device_of(kernel)
    given = numbers(kernel.bits, 96, 128, device)
    assert_is_product(kernel(given, torch.randn(96).to(device, dtype), dtype), given, rows, dtype)


@every_kernel
@pytest.mark.parametrize("shape", [(1, 64), (30, 96), (16, 32), (33, 160), (64, 172), (7, 10), (48, 8)])
def test_a_kernel_makes_the_product_of_every_shape_that_it_takes(
    kernel: type[QuantisedLinear], dtype: torch.dtype, shape: tuple[int, int]
) -> None:
    if not kernel.fits(*shape) or (kernel.bits == 4 and shape[1] % GROUP):
        pytest.skip("it says itself that it does not take this shape")
    given = numbers(kernel.bits, *shape, device_of(kernel))
    for rows in (1, 5, 20):
        assert_is_product(kernel(given, None, dtype), given, rows, dtype)


def test_torchs_kernels_are_kept_from_shapes_that_they_read_beyond() -> None:
    assert [kernel.fits(64, 172) for kernel in (TiledInt8Linear, CpuInt8Linear, CpuInt4Linear)] == [
        True,
        False,
        False,
    ]
    assert [kernel.fits(30, 96) for kernel in (CpuInt8Linear, CpuInt4Linear)] == [True, False]


@every_kernel
def test_the_weight_can_be_had_spread_out(kernel: type[QuantisedLinear], dtype: torch.dtype) -> None:
    given = numbers(kernel.bits, 48, 64, device_of(kernel))
    weight = kernel(given, None, dtype).weight
    assert (weight.shape, weight.dtype) == ((48, 64), dtype)
    torch.testing.assert_close(weight.float(), given.dense(), rtol=0.01, atol=0.01)


@pytest.mark.parametrize("kernel", TILED)
def test_tiles_of_any_size_make_the_same_weight(
    kernel: type[QuantisedLinear], monkeypatch: pytest.MonkeyPatch
) -> None:
    layer = kernel(numbers(kernel.bits, 48, 64), None, torch.float32)
    whole = layer.weight
    monkeypatch.setattr("app.engine.layers.quantised_layers.TILE", {"cpu": 7 * 64})
    assert torch.equal(layer.weight, whole)


def test_large_states_do_not_overflow_float16() -> None:
    """Whole numbers up to 127 times these states would."""
    given = numbers(8, 32, 64)
    product = TiledInt8Linear(given, None, torch.float16)(torch.full((1, 1, 64), 2000.0, dtype=torch.float16))
    assert torch.isfinite(product).all()


@on_x86
@pytest.mark.parametrize("kernel", FOR_CPUS)
def test_on_cpus_a_row_does_not_know_how_many_there_are(kernel: type[QuantisedLinear]) -> None:
    layer = kernel(numbers(kernel.bits, 256, 512), None, torch.bfloat16)
    fed = states(16, 512, torch.bfloat16)
    together = layer(fed)
    for rows in (1, 2, 3, 5, 8, 12):
        assert torch.equal(layer(fed[:, :rows]), together[:, :rows])


def test_an_embedding_looks_its_rows_up_and_lends_its_numbers_to_a_head() -> None:
    given = numbers(8, 20, 64)
    table = QuantisedEmbedding(given, torch.float32, factor=4.0)
    ids = torch.tensor([[3, 0, 3]])
    torch.testing.assert_close(table(ids), given.dense()[ids] * 4)
    assert TiledInt8Linear(table.numbers, None, torch.float32).get_buffer("values") is table.values


def test_an_embedding_that_does_more_than_look_up_is_found_out() -> None:
    class Shifted(nn.Embedding):
        def forward(self, input: Tensor) -> Tensor:
            return super().forward(input + 1)

    given = numbers(8, 20, 64)
    table = QuantisedEmbedding(given, torch.float32)
    assert stands_for(table, nn.Embedding(20, 64, _weight=given.dense()), given.dense())
    assert not stands_for(table, Shifted(20, 64, _weight=given.dense()), given.dense())
