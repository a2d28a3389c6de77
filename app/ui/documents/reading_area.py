"""The panel that a document is read in. It opens beside every view, and what opens it is a button somewhere."""

from collections.abc import Sequence
from dataclasses import dataclass

import gradio as gr

from app.ui.chat.state import ChatState
from app.ui.documents.reading import Reading
from app.ui.documents.reading_actions import ReadingActions
from app.ui.page_events import PageEvents
from app.ui.page_sessions import PageValue

CLOSE = '<button type="button" class="act" data-close="reading" title="Close (Esc)">Close</button>'


@dataclass(frozen=True, slots=True)
class ReadingArea:
    """The panel's components, and what this page reads."""

    reading: PageValue[Reading]
    text: gr.HTML


def build_reading_area() -> ReadingArea:
    """Build the panel inside the current Blocks, outside of all views."""
    with gr.Column(elem_id="reading"):
        gr.HTML(CLOSE, elem_id="reading-bar", js_on_load=None)
        text = gr.HTML(elem_id="reading-text", js_on_load="foresight.reading(element, trigger)")
    return ReadingArea(PageValue(Reading), text)


def wire_reading(
    area: ReadingArea,
    actions: ReadingActions,
    places: Sequence[gr.HTML],
    seat: PageValue[ChatState],
    events: PageEvents,
) -> None:
    """Join the panel, and the places whose buttons open it, with what they do."""
    for place in (*places, area.text):
        events.on(place.click, actions.act, [seat, area.reading], [area.reading, area.text])
