"""The shape of a product's work depends on weight, type and card; rows choose among tiles of one instruction."""

import pytest

from app.engine.products.tiles import (
    BUSY,
    COLUMNS,
    FEWEST,
    MOST_PARTS,
    Card,
    choose_parts,
    choose_tile,
    inner,
)

HOPPER, AMPERE, LAPTOP = Card(9, 132, 227 << 10), Card(8, 108, 163 << 10), Card(8, 24, 99 << 10)
BLACKWELL = Card(10, 148, 227 << 10)


@pytest.mark.parametrize("card", [HOPPER, AMPERE, LAPTOP], ids=["hopper", "ampere", "laptop"])
@pytest.mark.parametrize("outs", [1, 1024, 4096, 11008, 128256])
@pytest.mark.parametrize("ins", [1, 64, 1024, 4095, 4096, 11008])
def test_parts_hold_all_of_k_once_and_begin_with_a_tile(card: Card, outs: int, ins: int) -> None:
    parts = choose_parts(outs, ins, 2, card)
    assert (parts.count - 1) * parts.span < ins <= parts.count * parts.span
    assert parts.span % inner(2) == 0
    assert parts.count <= MOST_PARTS
    assert parts.count == 1 or parts.span >= FEWEST * inner(2)
    assert parts.count == 1 or -(-outs // COLUMNS) < BUSY * card.multiprocessors


def test_a_large_card_is_kept_busy_by_a_llama() -> None:
    shapes = {
        "q, k, v, o": (4096, 4096),
        "gate, up": (11008, 4096),
        "down": (4096, 11008),
        "head": (32000, 4096),
    }
    programs = {
        name: -(-outs // COLUMNS) * choose_parts(outs, ins, 2, HOPPER).count
        for name, (outs, ins) in shapes.items()
    }
    assert programs == {"q, k, v, o": 128, "gate, up": 172, "down": 128, "head": 250}


@pytest.mark.parametrize(
    ("card", "itemsize", "sizes"),
    [
        (HOPPER, 2, {64: 4, 128: 8}),
        (BLACKWELL, 2, {64: 4}),
        (AMPERE, 2, {16: 4, 64: 4, 128: 8}),
        (LAPTOP, 4, {16: 4}),
    ],
)
def test_tiles_of_a_card_share_one_instruction(card: Card, itemsize: int, sizes: dict[int, int]) -> None:
    """One warpgroup for each 64 rows, where there are warpgroups."""
    tiles = [choose_tile(rows, itemsize, card) for rows in range(1, 129)]
    assert {tile.rows: tile.warps for tile in tiles} == sizes
    assert all(tile.rows >= min(rows, max(sizes)) for rows, tile in enumerate(tiles, 1))


@pytest.mark.parametrize("card", [HOPPER, AMPERE, LAPTOP], ids=["hopper", "ampere", "laptop"])
def test_what_is_loaded_ahead_fits(card: Card) -> None:
    for rows in (1, 64, 128):
        tile = choose_tile(rows, 2, card)
        assert tile.stages >= 2
        assert tile.stages * (tile.rows + COLUMNS) * inner(2) * 2 <= card.shared_memory
