"""The page as it is built, without a browser."""

from collections import Counter

from app.ui import Desk, Surroundings
from app.ui.about.surroundings import Door
from app.ui.page import build_blocks


def test_no_two_elements_have_the_same_id(desk: Desk, around: Surroundings) -> None:
    blocks = build_blocks(desk, around, Door("127.0.0.1", 0)).blocks.values()
    ids = Counter(block.elem_id for block in blocks if block.elem_id)
    assert len(ids) > 50
    assert [name for name, times in ids.items() if times > 1] == []
