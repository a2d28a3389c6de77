"""The live view's components: the numbers beside the chat, and the X-ray that opens over the page."""

from dataclasses import dataclass
from typing import Any

import gradio as gr

from app.ui.live.actions import XrayActions
from app.ui.live.xray_view import XrayView
from app.ui.page_events import PageEvents
from app.ui.page_sessions import PageValue
from app.ui.saving import build_file_place

CONTROLS = (
    ("first", "&laquo;", "First step (Home)"),
    ("back", "&lsaquo;", "Step back (←)"),
    ("forward", "&rsaquo;", "Step forward (→)"),
    ("last", "&raquo;", "Last step (End)"),
)


@dataclass(frozen=True, slots=True)
class LiveArea:
    """The numbers, and the buttons that lead on from them."""

    panel: gr.HTML
    open_xray: gr.Button


@dataclass(frozen=True, slots=True)
class XrayArea:
    """The X-ray's components. What its controls show follows the picture: see assets/ui/live.js."""

    view: PageValue[XrayView]
    bar: gr.HTML
    picture: gr.HTML
    file: gr.HTML


def build_live_area() -> LiveArea:
    """Build the numbers inside the current Blocks, beside the chat."""
    with gr.Column(elem_id="live-numbers", min_width=0):
        panel = gr.HTML(elem_id="panel", js_on_load=None)
        with gr.Row(elem_id="live-buttons"):
            open_xray = gr.Button("X-ray", elem_id="open-xray", size="sm", scale=0, min_width=0)
            gr.Button("Fewer numbers", elem_id="fewer-numbers", size="sm", scale=0, min_width=0)
    return LiveArea(panel, open_xray)


def build_xray_area() -> XrayArea:
    """Build the X-ray inside the current Blocks, outside of all views."""
    with gr.Column(elem_id="xray"):
        bar = gr.HTML(_bar(), elem_id="xray-bar", js_on_load="foresight.xray(element, trigger)")
        picture = gr.HTML(elem_id="xray-picture", js_on_load=None)
        file = build_file_place("xray-file")
    return XrayArea(PageValue(XrayView), bar, picture, file)


def wire_live(area: XrayArea, actions: XrayActions, seat: PageValue[Any], events: PageEvents) -> None:
    """Join the X-ray's controls with what they do for the chat of this seat."""
    drawn = [area.view, area.picture, area.file]
    # Every press counts, also while the newest step is being drawn.
    events.on(area.bar.click, actions.act, [area.view, seat], drawn, trigger_mode="multiple")


def _bar() -> str:
    buttons = "".join(
        f'<button type="button" class="act" data-move="{move}" title="{words}" aria-label="{words}">{sign}</button>'
        for move, sign, words in CONTROLS
    )
    return (
        '<h2 id="xray-title">X-ray</h2>'
        '<button type="button" class="act" data-move="live">Pause</button>'
        f'<span class="moves">{buttons}</span>'
        '<input type="range" min="1" max="1" value="1" aria-label="Step">'
        "<output>No steps yet</output>"
        '<button type="button" class="act" data-move="export">Export JSON</button>'
        '<button type="button" class="act" data-move="close" title="Close (Esc)">Close</button>'
    )
