"""The empty chat's view: what it says, its starters, and models to get."""

from collections.abc import Callable
from dataclasses import dataclass

import gradio as gr

from app.ui.frame.error_handling import Notify, try_or_notify
from app.ui.frame.page_events import LISTEN, PageEvents
from app.ui.frame.services import Services
from app.ui.models.inventory import InventoryCache
from app.ui.welcome.render import ModelGetter

WELCOME = """
<h2>Several tokens per step, all checked.</h2>
<p>Foresight chats with a model on this computer. Lookahead decoding lets it write several tokens in one forward
pass, each checked by the model itself.</p>
"""


class OfferActions:
    """What the buttons of the offered models do, for any page."""

    def __init__(
        self, services: Services, inventory: InventoryCache, getter: ModelGetter, notify: Notify
    ) -> None:
        self._inventory = inventory
        self._notify = notify
        self._actions: dict[str, Callable[[str], object]] = {
            "get": getter.get,
            "load": getter.load,
            "resume": getter.get,
            "cancel": services.models.downloads.cancel,
        }

    def look(self) -> None:
        """Find out which models there are, unless that is known. A page that is opened does not wait for it."""
        if self._inventory.get() is None:
            try_or_notify(self._notify, self._inventory.refresh, None)

    def click(self, event: gr.EventData) -> None:
        """Do what a button says."""
        do, name = (str(event._data.get(key, "")) for key in ("do", "name"))
        if action := self._actions.get(do):
            try_or_notify(self._notify, lambda: action(name), None)


@dataclass(frozen=True, slots=True)
class WelcomeView:
    """The empty chat's components. The chat sends a starter that is pressed."""

    starters: gr.HTML
    offers: gr.HTML

    def connect(self, blocks: gr.Blocks, actions: OfferActions, events: PageEvents) -> None:
        """Join the events of the offers with their actions."""
        events.on(blocks.load, actions.look)
        events.on(self.offers.click, actions.click)


def build_welcome() -> WelcomeView:
    """Build the view inside the current Blocks."""
    with gr.Column(elem_id="welcome"):
        gr.HTML(WELCOME, js_on_load=None)
        starters = gr.HTML(elem_id="starters", js_on_load=LISTEN)
        offers = gr.HTML(elem_id="offers", js_on_load=LISTEN)
    return WelcomeView(starters, offers)
