"""The About part of the Settings view."""

from collections.abc import Iterator
from dataclasses import dataclass

import gradio as gr

from app.ui.about.checks import Check, run_checks
from app.ui.about.render import checking_html, checks_html, facts_html
from app.ui.app_context import AppContext, Endpoint
from app.ui.page_events import PageEvents
from app.ui.services import Services


class AboutActions:
    """The part's event handlers."""

    def __init__(self, services: Services, app_context: AppContext, endpoint: Endpoint) -> None:
        self._services = services
        self._app_context = app_context
        self._endpoint = endpoint

    def open(self) -> str:
        """Versions, hardware, folders and network contacts, as they are now."""
        return facts_html(self._services, self._app_context)

    def check(self) -> Iterator[str]:
        """Run the self-check."""
        yield checking_html()
        yield checks_html(self.checks())

    def checks(self) -> list[Check]:
        """The results of the self-check. It sends requests to the page and reads the whole database."""
        return run_checks(self._app_context, self._endpoint)


@dataclass(frozen=True, slots=True)
class AboutView:
    """The part's components."""

    check: gr.Button
    checks: gr.HTML
    facts: gr.HTML

    def connect(self, actions: AboutActions, opening: gr.Button, events: PageEvents) -> None:
        """Join events with actions; `opening` leads to the Settings view."""
        events.on(self.check.click, actions.check, outputs=self.checks)
        events.on(opening.click, actions.open, outputs=self.facts)


def build_about_view() -> AboutView:
    """Create the components inside the current Blocks."""
    gr.HTML(
        "<h3>About</h3><p class='hint'>Everything runs on this computer. The self-check verifies it.</p>",
        js_on_load=None,
    )
    check = gr.Button("Run self-check", elem_id="self-check", size="sm")
    checks = gr.HTML(elem_id="checks", js_on_load=None)
    facts = gr.HTML(elem_id="facts", js_on_load=None)
    return AboutView(check, checks, facts)
