"""The panel that a document is read in. It opens beside every view, and what opens it is a button somewhere."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import gradio as gr

from app.ui.documents.reading import Reading
from app.ui.documents.reading_actions import ReadingActions

CLOSE = '<button type="button" class="act" data-close="reading" title="Close (Esc)">Close</button>'


@dataclass(frozen=True, slots=True)
class ReadingArea:
    """The panel's components, and what this page reads."""

    reading: gr.State
    text: gr.HTML


def build_reading_area() -> ReadingArea:
    """Build the panel inside the current Blocks, outside of all views."""
    with gr.Column(elem_id="reading"):
        gr.HTML(CLOSE, elem_id="reading-bar", js_on_load=None)
        text = gr.HTML(elem_id="reading-text", js_on_load="foresight.reading(element, trigger)")
    return ReadingArea(gr.State(Reading()), text)


def wire_reading(
    area: ReadingArea,
    actions: ReadingActions,
    places: Sequence[gr.HTML],
    seat: gr.State,
    listen: dict[str, Any],
) -> None:
    """Join the panel, and the places whose buttons open it, with what they do."""
    for place in (*places, area.text):
        place.click(actions.act, [seat, area.reading], [area.reading, area.text], **listen)
