"""The fused kernels compile and link for real cards: they fit, keep their registers, and add in one order."""

import pytest

from tests.engine.attention.compiling import AGAIN
from tests.engine.offline_compiler import HOPPER, SHARED_MEMORY, Compiled


def named(kernels: list[Compiled], kernel: str, launch: str) -> Compiled:
    return next(each for each in kernels if (each.kernel, each.launch) == (kernel, launch))


def test_every_kernel_fits_and_keeps_its_registers(card: tuple[int, int], kernels: list[Compiled]) -> None:
    assert {each.kernel for each in kernels} == {"prefix_kernel", "finish_kernel"}
    for each in kernels:
        assert each.shared <= SHARED_MEMORY[card], each
        assert each.spilled == 0, each


def test_half_precision_is_multiplied_by_matrix_units_and_float32_is_not(
    card: tuple[int, int], kernels: list[Compiled]
) -> None:
    unit = "HGMMA" if card == HOPPER else "HMMA"
    for each in kernels:
        wanted = "" if "float32" in each.launch else "HMMA" if each.kernel == "finish_kernel" else unit
        assert {name.split(".")[0] for name in each.instructions} == ({wanted} if wanted else set()), each


def test_a_long_prompt_in_pieces_needs_no_kernel_of_its_own(kernels: list[Compiled]) -> None:
    assert AGAIN not in {each.launch for each in kernels}


@pytest.mark.thorough
def test_few_rows_by_spans_and_many_by_groups_add_in_one_order(kernels: list[Compiled]) -> None:
    spans, groups = (named(kernels, "prefix_kernel", launch) for launch in ("128, spans", "128, groups"))
    assert (spans.sums, spans.instructions) == (groups.sums, groups.instructions)
    assert len(spans.sums) >= 3  # two products, and the sum of the weights
