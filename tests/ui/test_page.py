"""The page as it is built, without a browser."""

from collections import Counter

import gradio as gr

from app.ui import Desk, Surroundings
from app.ui.about.surroundings import Door
from app.ui.page import build_blocks
from app.ui.pages import Pages


def test_no_two_elements_have_the_same_id(desk: Desk, around: Surroundings) -> None:
    blocks, _ = build_blocks(desk, around, Door("127.0.0.1", 0), Pages())
    ids = Counter(block.elem_id for block in blocks.blocks.values() if block.elem_id)
    assert len(ids) > 50
    assert [name for name, times in ids.items() if times > 1] == []


def test_no_page_holds_a_connection_of_gradios_open(desk: Desk, around: Surroundings) -> None:
    blocks, _ = build_blocks(desk, around, Door("127.0.0.1", 0), Pages())
    assert blocks.config["connect_heartbeat"] is False
    assert [block for block in blocks.blocks.values() if isinstance(block, gr.State)] == []
