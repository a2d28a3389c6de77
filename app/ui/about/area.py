"""The about part of the settings' view."""

from dataclasses import dataclass

import gradio as gr

from app.ui.about.actions import AboutActions
from app.ui.page_events import PageEvents


@dataclass(frozen=True, slots=True)
class AboutArea:
    """The part's components."""

    check: gr.Button
    checks: gr.HTML
    facts: gr.HTML


def build_about_area() -> AboutArea:
    """Build the part inside the current Blocks."""
    gr.HTML(
        "<h3>About</h3><p class='hint'>Foresight runs on this machine alone. See for yourself:</p>",
        js_on_load=None,
    )
    check = gr.Button("Run the self-check", elem_id="self-check", size="sm")
    checks = gr.HTML(elem_id="checks", js_on_load=None)
    facts = gr.HTML(elem_id="facts", js_on_load=None)
    return AboutArea(check, checks, facts)


def wire_about(area: AboutArea, actions: AboutActions, events: PageEvents) -> None:
    """Join the part's events with what they do."""
    events.on(area.check.click, actions.check, outputs=area.checks)
