"""8-bit weights by the CPU's own kernel: the product of the numbers, and rows that know nothing of each other."""

import platform
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import torch

from app.engine.cpu_kernels import SOURCE, cpu_kernels
from app.engine.layers.int8_linear_cpu import NativeInt8Linear
from app.engine.layers.quantisation import find_kernel
from app.engine.machine.compiling import FLAGS
from tests.engine.layers.test_quantised_layers import numbers, states
from tests.tiers import named, some

pytestmark = pytest.mark.skipif(cpu_kernels() is None, reason="there is no C compiler here")

SHAPES = [(33, 160), (64, 172), (7, 8), (128, 1536), (7, 64), (40, 128)]
"""Sizes of 64 and its multiples go to the matrix unit, where the processor has one."""


@pytest.mark.parametrize("shape", SHAPES)
def test_it_makes_the_product_of_the_numbers(shape: tuple[int, int]) -> None:
    given, bias = numbers(8, *shape), torch.randn(shape[0])
    layer = NativeInt8Linear(given, bias, torch.float32)
    for rows in (1, 2, 3, 4, 17, 33):
        fed = states(rows, shape[1], torch.float32)
        expected = fed @ given.dense().t() + bias
        # Activations are rounded to 1/10,000 of their row's largest, or finer.
        assert (layer(fed) - expected).norm() < 2e-4 * expected.norm()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("threads", [1, 2])
def test_a_row_has_the_same_bits_among_any_others(shape: tuple[int, int], threads: int) -> None:
    layer = NativeInt8Linear(numbers(8, *shape), None, torch.float32)
    fed = states(65, shape[1], torch.float32)
    whole = layer(fed)
    torch.set_num_threads(threads)
    try:
        parts = torch.cat([layer(part) for part in fed.split([1, 2, 3, 5, 54], dim=1)], dim=1)
    finally:
        torch.set_num_threads(1)
    assert torch.equal(whole, parts)


def test_rows_of_zeros_and_of_huge_values_stay_finite() -> None:
    layer = NativeInt8Linear(numbers(8, 16, 64), None, torch.float32)
    rows = torch.stack([torch.zeros(64), torch.full((64,), 1e30)])
    product = layer(rows[None])[0]
    assert torch.equal(product[0], torch.zeros(16))
    assert product.isfinite().all()


def test_the_largest_sum_fits_its_32_bits() -> None:
    given = numbers(8, 4, 40_000)
    given.values.fill_(-127)
    layer = NativeInt8Linear(given, None, torch.float32)
    expected = given.dense().double().sum(1)
    assert torch.allclose(layer(torch.ones(1, 40_000))[0].double(), expected, rtol=0.02)


def test_float32_on_a_cpu_takes_it_and_other_types_do_not() -> None:
    cpu = torch.device("cpu")
    assert find_kernel(8, torch.float32, cpu).kernel is NativeInt8Linear
    assert find_kernel(8, torch.bfloat16, cpu).kernel is not NativeInt8Linear
    with pytest.raises(ValueError, match="needs float32"):
        NativeInt8Linear(numbers(8, 8, 8), None, torch.bfloat16)


@pytest.mark.skipif(not shutil.which("gcc") or platform.machine() != "x86_64", reason="gcc tells it, for x86")
@pytest.mark.parametrize("processor", some(named(("haswell", "icelake-server")), "haswell"))
def test_the_compiler_keeps_a_products_sums_in_registers(processor: str, tmp_path: Path) -> None:
    flags = (*(flag for flag in FLAGS if flag != "-march=native"), *SOURCE.flags, f"-march={processor}")
    command = ("gcc", *flags, "-fstack-usage", "-c", str(SOURCE.file), "-o", str(tmp_path / "kernels.o"))
    subprocess.run(command, check=True)
    used = re.findall(r":multiply_\d\S*\t(\d+)\t", (tmp_path / "kernels.su").read_text())
    # With sums in memory it was 1,280 bytes, and AVX2's steps took one and a half times as long.
    assert len(used) >= 6 and max(map(int, used)) <= 600
