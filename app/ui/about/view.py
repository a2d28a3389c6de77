"""Privacy and About, in the Settings view."""

from collections.abc import Iterator
from dataclasses import dataclass

import gradio as gr

from app.ui.about.checks import Check, run_checks
from app.ui.about.render import checking_html, checks_html, contacts_html, facts_html
from app.ui.frame.services import AppContext, Endpoint, Services


class AboutActions:
    """The event handlers of both."""

    def __init__(self, services: Services, app_context: AppContext, endpoint: Endpoint) -> None:
        self._services = services
        self._app_context = app_context
        self._endpoint = endpoint

    def open(self) -> tuple[str, str]:
        """Network contacts; and versions, hardware and folders, as they are now."""
        return contacts_html(self._app_context), facts_html(self._services, self._app_context)

    def check(self) -> Iterator[str]:
        """Run the self-check."""
        yield checking_html()
        yield checks_html(self.checks())

    def checks(self) -> list[Check]:
        """The results of the self-check. It sends requests to the page and reads the whole database."""
        return run_checks(self._app_context, self._endpoint)


@dataclass(frozen=True, slots=True)
class PrivacyControls:
    """The components of Privacy."""

    check: gr.Button
    checks: gr.HTML
    contacts: gr.HTML


def build_privacy_controls() -> PrivacyControls:
    """Create the components inside the current Blocks."""
    with gr.Column(elem_classes="part"):
        gr.HTML(
            "<h3>Self-check</h3><p class='hint'>Everything runs on this computer. The self-check verifies it.</p>",
            js_on_load=None,
        )
        check = gr.Button("Run self-check", elem_id="self-check", size="sm", scale=0)
        checks = gr.HTML(elem_id="checks", js_on_load=None)
    with gr.Column(elem_classes="part"):
        contacts = gr.HTML(elem_id="contacts", js_on_load=None)
    return PrivacyControls(check, checks, contacts)


@dataclass(frozen=True, slots=True)
class AboutControls:
    """The component of About."""

    facts: gr.HTML


def build_about_controls() -> AboutControls:
    """Create the component inside the current Blocks."""
    with gr.Column(elem_classes="part"):
        return AboutControls(gr.HTML(elem_id="facts", js_on_load=None))
