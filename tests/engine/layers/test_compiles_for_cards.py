"""The kernels of fused layers compile and link for real cards, and keep their registers."""

import pytest

from tests.engine.offline_compiler import SHARED_MEMORY, Compiled

pytestmark = pytest.mark.thorough


def test_every_kernel_fits_and_spills_nothing(card: tuple[int, int], kernels: list[Compiled]) -> None:
    assert {each.kernel for each in kernels} == {"norm_kernel", "gate_kernel", "rotary_kernel"}
    for each in kernels:
        assert each.shared <= SHARED_MEMORY[card], each
        assert each.spilled == 0, each


def test_a_norm_adds_in_one_order_alone_and_after_a_sum(kernels: list[Compiled]) -> None:
    """So the residual sum that is fused to a norm changes none of the norm's bits."""
    launches = {each.launch for each in kernels if each.kernel == "norm_kernel"}
    for launch in launches:
        orders = [each.sums for each in kernels if each.launch == launch]
        assert len(orders) == 2 and orders[0] == orders[1] != (), launch
