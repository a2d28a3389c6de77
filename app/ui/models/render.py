"""What the Models view shows: reads the services and renders the lists of assets/ui/templates/models.html."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import get_args

from markupsafe import Markup

from app.messages import EngineStatus
from app.model_messages import (
    Download,
    DownloadState,
    Fit,
    MemoryNeed,
    Recommendation,
    RemoteModel,
    SearchHit,
    Use,
    Verdict,
    gigabytes,
)
from app.ui.models.inventory import InstalledFit, Inventory, InventoryCache, is_same_model
from app.ui.models.picker import picker_html
from app.ui.page_stream import Parts
from app.ui.services import Services
from app.ui.templates import parameters_in_words, render_macro
from app.ui.top_bar import PHASES, describe

TEMPLATE = "models.html"
MEMORY_PARTS = (("weights", "weights"), ("cache", "context"), ("rows", "steps"), ("runtime", "runtime"))
"""What takes memory: the field of `MemoryNeed`, and its name on the page."""
GROUPS: dict[Verdict, str] = {
    "fits": "Fits this computer",
    "fits with int4": "Fits with int4",
    "too big": "Too big for this computer",
}
COLOURS: dict[Verdict, str] = {"fits": "fits", "fits with int4": "tight", "too big": "big"}
"""A verdict's CSS class. The verdict is always there in words, too."""
USES: dict[Use, str] = {"chat": "For chat", "code": "For code", "reasoning": "For reasoning"}
STATES: dict[DownloadState, str] = {
    "queued": "Queued",
    "running": "Downloading",
    "paused": "Paused",
    "failed": "Failed",
    "done": "Downloaded",
}
ORIGINS = {
    "demo": "included with Foresight",
    "hub": "Hugging Face cache",
    "folder": "your folder",
    "hub-gguf": "Hugging Face cache",
    "lm-studio": "LM Studio",
    "ollama": "Ollama",
    "llama.cpp": "llama.cpp",
}


@dataclass(frozen=True, slots=True)
class SearchResults:
    """What a search found: recommended models, models on the hub, and those that were inspected, each with the URL
    of its page. `problem` says why there is less than there could be."""

    text: str = ""
    recommended: tuple[Recommendation, ...] = ()
    hits: tuple[SearchHit, ...] = ()
    inspected: tuple[tuple[RemoteModel, str], ...] = ()
    problem: str = ""


class ModelsRenderer:
    """Renders the view for one page."""

    def __init__(self, services: Services, inventory: InventoryCache) -> None:
        self._services = services
        self._inventory = inventory
        self._inputs: object = None
        self._parts: Parts = {}

    def render(self) -> Parts:
        """The view's parts; the same object while nothing has changed."""
        inventory, downloads = self._inventory.get(), self._services.models.downloads()
        status, choice = self._services.engine.status(), self._services.settings.model
        inputs = (inventory, downloads, status, choice)
        if inputs != self._inputs:
            count = download_count(downloads)
            self._parts = {
                "to-models": f"Models ({count})" if count else "Models",
                "downloads": downloads_html(downloads),
                "loaded": loaded_html(inventory, status),
                "installed": installed_html(inventory, status),
                "model-picker": picker_html(inventory, status, choice),
                "catalogue": catalogue_html(inventory, installed_or_downloading(inventory, downloads)),
                "access-note": token_html(inventory),
                # Not HTML: the page fills the model boxes of the settings again when it changes.
                "model": repr(choice),
            }
            self._inputs = inputs
        return self._parts


def installed_or_downloading(inventory: Inventory | None, downloads: Sequence[Download]) -> frozenset[str]:
    """The names of models that need no download."""
    models = [one.model for one in inventory.installed] if inventory else []
    installed = {model.name for model in models if model.state == "ready"}
    return frozenset(installed | {download.name.partition("@")[0] for download in downloads})


