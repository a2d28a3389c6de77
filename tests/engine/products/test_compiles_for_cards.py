"""The product kernel compiles and links for real cards: it fits, keeps its registers, and has one instruction."""

from tests.engine.paper_card import HOPPER, SHARED_MEMORY, Compiled


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
