"""Packed weights on a GPU: on a card or interpreted."""

import sys

import pytest
import torch

from app.engine.layers.packed_layers import (
    PackedEmbedding,
    PackedInt4Linear,
    PackedInt8Linear,
    PackedLinear,
    dense,
    join_packed,
    packing_fault,
)
from app.engine.layers.packed_weight import PLANES, Numbers
from app.engine.layers.quantised_layers import QuantisedEmbedding
from app.engine.loading.gguf_blocks import IQ4_TABLE
from tests.engine.attention.cases import DEVICE
from tests.engine.layers.test_packed_layers import FORMS, some_numbers
from tests.engine.layers.test_quantised_layers import assert_is_product, states
from tests.engine.layers.test_quantised_layers import numbers as quantised_numbers
from tests.tiers import named, pairwise, some

pytest.importorskip("triton", reason="triton is not installed")
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="triton is not installed")


def expected_weight(numbers: Numbers) -> torch.Tensor:
    """Dequantise rows by the definition, in float64."""
    values = numbers.values.view(torch.int8 if numbers.bits == 8 else torch.uint8).double() - numbers.zero
    if numbers.table:
        values = torch.tensor(numbers.table).double()[numbers.values.long()]
    size = values.shape[1]

    def spread(part: torch.Tensor) -> torch.Tensor:
        return part.double().repeat_interleave(-(-size // part.shape[1]), 1)[:, :size] if part.numel() else 1

    weight = values * spread(numbers.factors) * spread(numbers.scale)
    if numbers.offset.numel():
        weight += spread(numbers.offset_factors) * spread(numbers.offset)
    return weight


@pairwise(bits=named(PLANES), form=named(FORMS), rows={"one": 1, "several": 17, "many": 129}, deep=())
def test_numbers_of_each_kind_are_multiplied(bits: int, form: str, rows: int) -> None:
    assert_multiplies(bits, form, rows)


@pytest.mark.parametrize("bits", (3, 4))
def test_a_table_and_factors_for_half_groups_are_multiplied(bits: int) -> None:
    assert_multiplies(bits, "table and fine factors", rows=17)


def assert_multiplies(bits: int, form: str, rows: int) -> None:
    from app.engine.layers.packed_weight_triton import FEW_ROWS, pack_for_gpu

    assert FEW_ROWS < 129

    numbers = some_numbers(bits, form)
    packed, weight = pack_for_gpu((40, 160), [numbers], DEVICE), expected_weight(numbers)
    assert torch.allclose(dense(packed).double().cpu(), weight, rtol=1e-6, atol=1e-9)
    fed = states(rows, 160, torch.float32)[0]
    found = packed.product(fed.to(DEVICE)).double().cpu()
    assert (found - fed.double() @ weight.t()).norm() < 1e-6 * weight.norm() * fed.norm()


@pytest.mark.parametrize("dtype", (torch.float16, torch.float32), ids=str)
def test_tables_odd_sizes_and_half_precision(dtype: torch.dtype) -> None:
    from app.engine.layers.packed_weight_triton import pack_for_gpu

    source = torch.Generator().manual_seed(1)
    values = torch.randint(0, 16, (33, 100), generator=source, dtype=torch.uint8)
    numbers = Numbers(4, values, torch.rand((33, 1), generator=source), table=IQ4_TABLE)
    packed, weight = pack_for_gpu((33, 100), [numbers], DEVICE), expected_weight(numbers)
    assert torch.equal(dense(packed).cpu(), weight.float())
    fed = states(20, 100, dtype)[0]
    found = packed.product(fed.to(DEVICE))
    assert found.dtype == dtype
    error = (found.double().cpu() - fed.double() @ weight.t()).norm()
    assert error < torch.finfo(dtype).eps * weight.norm() * fed.norm()


def test_a_row_has_the_same_bits_in_every_tile() -> None:
    from app.engine.layers.packed_weight_triton import pack_for_gpu

    packed = pack_for_gpu((40, 160), [some_numbers(5, "factors")], DEVICE)
    fed = states(101, 160, torch.float16)[0].to(DEVICE)
    alone = [packed.product(fed[[row]]) for row in (0, 40, 100)]
    assert all(torch.equal(packed.product(fed[:rows])[:1], alone[0]) for rows in (8, 16, 20, 40))
    assert torch.equal(packed.product(fed)[[0, 40, 100]], torch.cat(alone))


@pytest.mark.parametrize("size", some(named((1024, 33 * 32)), "1056"))
def test_programs_that_share_a_tile_add_up_its_product(size: int) -> None:
    from app.engine.layers.packed_weight_triton import pack_for_gpu, splits_of

    assert splits_of(40, size // 32) == 8
    packed = pack_for_gpu((40, size), [some_numbers(4, "fine factors", size)], DEVICE)
    fed = states(20, size, torch.float16)[0].to(DEVICE)
    first = packed.product(fed)
    expected = fed.double() @ dense(packed).double().t()
    assert (first.double() - expected).norm() < 1e-3 * expected.norm()
    assert torch.equal(packed.product(fed), first)
    assert all(torch.equal(packed.product(fed[:rows]), first[:rows]) for rows in (1, 8, 16))
    assert not packed.arrived.any()


def test_joined_weights_are_kept_once_and_each_still_multiplies() -> None:
    from app.engine.layers.packed_weight_triton import pack_for_gpu

    layers = [
        PackedLinear(pack_for_gpu((rows, 160), [some_numbers(4, "offset", rows=rows)], DEVICE), None)
        for rows in (64, 40)
    ]
    fed = states(3, 160, torch.float32)[0].to(DEVICE)
    expected = [layer(fed) for layer in layers]
    joined = join_packed(layers)
    assert joined is not None
    assert torch.equal(joined(fed), torch.cat(expected, -1))
    assert all(torch.equal(layer(fed), wanted) for layer, wanted in zip(layers, expected, strict=True))
    address = joined.packed.parts["numbers"].untyped_storage().data_ptr()
    assert all(layer.get_buffer("numbers").untyped_storage().data_ptr() == address for layer in layers)


def test_weights_of_different_forms_are_not_joined() -> None:
    from app.engine.layers.packed_weight_triton import pack_for_gpu

    def layer(rows: int, form: str, bits: int = 4) -> PackedLinear:
        return PackedLinear(pack_for_gpu((rows, 160), [some_numbers(bits, form, rows=rows)], DEVICE), None)

    assert join_packed([layer(64, "offset"), layer(64, "zero")]) is None
    assert join_packed([layer(64, "zero"), layer(64, "zero", 8)]) is None
    assert (
        join_packed([layer(40, "zero"), layer(64, "zero")]) is None
    )  # the first has a tile that is not full


@pairwise(
    kernel={"int8": PackedInt8Linear, "int4": PackedInt4Linear},
    dtype=named((torch.float16, torch.float32)),
    deep=(),
)
def test_quantised_layers_multiply_by_packed_weights(
    kernel: type[PackedInt8Linear], dtype: torch.dtype
) -> None:
    from app.engine.layers.packed_weight_triton import FEW_ROWS

    given = quantised_numbers(kernel.bits, 33, 160, DEVICE)
    layer = kernel(given, torch.randn(33).to(DEVICE, dtype), dtype)
    for rows in (17, FEW_ROWS + 1):
        assert_is_product(layer, given, rows, dtype)
    assert layer.weight.dtype == dtype
    torch.testing.assert_close(layer.weight.float(), given.dense(), rtol=1e-3, atol=1e-3)


def test_an_embedding_reads_the_weight_of_the_head_that_it_is_tied_to() -> None:
    table = QuantisedEmbedding(quantised_numbers(8, 20, 64, DEVICE), torch.float32, factor=4.0)
    head = PackedInt8Linear(table.numbers, None, torch.float32)
    ids = torch.tensor([[3, 0, 3]], device=DEVICE)
    assert torch.allclose(head.tied(table)(ids), table(ids))
    assert head.tied(table).get_buffer("numbers") is head.get_buffer("numbers")


def test_slices_are_packed_as_the_whole_is() -> None:
    from app.engine.layers.packed_weight_triton import pack_for_gpu

    source = torch.Generator().manual_seed(2)
    values = torch.randint(0, 256, (70, 64), generator=source, dtype=torch.uint8)
    scale = torch.rand((70, 2), generator=source)
    whole = Numbers(8, values, scale)
    slices = [Numbers(8, values[rows], scale[rows]) for rows in (slice(64), slice(64, 70))]
    one, several = (pack_for_gpu((70, 64), given, DEVICE) for given in ([whole], slices))
    assert torch.equal(dense(one), dense(several))
    assert torch.equal(dense(one).cpu(), values.view(torch.int8) * scale.repeat_interleave(32, 1))


def test_rows_are_looked_up_in_the_type_of_the_model() -> None:
    from app.engine.layers.packed_weight_triton import pack_for_gpu

    packed = pack_for_gpu((40, 160), [some_numbers(5, "fine factors")], DEVICE)
    ids = torch.tensor([[3, 39, 0], [16, 3, 15]], device=DEVICE)
    found = PackedEmbedding(packed, torch.float16, factor=4.0)(ids)
    assert found.dtype == torch.float16 and torch.equal(found, dense(packed)[ids].half() * 4)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a card")
def test_a_gpu_that_is_not_there_has_a_fault() -> None:
    assert packing_fault(torch.device("cuda"), torch.float16)
