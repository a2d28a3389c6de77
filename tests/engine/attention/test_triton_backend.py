"""The fused kernels' work is cut by the model and the device, never by a step's rows."""

import pytest

backend = pytest.importorskip("app.engine.attention.triton_backend", reason="triton is not installed")


HOPPER, A100, SMALL = 232_448, 166_912, 101_376
"""Bytes of shared memory that a program may have: H100 and H200, A100, cards for desktops."""


def shared_bytes(tiles: backend.Tiles, size: int, itemsize: int) -> int:
    """What a program of these tiles holds: its rows, and the tiles of keys and values that were loaded ahead."""
    return (tiles.rows + 2 * tiles.stages * tiles.keys) * backend.padded(size) * itemsize


@pytest.mark.parametrize("memory", [HOPPER, A100, SMALL, 65_536])
@pytest.mark.parametrize("itemsize", [2, 4])
@pytest.mark.parametrize("size", [8, 64, 80, 96, 128, 192, 256])
def test_tiles_fit_into_the_shared_memory(size: int, itemsize: int, memory: int) -> None:
    tiles = backend.choose_tiles(size, size, itemsize, memory)
    assert backend.SPAN % tiles.keys == 0
    assert shared_bytes(tiles, size, itemsize) <= memory or tiles.stages == 1


@pytest.mark.parametrize("major", [8, 10, 12])
def test_where_there_are_no_warpgroups_wide_heads_have_the_registers_of_8_warps(major: int) -> None:
    assert backend.choose_tiles(128, 128, 2, SMALL, major).warps == 8
    assert backend.choose_tiles(64, 64, 2, SMALL, major).warps == 4
    assert backend.choose_tiles(256, 256, 2, SMALL, major) == backend.Tiles(32, 32, 8, 2)


def test_programs_do_whole_groups_where_there_are_enough_of_them() -> None:
    assert backend.spans_per_program(1000, blocks=8) == 1
    assert backend.spans_per_program(32_768, blocks=8) == backend.GROUP_SPANS
    assert backend.spans_per_program(1000, blocks=128) == backend.GROUP_SPANS


@pytest.mark.parametrize("keys", [8, 48])
def test_tiles_that_do_not_divide_a_span_are_refused(keys: int) -> None:
    with pytest.raises(ValueError, match="divide a span"):
        backend.Tiles(rows=16, keys=keys, warps=4, stages=1)
