"""What the chip above the message box does: has the chat ask a collection, or no longer."""

from dataclasses import replace

import gradio as gr

from app.ui.chat.manner import have_manner, manner_of
from app.ui.chat.seat import Seat
from app.ui.error_handling import Notify, succeeded
from app.ui.services import Services


class ConsultingActions:
    """The events of the chip."""

    def __init__(self, services: Services, notify: Notify) -> None:
        self._services = services
        self._notify = notify

    def act(self, seat: Seat, event: gr.EventData) -> None:
        """Have this chat ask a collection, or no longer."""
        do, name = (str(event._data.get(key, "")) for key in ("do", "name"))
        if do != "consult":
            return
        succeeded(self._notify, lambda: self._turn(seat, int(name)))

    def _turn(self, seat: Seat, collection: int) -> None:
        manner = manner_of(self._services, seat)
        others = tuple(one for one in manner.collections if one != collection)
        chosen = others if collection in manner.collections else (*others, collection)
        have_manner(self._services, seat, replace(manner, collections=chosen))
