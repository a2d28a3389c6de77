"""Which models an empty chat offers, and getting one: it is downloaded, and loaded once it is here."""

from collections.abc import Sequence

from app.errors import AppError, impossible_values
from app.model_messages import InstalledModel, Recommendation
from app.ui.models.inventory import Inventory, InventoryCache, choice_for
from app.ui.services import Services

MOST = 3
CPU_PARAMETERS = 4_500_000_000
"""A CPU reads every weight for every step: with more of them it writes more slowly than people read."""


def best_models(inventory: Inventory) -> tuple[Recommendation, ...]:
    """The largest first model that suits this machine, then the largest of at most half that download, and so on.

    So there is one to stay with, one that is here soon, and one that is quick."""
    chosen: list[Recommendation] = []
    for one in sorted(inventory.recommended, key=lambda one: one.entry.parameters, reverse=True):
        is_smaller = not chosen or one.entry.size <= chosen[-1].entry.size / 2
        if len(chosen) < MOST and is_smaller and _suits(one, inventory):
            chosen.append(one)
    return tuple(chosen)


def _suits(one: Recommendation, inventory: Inventory) -> bool:
    entry, is_cpu = one.entry, inventory.memory.device == "cpu"
    is_quick = not is_cpu or entry.parameters <= CPU_PARAMETERS
    return entry.is_first and is_quick and one.fit.verdict == "fits" and entry.size < inventory.disk.free


def usable(inventory: Inventory) -> tuple[InstalledModel, ...]:
    """The largest installed models that fit, without the demo model."""
    fitting = [
        one.model
        for one in inventory.installed
        if one.model.origin != "demo" and one.model.state == "ready" and one.fit and one.fit.verdict == "fits"
    ]
    return tuple(sorted(fitting, key=lambda model: model.size, reverse=True)[:MOST])


class ModelGetter:
    """Downloads models and loads the last one that was asked for. All pages share it."""

    def __init__(self, services: Services, inventory: InventoryCache) -> None:
        self._services = services
        self._inventory = inventory
        self._wanted = ""

    def get(self, name: str) -> None:
        """Download a model, and load it once it is here. Raises AppError."""
        self._services.models.start(name)
        self._wanted = name

    def load(self, path: str) -> None:
        """Load an installed model. Raises AppError."""
        inventory = self._inventory.get()
        model = inventory.find(path) if inventory else None
        if model is None:
            raise AppError("This model is no longer installed. Open Models again.")
        self._load(model)

    def load_downloaded(self) -> None:
        """Load the model that was asked for if it is here now and no reply is being written."""
        downloads = {one.name: one for one in self._services.models.downloads()}
        download, inventory = downloads.get(self._wanted), self._inventory.get()
        if not self._wanted or self._services.is_busy:
            return
        if download is None:  # cancelled, or dismissed in the Models view
            self._wanted = ""
        elif download.state == "done" and inventory and (model := inventory.find(str(download.folder))):
            self._wanted = ""
            self._load(model)

    def _load(self, model: InstalledModel) -> None:
        with impossible_values():
            choice = choice_for(model, self._inventory.target.weights, self._services.settings.model)
        self._services.choose_model(choice)


def other_models(inventory: Inventory, installed: Sequence[InstalledModel]) -> tuple[Recommendation, ...]:
    """The models to download that are listed below the installed ones."""
    here = {model.name for model in installed}
    best = [one for one in best_models(inventory) if one.entry.repo not in here]
    return tuple(best[: max(0, MOST - len(installed))])
