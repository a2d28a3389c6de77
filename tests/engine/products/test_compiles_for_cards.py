"""The product kernel compiles and links for real cards: it fits, keeps its registers, and has one instruction."""

import pytest

from tests.engine.paper_card import SHARED_MEMORY, Compiled, compiled

HOPPER, LAPTOP = (9, 0), (8, 6)


@pytest.fixture(scope="module", params=[HOPPER, LAPTOP], ids=["H200", "laptop"])
def card(request: pytest.FixtureRequest) -> tuple[int, int]:
    found: tuple[int, int] = request.param
    return found


@pytest.fixture(scope="module")
def kernels(card: tuple[int, int], tmp_path_factory: pytest.TempPathFactory) -> list[Compiled]:
    return compiled("tests.engine.products.compiling", card, tmp_path_factory.mktemp("triton"))


def test_every_tile_fits_and_spills_nothing(card: tuple[int, int], kernels: list[Compiled]) -> None:
    assert kernels
    for each in kernels:
        assert each.shared <= SHARED_MEMORY[card], each
        assert each.spilled == 0, each


def test_all_tiles_of_a_card_are_made_of_one_matrix_instruction(
    card: tuple[int, int], kernels: list[Compiled]
) -> None:
    found = {each.instructions for each in kernels}
    assert found == {("HGMMA.64x128x16",) if card == HOPPER else ("HMMA.16816",)}
