"""The panel that a document is read in. It opens beside every view, and what opens it is a button somewhere."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import gradio as gr

from app.errors import AppError
from app.ui.documents.port import Documents
from app.ui.documents.reading import Reading, missing_html, of_button, opened, reading_html, with_more

CLOSE = '<button type="button" class="act" data-close="reading" title="Close (Esc)">Close</button>'


@dataclass(frozen=True, slots=True)
class ReadingArea:
    """The panel's components, and what this page reads."""

    reading: gr.State
    text: gr.HTML


class ReadingActions:
    """The events of the panel. No state of its own."""

    def __init__(self, documents: Documents) -> None:
        self._documents = documents

    def act(self, reading: Reading, event: gr.EventData) -> tuple[Any, Any]:
        """Open what a button says, or show more of what is open: the reading, and how it looks."""
        do, value = (str(event._data.get(key, "")) for key in ("do", "value"))
        if do == "read":
            return self._show(opened(of_button(value)))
        if do in ("above", "below"):
            return self._show(with_more(reading, do))
        return gr.skip(), gr.skip()

    def _show(self, reading: Reading) -> tuple[Reading, str]:
        try:
            return reading, reading_html(reading, self._documents.text(reading.what.document))
        except AppError as error:
            return reading, missing_html(reading, str(error))


def build_reading_area() -> ReadingArea:
    """Build the panel inside the current Blocks, outside of all views."""
    with gr.Column(elem_id="reading"):
        gr.HTML(CLOSE, elem_id="reading-bar", js_on_load=None)
        text = gr.HTML(elem_id="reading-text", js_on_load="foresight.reading(element, trigger)")
    return ReadingArea(gr.State(Reading()), text)


def wire_reading(
    area: ReadingArea, actions: ReadingActions, places: Sequence[gr.HTML], listen: dict[str, Any]
) -> None:
    """Join the panel, and the places whose buttons open it, with what they do."""
    outcome = [area.reading, area.text]
    for place in (*places, area.text):
        place.click(actions.act, area.reading, outcome, **listen)
