"""Our kernel for weights of 8 bits: on a card or interpreted, and compiled for cards that are not there."""

import sys
from pathlib import Path

import pytest
import torch

from tests.engine.attention.cases import DEVICE
from tests.engine.layers.test_quantised_layers import assert_is_product, numbers, states
from tests.engine.offline_compiler import HOPPER, LAPTOP, SHARED_MEMORY, Launch, compiled, main
from tests.tiers import named, some

CARDS = (HOPPER, LAPTOP)


@pytest.mark.parametrize("dtype", (torch.float32, torch.float16), ids=str)
@pytest.mark.parametrize("shape", [(33, 160), (64, 172)])
def test_the_kernel_makes_the_product_of_the_numbers(dtype: torch.dtype, shape: tuple[int, int]) -> None:
    pytest.importorskip("triton", reason="triton is not installed")
    from app.engine.layers.int8_linear_triton import FEW_ROWS, TritonInt8Linear

    given = numbers(8, *shape, DEVICE)
    layer = TritonInt8Linear(given, torch.randn(shape[0]).to(DEVICE, dtype), dtype)
    for rows in (1, 17, 70, FEW_ROWS + 1):
        assert_is_product(layer, given, rows, dtype)


def test_a_row_has_the_same_bits_in_every_tile() -> None:
    pytest.importorskip("triton", reason="triton is not installed")
    from app.engine.layers.int8_linear_triton import TritonInt8Linear

    layer = TritonInt8Linear(numbers(8, 40, 200, DEVICE), None, torch.float32)
    fed = states(65, 200, torch.float32).to(DEVICE)
    alone = layer(fed[:, :1])
    assert all(torch.equal(layer(fed[:, :rows])[:, :1], alone) for rows in (16, 20, 65))


@pytest.mark.parametrize("card", some(named(CARDS), str(HOPPER)))
def test_it_fits_a_card_and_multiplies_on_its_matrix_unit(card: tuple[int, int], tmp_path: Path) -> None:
    found = compiled("tests.engine.layers.test_int8_linear_triton", card, tmp_path, "default")
    assert {each.kernel for each in found} == {"int8_product_kernel"}
    assert all(each.spilled == 0 and each.shared <= SHARED_MEMORY[card] for each in found)
    assert all(each.instructions for each in found if "float32" not in each.launch)


def product(rows: int, dtype: torch.dtype) -> Launch:
    """So many rows times a weight of 4096 by 4096."""

    def launch(_major: int, _shared_memory: int) -> None:
        from app.engine.layers.int8_linear_triton import int8_product

        weight, scale = torch.zeros((4096, 4096), dtype=torch.int8), torch.zeros(4096, dtype=dtype)
        int8_product(torch.zeros((rows, 4096), dtype=dtype), weight, scale)

    return launch


LAUNCHES: dict[str, Launch] = {
    "1 row": product(1, torch.bfloat16),
    "32 rows": product(32, torch.float16),
    "64 rows": product(64, torch.bfloat16),
    "64 rows in float32": product(64, torch.float32),
}

if __name__ == "__main__":
    main(LAUNCHES, ("1 row", "64 rows", "64 rows in float32"), sys.argv[1:])
