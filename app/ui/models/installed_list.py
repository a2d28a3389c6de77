"""What is on this machine: the loaded model, the installed ones, and the disk."""

from collections.abc import Iterator
from html import escape

from app.messages import EngineStatus
from app.model_messages import InstalledModel, gigabytes
from app.ui.models.pieces import fit_html, title
from app.ui.models.stock import Judged, Stock, is_same
from app.ui.pieces import badge, button, facts
from app.ui.templates import problem_html
from app.ui.top_bar import PHASES, describe

ORIGINS = {"demo": "ships with the app", "hub": "in the hub's cache", "folder": "in your folder"}


def loaded_html(stock: Stock | None, status: EngineStatus) -> str:
    """The loaded model, with what it takes beside what was expected; or what the worker does."""
    if status.model is None or status.phase not in ("ready", "busy"):
        return (
            f'<h3>Loaded</h3><p class="facts" role="status">{escape(status.note or PHASES[status.phase])}</p>'
        )
    name = status.model.name
    return (
        f'<h3>Loaded</h3><article class="card loaded"><header>{title(name)}</header>'
        f"{facts(*describe(status.model).split(' · ')[1:])}"
        f'<p class="facts measured">{escape(_measured(stock, status))}</p>{problem_html(status.note)}'
        f'<div class="actions">{button("Unload", "unload", name)}</div></article>'
    )


def _measured(stock: Stock | None, status: EngineStatus) -> str:
    """The estimate beside the measured peak."""
    fit = stock.loaded_fit if stock else None
    measured = f"Measured: {gigabytes(status.peak)} at most so far" if status.peak else ""
    estimate = f"Estimated: {gigabytes(fit.peak)} with {fit.context:,} tokens" if fit else ""
    return " · ".join(filter(None, (estimate, measured)))


def installed_html(stock: Stock | None, status: EngineStatus) -> str:
    """All models on this machine, and what the disk holds."""
    if stock is None:
        return '<p class="facts">Looking at what is here…</p>'
    rows = "".join(f"<li>{_row(judged, status, stock)}</li>" for judged in stock.installed)
    return (
        f'<h3>On this machine</h3><ul class="models" aria-label="Installed models">{rows}</ul>'
        f"{_folders_html(stock)}{disk_html(stock)}"
    )


def disk_html(stock: Stock) -> str:
    """What the models take of the disk, and what is free."""
    taken = sum(judged.model.size for judged in stock.installed if judged.model.origin == "hub")
    disk = stock.disk
    others = max(0, disk.total - disk.free - taken)
    words = f"Models {gigabytes(taken)}, everything else {gigabytes(others)}, free {gigabytes(disk.free)}"
    shares = (("models", taken), ("others", others))
    segments = "".join(
        f'<i class="of-{kind}" style="width:{size / max(1, disk.total):.2%}"></i>' for kind, size in shares
    )
    return (
        f'<div class="disk"><div class="bar" role="img" aria-label="{escape(words)}">{segments}</div>'
        f'<p class="facts">{escape(words)}. {escape(str(disk.folder))}</p></div>'
    )


def access_html(stock: Stock | None) -> str:
    """Whether a token is kept."""
    is_kept = stock is not None and stock.is_logged_in
    return facts("A token is saved, where the hub's own tools keep it." if is_kept else "No token is saved.")


def _folders_html(stock: Stock) -> str:
    rows = "".join(
        f"<li><span>{escape(folder)}</span>{button('Take off the list', 'forget-folder', folder)}</li>"
        for folder in stock.library.folders
    )
    return f'<ul class="folders" aria-label="Your own folders">{rows}</ul>' if rows else ""


def _row(judged: Judged, status: EngineStatus, stock: Stock) -> str:
    model = judged.model
    is_loaded = status.model is not None and is_same(model, status.model)
    mark = badge("loaded", "good") if is_loaded else (badge(model.state) if model.problem else "")
    what = facts(gigabytes(model.size), model.revision[:8], ORIGINS[model.origin])
    fit = fit_html(judged.fit) if judged.fit else ""
    buttons = "".join(_buttons(judged, is_loaded, stock))
    return (
        f'<article class="card"><header>{title(model.name)}{mark}</header>{what}{problem_html(model.problem)}{fit}'
        f'<div class="actions">{buttons}</div></article>'
    )


def _buttons(judged: Judged, is_loaded: bool, stock: Stock) -> Iterator[str]:
    model, path = judged.model, str(judged.model.path)
    if model.state == "ready" and not is_loaded:
        verdict = judged.fit.verdict if judged.fit else "fits"
        if verdict == "fits with int4":
            yield button("Load with int4", "load", path, about=model.name, kind="primary", value="int4")
        label = "Load" if verdict == "fits" else "Load all the same"
        kind = "primary" if verdict == "fits" else ""
        yield button(label, "load", path, about=model.name, kind=kind, value=stock.wish.kept)
    if _can_go_on(model):
        yield button("Download the rest", "download", model.name, kind="primary")
    if model.origin == "hub" and not is_loaded:
        yield button("Delete", "delete", path, about=model.name)


def _can_go_on(model: InstalledModel) -> bool:
    return model.origin == "hub" and model.state == "incomplete"
