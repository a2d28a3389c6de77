"""Renders what an empty chat offers: the model's starters, and models to get while the demo model is in use."""

from collections.abc import Sequence
from math import ceil

from app.settings import DEMO_MODEL, Settings
from app.ui.frame.page_stream import Parts
from app.ui.frame.services import Services
from app.ui.frame.templates import render
from app.ui.models.inventory import Inventory, InventoryCache
from app.ui.models.load_options import INT8_ON_CPU
from app.ui.models.recommended import choice_of, quantisation_of_offer
from app.ui.models.render import download_words
from app.ui.welcome.offers import ModelGetter, other_models, usable
from app.ui.welcome.starters import starters_for
from app.values.messages import EngineStatus
from app.values.model import Download, InstalledModel, Recommendation, gigabytes, parameters_label
from app.values.quantisation import Quantisation

MEGABITS = 50
"""The speed of a connection, in Mbit/s, that the time of a download is told for."""


class WelcomeRenderer:
    """Renders the offers of one page, and has a model that was asked for here loaded once it is downloaded."""

    def __init__(self, services: Services, inventory: InventoryCache, getter: ModelGetter) -> None:
        self._services = services
        self._inventory = inventory
        self._getter = getter
        self._inputs: object = None
        self._parts: Parts = {}

    def render(self) -> Parts:
        """The parts; the same object while nothing has changed."""
        services = self._services
        inventory, downloads = self._inventory.get(), services.models.downloads.snapshot()
        choice, status = services.model, services.engine.status()
        inputs = (inventory, downloads, choice, status.phase)
        if inputs != self._inputs:
            self._getter.load_downloaded()
            self._inputs = inputs
            is_demo = choice.name == DEMO_MODEL and not choice.server
            self._parts = {
                "starters": render(
                    "starters.html", starters=starters_for("" if choice.server else choice.name)
                ),
                "offers": offers_html(inventory, downloads, status, services.settings)
                if is_demo and inventory
                else "",
            }
        return self._parts


def offers_html(
    inventory: Inventory, downloads: Sequence[Download], status: EngineStatus, settings: Settings
) -> str:
    """The models to get or to load, with what they take and how far their downloads are."""
    by_name = {download.name: download for download in downloads}
    here = usable(inventory)
    others = () if inventory.library.is_offline else other_models(inventory, here)
    installed = [(model, choice_of(settings, inventory, model).quantisation) for model in here]
    offered = [(one, quantisation_of_offer(settings, inventory, one)) for one in others]
    return render(
        "offers.html",
        parameters=f"{parameters_label(status.model.parameters)} parameters" if status.model else "",
        installed=[_installed(model, quantisation) for model, quantisation in installed],
        others=[_offer(one, quantisation, by_name.get(one.entry.repo)) for one, quantisation in offered],
        megabits=MEGABITS,
        int8=INT8_ON_CPU if any(quantisation == "int8" for _, quantisation in (*installed, *offered)) else "",
    )


def _installed(model: InstalledModel, quantisation: Quantisation) -> dict[str, str]:
    return {
        "path": str(model.path),
        "name": model.name,
        "facts": _facts(gigabytes(model.size), "on this computer", quantisation),
    }


def _facts(size: str, when: str, quantisation: Quantisation) -> str:
    return " · ".join((size, when, *(() if quantisation == "none" else (quantisation,))))


def _offer(one: Recommendation, quantisation: Quantisation, download: Download | None) -> dict[str, object]:
    entry = one.entry
    facts = _facts(gigabytes(entry.size), minutes_in_words(entry.size), quantisation)
    return {
        "entry": entry,
        "facts": download_words(download) or "Queued" if download else facts,
        "download": download,
        "is_stopped": download is not None and download.state in ("paused", "failed"),
    }


def minutes_in_words(size: int) -> str:
    """How long so many bytes take at `MEGABITS`: "about 9 min"."""
    minutes = ceil(size * 8 / (MEGABITS * 1_000_000) / 60)
    hours, rest = divmod(minutes, 60)
    return f"about {hours} h {rest} min" if hours else f"about {minutes} min"
