"""Packed weights by the CPU's own kernels: products of the numbers, and rows that know nothing of each other."""

import platform
import shutil
import subprocess

import pytest
import torch

from app.engine.cpu_kernels import PACKED_SOURCE, packed_kernels
from app.engine.layers.packed_layers import PackedEmbedding, PackedLinear, dense
from app.engine.layers.packed_weight import PLANES, CpuPacker, Numbers
from app.engine.loading.gguf_blocks import IQ2_TABLE
from app.engine.machine.compiling import FLAGS
from tests.engine.layers.test_quantised_layers import states

FORMS = ("zero", "offset", "factors", "fine factors")
pytestmark = pytest.mark.skipif(packed_kernels() is None, reason="there is no C compiler here")


@pytest.mark.skipif(
    not shutil.which("gcc") or platform.machine() != "x86_64", reason="gcc knows these processors"
)
@pytest.mark.parametrize(
    "processor", ["x86-64", "haswell", "skylake-avx512", "icelake-server", "sapphirerapids"]
)
def test_it_compiles_for_processors_of_all_kinds(processor: str) -> None:
    flags = (
        *(flag for flag in FLAGS if flag != "-march=native"),
        *PACKED_SOURCE.flags,
        f"-march={processor}",
    )
    subprocess.run(
        ("gcc", *flags, "-Wno-psabi", "-Werror", "-fsyntax-only", str(PACKED_SOURCE.file)), check=True
    )


@pytest.mark.parametrize(
    ("bits", "form"),
    [
        *((bits, form) for bits in PLANES for form in FORMS),
        *((bits, "table and fine factors") for bits in (3, 4)),
    ],
)
def test_packed_numbers_of_each_kind_are_multiplied(bits: int, form: str) -> None:
    packed = CpuPacker()((40, 160), [some_numbers(bits, form)])
    layer = PackedLinear(packed, None)
    fed = states(70, 160, torch.float32)[0]
    expected = fed.double() @ dense(packed).double().t()
    assert (layer(fed) - expected).norm() < 0.02 * expected.norm()
    for count in (1, 2, 5, 6, 13):
        assert torch.equal(torch.cat([layer(part) for part in fed.split(count)]), layer(fed))


@pytest.mark.parametrize("bits", PLANES)
@pytest.mark.parametrize("sign", (1, -1))
def test_sums_of_the_largest_numbers_fit_and_many_rows_take_a_long_row_in_pieces(
    bits: int, sign: int
) -> None:
    zero, size = (32 if bits == 6 else 0 if bits in (4, 8) else 2 ** (bits - 1)), 66 * 32
    values = torch.full((40, size), 127 if bits == 8 else 2**bits - 1, dtype=torch.uint8)
    layer = PackedLinear(CpuPacker()((40, size), [Numbers(bits, values, torch.ones((40, 1)), zero)]), None)
    expected = torch.full((9, 40), float(sign * size * (int(values[0, 0]) - zero)))
    assert torch.equal(layer(torch.full((9, size), 127.0 * sign)), 127 * expected)


def some_numbers(bits: int, form: str, size: int = 160, rows: int = 40) -> Numbers:
    """Rows [rows, size] over the whole range of these bits."""
    source, groups = torch.Generator().manual_seed(0), size // 32
    values = torch.randint(0, 2**bits, (rows, size), generator=source, dtype=torch.uint8)
    factors = torch.randint(
        -60, 60, (rows, groups if form == "factors" else 2 * groups), generator=source, dtype=torch.int8
    )
    scale = (torch.rand((rows, groups if form == "zero" else 1), generator=source) / 100).half()
    if form == "zero":
        return Numbers(bits, values, scale, zero=0 if bits == 8 else 2 ** (bits - 1))
    zero = 32 if bits == 6 else 0  # sums of greater numbers do not fit 16 bits
    if form == "offset":
        return Numbers(bits, values, scale, zero, offset=-scale)
    if form == "table and fine factors":
        return Numbers(bits, values, scale, factors=factors, table=IQ2_TABLE)
    return Numbers(bits, values, scale, zero, factors, offset=scale, offset_factors=factors.abs())


def test_rows_of_a_packed_weight_can_be_looked_up() -> None:
    packed = CpuPacker()((40, 160), [some_numbers(5, "fine factors")])
    ids = torch.tensor([[3, 39, 0], [16, 3, 15]])
    assert torch.equal(PackedEmbedding(packed)(ids), dense(packed)[ids])
    assert torch.equal(PackedEmbedding(packed, factor=4.0)(ids), dense(packed)[ids] * 4)
