"""What the Discover tab shows: picks for this machine, the catalogue by filters, and the results of a search."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from markupsafe import Markup

from app.ui.frame.templates import render_macro
from app.ui.models.fit_bar import COLOURS, MEMORY_PARTS, fit_values
from app.ui.models.inventory import Inventory
from app.ui.models.recommended import best_gguf, best_models, quantisation_of
from app.values.model import (
    FileProgress,
    Recommendation,
    RemoteModel,
    SearchHit,
    Use,
    gigabytes,
    parameters_label,
)

TEMPLATE = "discover.html"
Size = Literal["any", "1", "5", "10", "20"]
SIZES: dict[Size, str] = {
    "any": "Any size",
    "1": "Up to 1 GB",
    "5": "Up to 5 GB",
    "10": "Up to 10 GB",
    "20": "Up to 20 GB",
}
"""Largest downloads in gigabytes, and their names on the page."""
Task = Use | Literal["any"]
TASKS: dict[Task, str] = {"any": "Any task", "chat": "Chat", "code": "Code", "reasoning": "Reasoning"}


@dataclass(slots=True)
class Filters:
    """Which models of the catalogue a page shows."""

    size: Size = "any"
    task: Task = "any"

    def admits(self, one: Recommendation) -> bool:
        """Whether a model is shown."""
        is_small = self.size == "any" or one.entry.size <= int(self.size) * 1_000_000_000
        return is_small and self.task in ("any", one.entry.use)


@dataclass(frozen=True, slots=True)
class SearchResults:
    """What a search found: recommended models, models on the hub, and those that were inspected, each with the URL
    of its page. `problem` says why there is less than there could be."""

    text: str = ""
    recommended: tuple[Recommendation, ...] = ()
    hits: tuple[SearchHit, ...] = ()
    inspected: tuple[tuple[RemoteModel, str], ...] = ()
    problem: str = ""


def picks_html(inventory: Inventory | None, known: frozenset[str]) -> Markup:
    """The models recommended for this machine; those in `known` cannot be downloaded again."""
    picks = [_row(one) for one in best_models(inventory)] if inventory else []
    return render_macro(TEMPLATE, "picks", picks=picks, known=known)


def catalogue_html(inventory: Inventory | None, filters: Filters, known: frozenset[str]) -> Markup:
    """All models of the catalogue that the filters admit, a line each; those that are too big come last."""
    shown = [one for one in inventory.recommended if filters.admits(one)] if inventory else []
    return render_macro(
        TEMPLATE,
        "catalogue",
        fitting=[_row(one) for one in shown if one.fit.verdict != "too big"],
        too_big=[_row(one) for one in shown if one.fit.verdict == "too big"],
        is_known=inventory is not None,
        parts=MEMORY_PARTS,
        known=known,
    )


def _row(one: Recommendation) -> dict[str, object]:
    entry = one.entry
    return {
        "entry": entry,
        "size": gigabytes(entry.size),
        "facts": [f"{parameters_label(entry.parameters)} parameters", f"{entry.context:,} tokens of context"],
        "verdict": one.fit.verdict.capitalize(),
        "colour": COLOURS[one.fit.verdict],
        "fit": fit_values(one.fit),
    }


def matching(inventory: Inventory, text: str) -> list[Recommendation]:
    """The models of the catalogue whose descriptions contain all of these words."""
    words = text.lower().split()
    return [one for one in inventory.recommended if all(word in _description(one) for word in words)]


def _description(one: Recommendation) -> str:
    entry = one.entry
    return f"{entry.repo} {entry.family} {entry.use} {entry.good_for}".lower()


def results_html(results: SearchResults, known: frozenset[str], free: int = 0) -> Markup:
    """The results of a search; nothing before one. `free` are bytes of the disk."""
    inspected = {model.repo for model, _ in results.inspected}
    return render_macro(
        TEMPLATE,
        "results",
        results=results,
        inspected=[_inspected(model, page, known, free) for model, page in results.inspected],
        recommended=list(map(_row, results.recommended)),
        hits=[hit for hit in results.hits if hit.repo not in inspected],
        known=known,
    )


def searching_html(text: str) -> Markup:
    """What is shown while the hub is searched."""
    return render_macro(TEMPLATE, "searching", text=text)


def _inspected(model: RemoteModel, page: str, known: frozenset[str], free: int) -> dict[str, object]:
    # A gated model has a note of its own, which says what to do before it can be checked.
    problems = () if model.is_gated and model.files else model.problems
    fit = fit_values(model.fit) if model.fit else None
    files = [_gguf(model.repo, file, known) for file in model.ggufs] if model.fit else []
    return {
        "model": model,
        "page": page,
        "facts": list(_facts(model)),
        "problems": problems,
        "fit": fit,
        "files": files,
        "best": best_gguf(model.ggufs, free),
    }


def _gguf(repo: str, file: FileProgress, known: frozenset[str]) -> dict[str, object]:
    is_here = not known.isdisjoint({f"{repo}:{file.name}", f"{repo}/{file.name.removesuffix('.gguf')}"})
    words = quantisation_of(file.name) or file.name
    return {"name": file.name, "words": words, "size": gigabytes(file.size), "is_here": is_here}


def _facts(model: RemoteModel) -> Iterator[str]:
    if model.parameters:
        yield f"{parameters_label(model.parameters)} parameters"
    if model.size:
        yield gigabytes(model.size)
    if model.context:
        yield f"{model.context:,} tokens"
    if model.licence:
        yield model.licence
