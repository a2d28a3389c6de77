"""The empty chat: prompts to start with, and models to get while the demo model is in use."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

import gradio as gr

from app.settings import DEMO_MODEL, Settings
from app.ui.frame.event_handlers import LISTEN, Actions, Notify, toast
from app.ui.frame.gradio_internals import pressed
from app.ui.frame.page_updates import CachedRenderer, Parts
from app.ui.frame.services import Services
from app.ui.frame.templates import render
from app.ui.models.discover import MOST, best_models, quantisation_of
from app.ui.models.inventory import Inventory, InventoryCache, load_name
from app.ui.models.load_dialog import INT8_ON_CPU
from app.ui.models.render import download_words
from app.values.messages import EngineStatus
from app.values.model import Download, InstalledModel, Recommendation, gigabytes, parameters_label
from app.values.quantisation_sizes import Quantisation

MEGABITS = 50
"""The speed of a connection, in Mbit/s, for which download times are estimated."""


@dataclass(frozen=True, slots=True)
class Starter:
    """A prompt that an empty chat offers; its button shows the title and the `detail` below it.

    Starters were chosen by how well models answer them and what lookahead saves: in float32 at temperature 0, with
    16 rows, the demo model answered FOR_DEMO with 1.5 to 4.8 tokens per step, and SmolLM2-135M answered FOR_OTHERS
    with 1.9 to 5.9."""

    title: str
    detail: str
    prompt: str = ""
    """The message that is sent; "" for the title."""


SOURCES = """Answer from the sources and cite them like [1].

[1] The Savu tower was built in 1611 by Tanil Obra, has 214 steps and a copper roof, and can be climbed from May \
to September.

[2] Tickets for the Mizan museum cost 45 coins and are sold by Pedo.

[3] The Kelora library opened in 1874 and was designed by Bina Tavor.

Question: What do the sources say about Savu?"""
MUSEUM = """The harbour museum opens at ten and closes at six, except on Mondays, when it stays closed all day. \
Tickets cost eight euros for adults and four for children; on the first Sunday of each month everybody gets in \
free. The old lighthouse behind the museum can be climbed from May to September, in groups of at most twelve \
people, and only in dry weather."""
FOR_DEMO = (
    Starter("Quote from a text", "Three sources, and a question about one of them", SOURCES),
    Starter("What can you do?", "The demo model introduces itself"),
    Starter("How does lookahead decoding work?", "An explanation in three sentences"),
    Starter("Find me a flight to Berlin.", "The demo model can begin a booking, not finish it"),
)
"""Starters for the demo model, like the texts that it was trained on: see assets/demo-model/README.md."""
FOR_OTHERS = (
    Starter(
        "Quote from a text", "The sentence about tickets, word for word",
        f"Copy the sentence about tickets from this text, word for word:\n\n{MUSEUM}",
    ),
    Starter(
        "Write an HTML table", "The opening hours of a shop",
        "Write HTML for a table with the days of the week and opening hours of a shop.",
    ),
    Starter(
        "Summarise a text", "The hours and prices of a museum, in three sentences",
        f"Summarize this text in three sentences:\n\n{MUSEUM}",
    ),
    Starter(
        "Write a Python class", "A shopping list, and how to use it",
        "Write a Python class for a shopping list with methods to add, remove and print items, then use it.",
    ),
)  # fmt: skip


def starters_for(model: str) -> tuple[Starter, ...]:
    return FOR_DEMO if model == DEMO_MODEL else FOR_OTHERS


class ModelGetter:
    """Downloads models, and then loads the one that was requested last. All pages share it."""

    def __init__(self, services: Services, inventory: InventoryCache) -> None:
        self._services = services
        self._inventory = inventory
        self._wanted = ""

    def get(self, name: str) -> None:
        """Start the download of a model, which is loaded after its download. Raises AppError."""
        self._services.models.downloads.start(name)
        self._wanted = name

    def load(self, path: str) -> None:
        """Load the installed model at this path. Raises AppError if there is none."""
        self._load(self._inventory.find(path))

    def _load(self, model: InstalledModel) -> None:
        self._services.choose_model(self._services.settings.choice_of(load_name(model)))

    def load_downloaded(self) -> None:
        """Load the requested model if its download has finished and no reply is being written."""
        downloads = {one.name: one for one in self._services.models.downloads.snapshot()}
        download, inventory = downloads.get(self._wanted), self._inventory.get()
        if not self._wanted or self._services.conversations.is_busy:
            return
        if download is None:  # cancelled, or dismissed in the Models view
            self._wanted = ""
        elif download.state == "done" and inventory and (model := inventory.find(str(download.folder))):
            self._wanted = ""
            self._load(model)


@dataclass(eq=False)
class WelcomeRenderer(CachedRenderer):
    """Renders the starters and offers of one page, and loads the requested model after its download."""

    _services: Services
    _inventory: InventoryCache
    _getter: ModelGetter

    def inputs(self) -> tuple[Any, ...]:
        services = self._services
        downloads, status = services.models.downloads.snapshot(), services.engine.status()
        return self._inventory.get(), downloads, services.model, status.phase

    def draw(self, inputs: tuple[Any, ...]) -> Parts:
        inventory, downloads, choice, _phase = inputs
        self._getter.load_downloaded()
        name, services = "" if choice.server else choice.name, self._services
        offers = ""
        if name == DEMO_MODEL and inventory:
            offers = offers_html(inventory, downloads, services.engine.status(), services.settings)
        return {"starters": render("starters.html", starters=starters_for(name)), "offers": offers}


def usable(inventory: Inventory) -> tuple[InstalledModel, ...]:
    """Return the largest installed models that fit this machine's memory: at most MOST, without the demo model."""
    most = inventory.memory.usual.free
    fitting = [one.model for one in inventory.installed if one.fit and one.fit.need.total <= most]
    ready = [model for model in fitting if model.origin != "demo" and model.state == "ready"]
    return tuple(sorted(ready, key=lambda model: model.size, reverse=True)[:MOST])


