"""A page's eyes on models: what its lists show, made anew only when something changed."""

from dataclasses import dataclass

from app.messages import EngineStatus, ModelChoice
from app.model_messages import Download
from app.ui.models.catalogue_list import catalogue_html
from app.ui.models.download_list import count_in_words, downloads_html
from app.ui.models.installed_list import access_html, installed_html, loaded_html
from app.ui.models.stock import Shelf, Stock
from app.ui.page_stream import Parts
from app.ui.services import Services


@dataclass(frozen=True, slots=True)
class ModelsScreen:
    """The lists as HTML; `way` is the label of the button that leads here, `chosen` what the model boxes hold."""

    way: str
    downloads: str
    loaded: str
    installed: str
    catalogue: str
    access: str
    chosen: ModelChoice


class ModelsWatcher:
    """Sees models as screens. One reader; not shared between pages."""

    def __init__(self, services: Services, shelf: Shelf) -> None:
        self._services = services
        self._shelf = shelf
        self._seen: object = None
        self._screen: ModelsScreen | None = None

    def look(self) -> ModelsScreen:
        """The lists as they should be now; the very same object while nothing changed."""
        stock, downloads = self._shelf.look(), self._services.models.downloads()
        status, chosen = self._services.engine.status(), self._services.settings.model
        seen = (stock, downloads, status, chosen)
        if self._screen is None or seen != self._seen:
            self._screen = draw(stock, downloads, status, chosen)
            self._seen = seen
        return self._screen


def models_parts(now: ModelsScreen) -> Parts:
    """A screen as the parts of the page. The model boxes are filled in anew only when `model` changes."""
    return {
        "to-models": now.way,
        "downloads": now.downloads,
        "loaded": now.loaded,
        "installed": now.installed,
        "catalogue": now.catalogue,
        "access-note": now.access,
        "model": repr(now.chosen),
    }


def draw(
    stock: Stock | None, downloads: tuple[Download, ...], status: EngineStatus, chosen: ModelChoice
) -> ModelsScreen:
    """The lists for what there is."""
    count = count_in_words(downloads)
    return ModelsScreen(
        way=f"Models ({count})" if count else "Models",
        downloads=downloads_html(downloads),
        loaded=loaded_html(stock, status),
        installed=installed_html(stock, status),
        catalogue=catalogue_html(stock, known(stock, downloads)),
        access=access_html(stock),
        chosen=chosen,
    )


def known(stock: Stock | None, downloads: tuple[Download, ...]) -> frozenset[str]:
    """Models that are here, whole, or on their way."""
    here = (
        {judged.model.name for judged in stock.installed if judged.model.state == "ready"} if stock else set()
    )
    return frozenset(here | {download.name.partition("@")[0] for download in downloads})