def catalogue_html(inventory: Inventory | None, known: frozenset[str]) -> Markup:
    """The recommended models by whether they fit, then by use; those in `known` cannot be downloaded again."""
    return render_macro(
        TEMPLATE,
        "catalogue",
        groups=list(_groups(inventory)) if inventory else [],
        parts=MEMORY_PARTS,
        known=known,
    )


def _groups(inventory: Inventory) -> Iterator[dict[str, object]]:
    for verdict in get_args(Verdict):
        fitting = [one for one in inventory.recommended if one.fit.verdict == verdict]
        by_use = {USES[use]: [one for one in fitting if one.entry.use == use] for use in get_args(Use)}
        uses = [(use, list(map(_recommended, models))) for use, models in by_use.items() if models]
        if uses:
            yield {"title": GROUPS[verdict], "verdict": verdict, "uses": uses}


def _recommended(one: Recommendation) -> dict[str, object]:
    entry = one.entry
    size = (parameters_in_words(entry.parameters), gigabytes(entry.size))
    return {
        "entry": entry,
        "facts": [*size, f"{entry.context:,} tokens", entry.licence],
        "fit": fit_values(one.fit),
    }


def matching(inventory: Inventory, text: str) -> list[Recommendation]:
    """The recommended models whose descriptions contain all of these words."""
    words = text.lower().split()
    return [one for one in inventory.recommended if all(word in _description(one) for word in words)]


def _description(one: Recommendation) -> str:
    entry = one.entry
    return f"{entry.repo} {entry.family} {entry.use} {entry.good_for}".lower()


def results_html(results: SearchResults, known: frozenset[str]) -> Markup:
    """The results of a search; nothing before one."""
    inspected = {model.repo for model, _ in results.inspected}
    return render_macro(
        TEMPLATE,
        "results",
        results=results,
        inspected=[_inspected(model, page) for model, page in results.inspected],
        recommended=list(map(_recommended, results.recommended)),
        hits=[hit for hit in results.hits if hit.repo not in inspected],
        known=known,
    )


def searching_html(text: str) -> Markup:
    """What is shown while the hub is searched."""
    return render_macro(TEMPLATE, "searching", text=text)


def _inspected(model: RemoteModel, page: str) -> dict[str, object]:
    facts = [
        parameters_in_words(model.parameters) if model.parameters else "",
        gigabytes(model.size) if model.size else "",
        f"{model.context:,} tokens" if model.context else "",
        model.licence,
    ]
    # A gated model has a note of its own, which says what to do before it can be checked.
    problems = () if model.is_gated and model.files else model.problems
    fit = fit_values(model.fit) if model.fit else None
    return {"model": model, "page": page, "facts": facts, "problems": problems, "fit": fit}


def downloads_html(downloads: Sequence[Download]) -> Markup:
    """All downloads; nothing if there are none."""
    rows = [{"download": one, "state": STATES[one.state], "facts": download_words(one)} for one in downloads]
    return render_macro(TEMPLATE, "downloads", rows=rows)


def download_count(downloads: Sequence[Download]) -> str:
    """The label of the Models button: "2 downloading, 1 paused"; nothing if all downloads have finished."""
    states = [download.state for download in downloads]
    running = states.count("running") + states.count("queued")
    stopped = states.count("paused") + states.count("failed")
    counts = (f"{running} downloading" if running else "", f"{stopped} paused" if stopped else "")
    return ", ".join(filter(None, counts))


def download_words(download: Download) -> str:
    """ "120 MB of 1.2 GB · 12 MB/s · 2 min left"."""
    if not download.size:
        return "Contacting the hub" if download.state == "running" else ""
    if download.state == "done":
        return f"{gigabytes(download.size)} · verified"
    parts = [f"{gigabytes(download.done)} of {gigabytes(download.size)}"]
    if download.speed:
        parts.append(f"{gigabytes(download.speed)}/s")
    if download.seconds_left is not None:
        parts.append(f"{duration(download.seconds_left)} left")
    return " · ".join(parts)


