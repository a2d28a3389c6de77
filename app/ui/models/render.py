"""Renders the Models view, the Load dialog and the other lists of models."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass, replace
from typing import Any, cast, get_args

from markupsafe import Markup

from app.models_registry.installed_models import hub_name
from app.ui.frame.page_updates import CachedRenderer, Parts
from app.ui.frame.services import Services
from app.ui.frame.templates import render_macro
from app.ui.frame.top_bar import PHASES, describe, short_name
from app.ui.models.discover import Filters, catalogue_html, picks_html
from app.ui.models.inventory import InstalledFit, Inventory, InventoryCache, fit_values, is_same_model, share
from app.ui.models.load_dialog import LoadDialog, folder_html, load_dialog_html, options_here
from app.values.messages import AttentionChoice, DType, EngineStatus, ModelChoice
from app.values.model import Download, DownloadState, gigabytes
from app.values.quantisation_sizes import Quantisation, QuantisationChoice
from app.values.server import Server

TEMPLATE = "models.html"
STATES: dict[DownloadState, str] = {
    "queued": "Queued",
    "running": "Downloading",
    "paused": "Paused",
    "failed": "Failed",
    "done": "Downloaded",
}
DELETABLE = ("hub", "hub-gguf")
"""Origins of models that Foresight may delete, which are those in the hub's cache."""
ORIGINS = {
    "demo": "part of Foresight", "hub": "Hugging Face cache", "folder": "your folder",
    "hub-gguf": "Hugging Face cache", "lm-studio": "LM Studio", "ollama": "Ollama", "llama.cpp": "llama.cpp",
}  # fmt: skip


@dataclass(eq=False)
class ModelsRenderer(CachedRenderer):
    """Renders the Models view and the lists of models elsewhere."""

    _services: Services
    _inventory: InventoryCache
    _filters: Filters
    _dialog: LoadDialog

    def inputs(self) -> tuple[Any, ...]:
        services, dialog = self._services, self._dialog
        return (
            self._inventory.get(), services.models.downloads.snapshot(), services.engine.status(),
            services.settings.model, services.servers.servers(), services.conversations.is_busy, dialog.form,
            dialog.folder, dialog.problem, astuple(self._filters),
        )  # fmt: skip

    def draw(self, inputs: tuple[Any, ...]) -> Parts:
        inventory, downloads, status, choice, servers, is_busy, form, folder, problem, _ = inputs
        dialog = folder_html(folder, problem) if folder else load_dialog_html(form, status, is_busy, choice)
        count = download_count(downloads)
        known = installed_or_downloading(inventory, downloads)
        return {
            "servers": servers_html(servers, choice),
            "model-picker": picker_html(inventory, status, choice, servers),
            "load-choices": load_choices_html(inventory, status, choice),
            "load-dialog": dialog,
            # This part is not HTML. When it changes, the page fills in the new model's temperature.
            "model": repr(choice),
            "to-models": f"Models ({count})" if count else "Models",
            "downloads": downloads_html(downloads),
            "loaded": loaded_html(inventory, status),
            "installed": installed_html(inventory, status),
            "picks": picks_html(inventory, known),
            "catalogue": catalogue_html(inventory, self._filters, known),
            "access-note": token_html(inventory),
        }


def installed_or_downloading(inventory: Inventory | None, downloads: Sequence[Download]) -> frozenset[str]:
    """Return the names of all models that are ready or in the list of downloads."""
    models = [one.model for one in inventory.installed] if inventory else []
    installed = {model.name for model in models if model.state == "ready"}
    return frozenset(installed | {download.name.partition("@")[0] for download in downloads})


def downloads_html(downloads: Sequence[Download]) -> Markup:
    """Render all downloads; nothing if there are none."""
    rows = [{"download": one, "state": STATES[one.state], "facts": download_words(one)} for one in downloads]
    return render_macro(TEMPLATE, "downloads", rows=rows)


def download_count(downloads: Sequence[Download]) -> str:
    """Return "2 downloading, 1 failed"; queued downloads count as downloading. Returns "" if all are done."""
    words = {"queued": "downloading", "running": "downloading", "paused": "paused", "failed": "failed"}
    counts = Counter(words[one.state] for one in downloads if one.state in words)
    return ", ".join(f"{counts[word]} {word}" for word in dict.fromkeys(words.values()) if counts[word])


def download_words(download: Download) -> str:
    """Return the state of a download: "120 MB of 1.20 GB · 12 MB/s · 2 min left"."""
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
    """Return a time in words: "40 s", "3 min", "2 h 5 min"."""
    if round(seconds) < 60:
        return f"{max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    hours, rest = divmod(minutes, 60)
    return " ".join(filter(None, (f"{hours} h" * (hours > 0), f"{rest} min" * (rest > 0))))


def loaded_html(inventory: Inventory | None, status: EngineStatus) -> Markup:
    """Render the loaded model with its estimated and measured memory, or what the engine does instead."""
    info = status.model if status.phase in ("ready", "busy") else None
    fit = inventory.loaded_fit if inventory else None
    memory = [
        f"Estimated memory: {gigabytes(fit.peak)} with {fit.context:,} tokens of context" if fit else "",
        f"Measured peak: {gigabytes(status.peak)}" if status.peak else "",
    ]
    return render_macro(
        TEMPLATE,
        "loaded",
        name=info.name if info else "",
        facts=describe(info).split(" · ")[1:] if info else [],
        memory=memory,
        note=status.note if info else status.note or PHASES[status.phase],
        is_remote=info is not None and bool(info.server),
    )


