"""How documents are found: by words at once, and by meaning, too, once there is a model for that. One calm line
says which, and gets the model as the models' view would."""

from dataclasses import dataclass
from html import escape

from app.model_messages import Download
from app.settings import DEFAULT_EMBEDDER
from app.ui.models.download_list import told
from app.ui.pieces import button
from app.ui.services import Services

DEFAULT_SIZE = " (90 MB)"
"""Of DEFAULT_EMBEDDER: what another one takes shows when the hub is asked."""


@dataclass(frozen=True, slots=True)
class Meaning:
    """The model that finds by meaning, and how it stands; `obstacle` says why it cannot be downloaded."""

    name: str
    is_here: bool = False
    obstacle: str = ""
    download: Download | None = None

    @property
    def is_coming(self) -> bool:
        """Whether nothing needs to be pressed."""
        return self.download is not None and self.download.state in ("queued", "running")


class MeaningModel:
    """The model as it stands now, and how to get it."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def look(self) -> Meaning:
        """How it stands. Asks no network."""
        chosen, models = self._services.settings.library, self._services.models
        wanted = models.hub_id(chosen.embedder)
        obstacle = "the hub is switched off" if chosen.is_offline else ""
        found = (one for one in models.downloads() if one.name == wanted and one.state != "done")
        return Meaning(
            chosen.embedder,
            models.is_here(chosen.embedder),
            obstacle if wanted else "its folder is not there",
            next(found, None),
        )

    def get(self) -> None:
        """Download it, or go on with that. Raises AppError."""
        seen, models = self.look(), self._services.models
        if seen.download and seen.download.state in ("paused", "failed"):
            models.resume(seen.download.name)
        elif not seen.is_coming:
            models.start(seen.name)


def meaning_html(seen: Meaning) -> str:
    """The line."""
    short = escape(seen.name.rpartition("/")[2])
    if seen.is_here:
        return _line("Found by words and by meaning.")
    if seen.is_coming and seen.download:
        return _line(
            f"Found by words. {short} is coming: {escape(told(seen.download))}", _bar(seen.download), "off"
        )
    if seen.obstacle:
        return _line(f"Found by words. {short} would find by meaning, too: {seen.obstacle}.")
    if seen.download:
        note = escape(seen.download.note or "Its download is paused.")
        return _line(f"Found by words. {short}: {note}", button("Resume", "get-meaning", about=short))
    size = DEFAULT_SIZE if seen.name == DEFAULT_EMBEDDER else ""
    download = button("Download", "get-meaning", about=short)
    return _line(f"Found by words. Get {short}{size} to find by meaning, too.", download)


def _line(words: str, behind: str = "", live: str = "polite") -> str:
    return f'<div class="meaning"><p class="facts" aria-live="{live}">{words}</p>{behind}</div>'


def _bar(download: Download) -> str:
    value = f'value="{download.done}"' if download.size else ""
    return f'<progress {value} max="{max(download.size, 1)}" aria-label="{escape(download.name)}"></progress>'