def other_models(inventory: Inventory, installed: Sequence[InstalledModel]) -> tuple[Recommendation, ...]:
    """Return the models to download that are offered below the installed models, at most MOST in all."""
    here = {model.name for model in installed}
    best = [one for one in best_models(inventory) if one.entry.repo not in here]
    return tuple(best[: max(0, MOST - len(installed))])


def offers_html(
    inventory: Inventory, downloads: Sequence[Download], status: EngineStatus, settings: Settings
) -> str:
    """Render the models to load or to download, with their sizes and the progress of downloads."""
    by_name = {download.name: download for download in downloads}
    here, fits = usable(inventory), {one.model: one.fit for one in inventory.installed}
    others = () if inventory.library.is_offline else other_models(inventory, here)
    choice_of = settings.choice_of
    installed = [(one, quantisation_of(choice_of(load_name(one)), fits[one])) for one in here]
    offered = [(one, quantisation_of(choice_of(one.entry.repo), one.fit)) for one in others]
    return render(
        "offers.html",
        parameters=f"{parameters_label(status.model.parameters)} parameters" if status.model else "",
        installed=[
            {
                "path": str(model.path),
                "name": model.name,
                "facts": _facts(model.size, "on this computer", quantisation),
            }
            for model, quantisation in installed
        ],
        others=[_offer(one, quantisation, by_name.get(one.entry.repo)) for one, quantisation in offered],
        megabits=MEGABITS,
        int8=INT8_ON_CPU if any(quantisation == "int8" for _, quantisation in (*installed, *offered)) else "",
    )


def _facts(size: int, when: str, quantisation: Quantisation) -> str:
    return " · ".join((gigabytes(size), when, *(() if quantisation == "none" else (quantisation,))))


def _offer(one: Recommendation, quantisation: Quantisation, download: Download | None) -> dict[str, object]:
    entry = one.entry
    facts = _facts(entry.size, minutes_in_words(entry.size), quantisation)
    return {
        "entry": entry,
        "facts": download_words(download) or "Queued" if download else facts,
        "download": download,
        "is_stopped": download is not None and download.state in ("paused", "failed"),
    }


def minutes_in_words(size: int) -> str:
    """Return how long `size` bytes take at `MEGABITS`: "about 9 min", "about 1 h 5 min"."""
    minutes = ceil(size * 8 / (MEGABITS * 1_000_000) / 60)
    hours, rest = divmod(minutes, 60)
    return f"about {hours} h {rest} min" if hours else f"about {minutes} min"


class OfferActions(Actions):
    """The event handlers of the offered models' buttons."""

    def __init__(
        self, services: Services, inventory: InventoryCache, getter: ModelGetter, notify: Notify = toast
    ) -> None:
        super().__init__(services, notify)
        self._inventory = inventory
        self._actions: dict[str, Callable[[str], object]] = {
            "get": getter.get,
            "load": getter.load,
            "resume": getter.get,
            "cancel": services.models.downloads.cancel,
        }

    def look(self) -> None:
        """Look up the models unless they are known."""
        if self._inventory.get() is None:
            self._try(self._inventory.refresh)

    def click(self, event: gr.EventData) -> None:
        do, name, _ = pressed(event)
        if action := self._actions.get(do):
            self._try(lambda: action(name))


def build_welcome() -> tuple[gr.HTML, gr.HTML]:
    """Build the view. Returns the starters, which the chat sends as messages, and the offers."""
    with gr.Column(elem_id="welcome"):
        gr.HTML(render("welcome.html"), js_on_load=None)
        return gr.HTML(elem_id="starters", js_on_load=LISTEN), gr.HTML(elem_id="offers", js_on_load=LISTEN)