def installed_html(inventory: Inventory | None, status: EngineStatus) -> Markup:
    """Render all installed models, the model folders, and the disk use."""
    rows = [_installed(one, status) for one in inventory.installed] if inventory else []
    disk: dict[str, object] = {}
    if inventory:
        use, ours = (
            inventory.disk,
            [one.model for one in inventory.installed if one.model.origin in DELETABLE],
        )
        models = sum(model.size for model in ours)
        others = max(0, use.total - use.free - models)
        words = f"Models {gigabytes(models)}, other files {gigabytes(others)}, free {gigabytes(use.free)}"
        widths = [("models", share(models, use.total)), ("others", share(others, use.total))]
        disk = {"words": words, "widths": widths, "folder": use.folder}
    return render_macro(TEMPLATE, "installed", inventory=inventory, rows=rows, disk=disk)


def _is_loaded(one: InstalledFit, status: EngineStatus) -> bool:
    return status.model is not None and is_same_model(one.model, status.model)


def _installed(one: InstalledFit, status: EngineStatus) -> dict[str, object]:
    model, is_loaded = one.model, _is_loaded(one, status)
    return {
        "model": model,
        "is_loaded": is_loaded,
        "can_delete": model.origin in DELETABLE and not is_loaded,
        "resumed": hub_name(model) if model.state == "incomplete" else "",
        "load": ("Options…" if is_loaded else "Load…") if model.state == "ready" else "",
        "size": gigabytes(model.size),
        "facts": [ORIGINS[model.origin], model.revision[:8]],
        "fit": fit_values(one.fit) if one.fit else None,
    }


def token_html(inventory: Inventory | None) -> Markup:
    words = "No token is saved."
    if inventory is not None and inventory.is_logged_in:
        words = "A token was found: saved here or by Hugging Face's tools, or in HF_TOKEN."
    return render_macro("macros.html", "facts", words=[words])


def servers_html(servers: Sequence[Server], choice: ModelChoice) -> Markup:
    return render_macro(TEMPLATE, "servers", servers=[(one, remote_rows((one,), choice)) for one in servers])


def remote_rows(servers: Sequence[Server], chosen: ModelChoice) -> list[dict[str, object]]:
    """Return the models of these servers, each with whether it is chosen, and the value that its button sends."""
    return [
        {
            "name": name,
            "server": server,
            "is_chosen": (name, server.address) == (chosen.name, chosen.server),
            "value": json.dumps(astuple(ModelChoice(name, server=server.address))),
        }
        for server in servers
        for name in server.models
    ]


def picker_html(
    inventory: Inventory | None, status: EngineStatus, choice: ModelChoice, servers: Sequence[Server] = ()
) -> Markup:
    """Render the list that the model's button in the bar opens: all models to load, what is loaded, and Unload.
    `choice` is the model that answers the next message."""
    return render_macro(
        "model_picker.html",
        "picker",
        rows=list(_picker_rows(inventory, status)) if inventory else None,
        loaded=describe(status.model) if status.model else "",
        has_refusals=bool(status.model and status.model.refusals),
        is_local=status.model is not None and not status.model.server,
        remote=remote_rows(servers, choice),
    )


def load_choices_html(inventory: Inventory | None, status: EngineStatus, choice: ModelChoice) -> Markup:
    """Render buttons that load the local model again with another precision or attention."""
    if status.model is None or status.model.server:
        return Markup()
    here = options_here(inventory.gpus if inventory else ())
    is_dense = choice.quantisation in ("auto", "none")
    weights = choice.dtype if is_dense else choice.quantisation
    if (choice.dtype, choice.quantisation) == ("auto", "none"):
        weights = "none"
    precisions = [
        (one.value, one.words or one.label, one.value == weights, _with_weights(choice, one.value))
        for one in (*here.dtype, *here.quantisation[1:])
        if one.value != "none"
    ]
    attentions = [
        (
            one.value,
            one.label,
            one.value == choice.attention,
            json.dumps(astuple(replace(choice, attention=cast(AttentionChoice, one.value)))),
        )
        for one in here.attention
    ]
    groups = {"Precision": precisions, "Attention": attentions}
    return render_macro("model_picker.html", "load_choices", name=short_name(status.model), groups=groups)


def _picker_rows(inventory: Inventory, status: EngineStatus) -> Iterator[dict[str, object]]:
    for one in inventory.installed:
        if one.model.state == "ready":
            fit = one.fit.verdict if one.fit and one.fit.verdict != "fits" else ""
            facts = " · ".join(filter(None, (gigabytes(one.model.size), fit)))
            is_loaded = _is_loaded(one, status)
            yield {"name": one.model.name, "path": one.model.path, "facts": facts, "is_loaded": is_loaded}


def _with_weights(choice: ModelChoice, weights: str) -> str:
    """Return the same model with weights of this precision, as the value that a button sends."""
    if weights in get_args(Quantisation):
        changed = replace(choice, dtype="auto", quantisation=cast(Quantisation, weights), offload=False)
    else:
        kind: QuantisationChoice = "auto" if weights == "auto" else "none"
        changed = replace(choice, dtype=cast(DType, weights), quantisation=kind)
    return json.dumps(astuple(changed))
