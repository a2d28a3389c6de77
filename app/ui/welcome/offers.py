"""Which models an empty chat offers, and getting one: it is downloaded, and loaded once it is here."""

from collections.abc import Sequence

from app.errors import AppError
from app.ui.frame.services import Services
from app.ui.models.inventory import Inventory, InventoryCache
from app.ui.models.recommended import MOST, best_models, choice_of
from app.values.model import InstalledModel, Recommendation


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
        self._services.models.downloads.start(name)
        self._wanted = name

    def load(self, path: str) -> None:
        """Load an installed model. Raises AppError."""
        inventory = self._inventory.get()
        model = inventory.find(path) if inventory else None
        if inventory is None or model is None:
            raise AppError("This model is no longer installed. Open Models again.")
        self._load(inventory, model)

    def load_downloaded(self) -> None:
        """Load the model that was asked for if it is here now and no reply is being written."""
        downloads = {one.name: one for one in self._services.models.downloads.snapshot()}
        download, inventory = downloads.get(self._wanted), self._inventory.get()
        if not self._wanted or self._services.is_busy:
            return
        if download is None:  # cancelled, or dismissed in the Models view
            self._wanted = ""
        elif download.state == "done" and inventory and (model := inventory.find(str(download.folder))):
            self._wanted = ""
            self._load(inventory, model)

    def _load(self, inventory: Inventory, model: InstalledModel) -> None:
        self._services.choose_model(choice_of(self._services.settings, inventory, model))


def other_models(inventory: Inventory, installed: Sequence[InstalledModel]) -> tuple[Recommendation, ...]:
    """The models to download that are listed below the installed ones."""
    here = {model.name for model in installed}
    best = [one for one in best_models(inventory) if one.entry.repo not in here]
    return tuple(best[: max(0, MOST - len(installed))])
