"""Connect, in the Settings view: serves the API to other programs, and shows how they are set up."""

from collections.abc import Callable
from dataclasses import dataclass

import gradio as gr

from app.api.switch import ApiSwitch
from app.settings import Settings
from app.ui.frame.error_handling import Notify, succeeded, try_or_notify
from app.ui.frame.page_events import LISTEN, PageEvents
from app.ui.frame.services import Endpoint, Services
from app.ui.settings.client_examples import Connection
from app.ui.settings.render import connection_html

USUAL_CONTEXT = 2048
"""Tokens that a client is told while no model is loaded."""


class ConnectActions:
    """The part's event handlers; `report` tells what was done, `notify` what went wrong."""

    def __init__(
        self, services: Services, api: ApiSwitch, endpoint: Endpoint, notify: Notify, report: Notify
    ) -> None:
        self._services = services
        self._api = api
        self._endpoint = endpoint
        self._notify = notify
        self._report = report

    def open(self) -> tuple[bool, str]:
        """The switch, and how programs are set up."""
        return self._api.is_on, self._shown()

    def turn(self, is_on: bool) -> tuple[bool, str]:
        """Turn the API on or off, and remember it."""
        self._try(lambda: self._api.turn(is_on))
        self._try(lambda: self._services.choose_api(self._api.is_on))
        return self.open()

    def click(self, event: gr.EventData) -> str:
        """Do what a button says."""
        if event._data.get("do") == "renew-key" and self._try(self._api.renew_key):
            self._report("The key was renewed. Programs with the old one are refused.")
        return self._shown()

    def _shown(self) -> str:
        return try_or_notify(self._notify, self._connection, "") if self._api.is_on else ""

    def _connection(self) -> str:
        loaded = self._services.engine.status().model
        context = loaded.context if loaded and loaded.context else USUAL_CONTEXT
        model = self._services.settings.local_model.name
        return connection_html(Connection(f"{self._endpoint.origin}/v1", self._api.key(), model, context))

    def _try(self, action: Callable[[], None]) -> bool:
        return succeeded(self._notify, action)


@dataclass(frozen=True, slots=True)
class ConnectControls:
    """The components."""

    switch: gr.Checkbox
    connection: gr.HTML

    def connect(self, actions: ConnectActions, opening: gr.Button, events: PageEvents) -> None:
        """Join events with actions; `opening` leads to the Settings view."""
        both = [self.switch, self.connection]
        events.on(self.switch.input, actions.turn, self.switch, both)
        events.on(self.connection.click, actions.click, outputs=self.connection)
        events.on(opening.click, actions.open, outputs=both)


def build_connect_controls(settings: Settings) -> ConnectControls:
    """Build the part inside the current Blocks."""
    with gr.Column(elem_classes="part"):
        gr.HTML("<h3>Connect</h3>", js_on_load=None)
        switch = gr.Checkbox(
            settings.has_api, label="Serve other programs", elem_id="serve-api", elem_classes="switch",
            info="Editors and scripts on this computer can use the model by OpenAI's API, with a key.",
        )  # fmt: skip
    connection = gr.HTML(elem_id="connection-details", js_on_load=LISTEN)
    return ConnectControls(switch, connection)