def duration(seconds: float) -> str:
    """ "40 s", "3 min", "2 h 5 min"."""
    if seconds < 60:
        return f"{max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def loaded_html(inventory: Inventory | None, status: EngineStatus) -> Markup:
    """The loaded model with its estimated and measured memory, or what the engine is doing."""
    info = status.model if status.phase in ("ready", "busy") else None
    fit = inventory.loaded_fit if inventory else None
    memory = [
        f"Estimated: {gigabytes(fit.peak)} with {fit.context:,} tokens" if fit else "",
        f"Measured peak: {gigabytes(status.peak)}" if status.peak else "",
    ]
    return render_macro(
        TEMPLATE,
        "loaded",
        name=info.name if info else "",
        facts=describe(info).split(" · ")[1:] if info else [],
        memory=memory,
        note=status.note if info else status.note or PHASES[status.phase],
    )


def installed_html(inventory: Inventory | None, status: EngineStatus) -> Markup:
    """All installed models, the model folders, and the use of the disk."""
    rows = [_installed(one, status) for one in inventory.installed] if inventory else []
    disk = _disk(inventory) if inventory else {}
    return render_macro(TEMPLATE, "installed", inventory=inventory, rows=rows, disk=disk)


def _installed(one: InstalledFit, status: EngineStatus) -> dict[str, object]:
    model = one.model
    is_loaded = status.model is not None and is_same_model(model, status.model)
    return {
        "model": model,
        "is_loaded": is_loaded,
        "can_load": model.state == "ready" and not is_loaded,
        "verdict": one.fit.verdict if one.fit else "fits",
        "facts": [gigabytes(model.size), model.revision[:8], ORIGINS[model.origin]],
        "fit": fit_values(one.fit) if one.fit else None,
    }


def _disk(inventory: Inventory) -> dict[str, object]:
    models = sum(one.model.size for one in inventory.installed if one.model.origin == "hub")
    disk = inventory.disk
    others = max(0, disk.total - disk.free - models)
    words = f"Models {gigabytes(models)}, other files {gigabytes(others)}, free {gigabytes(disk.free)}"
    widths = [("models", _share(models, disk.total)), ("others", _share(others, disk.total))]
    return {"words": words, "widths": widths, "folder": disk.folder}


def token_html(inventory: Inventory | None) -> Markup:
    """Whether an access token is saved."""
    is_saved = inventory is not None and inventory.is_logged_in
    words = "A token is saved where Hugging Face's own tools keep it." if is_saved else "No token is saved."
    return render_macro("macros.html", "facts", words=[words])


def fit_values(fit: Fit) -> dict[str, object]:
    """The memory bar, and the verdict in words."""
    scale = max(fit.memory.free, fit.need.total, 1)
    return {
        "verdict": fit.verdict.capitalize(),
        "colour": COLOURS[fit.verdict],
        "words": _fit_words(fit),
        "parts": parts_words(fit.need),
        "widths": [(part, _share(getattr(fit.need, part), scale)) for part, _ in MEMORY_PARTS],
        "limit": _share(fit.memory.free, scale) if fit.need.total > fit.memory.free else "",
    }


def _fit_words(fit: Fit) -> str:
    needs = f"needs {gigabytes(fit.need.total)} of {gigabytes(fit.memory.free)} free"
    if fit.verdict == "fits":
        return f"{needs} · chats up to {fit.longest_context:,} tokens"
    shorter = f" · {fit.longest_context:,} tokens of context would fit" if fit.longest_context else ""
    return f"{needs}, in {fit.precision}{shorter}"


def parts_words(need: MemoryNeed) -> str:
    """ "weights 1.2 GB, context 60 MB, …"."""
    return ", ".join(f"{name} {gigabytes(getattr(need, part))}" for part, name in MEMORY_PARTS)


def _share(part: int, whole: int) -> str:
    return f"{part / max(1, whole):.2%}"
