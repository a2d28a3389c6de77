"""The Discover tab: models recommended for this machine, the catalogue by filters, and the results of a search."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from markupsafe import Markup

from app.ui.frame.templates import render_macro
from app.ui.models.inventory import MEMORY_PARTS, Inventory, fit_values
from app.values.gguf_header import packing_of
from app.values.messages import ModelChoice
from app.values.model import (
    Fit,
    Kind,
    Recommendation,
    RemoteModel,
    SearchHit,
    Use,
    best_gguf,
    gigabytes,
    parameters_label,
)
from app.values.quantisation_sizes import Quantisation

TEMPLATE = "discover.html"
Size = Literal["any", "1", "5", "10", "20"]
SIZES: dict[Size, str] = {
    "any": "Any size",
    "1": "Up to 1 GB",
    "5": "Up to 5 GB",
    "10": "Up to 10 GB",
    "20": "Up to 20 GB",
}
"""The filters by maximum download size in gigabytes, and their labels on the page."""
Task = Use | Literal["any"]
TASKS: dict[Task, str] = {
    "any": "Any task",
    "chat": "Chat",
    "code": "Code",
    "reasoning": "Reasoning",
    "comparison": "For comparison with papers",
}
KINDS: dict[Kind, str] = {"dense": "", "hybrid": "some layers are recurrent", "mixture": "mixture of experts"}
MOST = 3
"""Maximum number of models that are recommended."""
CPU_PARAMETERS = 4_500_000_000
"""Maximum number of parameters of models that are recommended for a CPU, on which larger models usually write
more slowly than people read."""


@dataclass(slots=True)
class Filters:
    """The filters by which a page shows models of the catalogue."""

    size: Size = "any"
    task: Task = "any"

    def admits(self, one: Recommendation) -> bool:
        is_small = self.size == "any" or one.entry.size <= int(self.size) * 1_000_000_000
        return is_small and self.task in ("any", one.entry.use)


@dataclass(frozen=True, slots=True)
class SearchResults:
    """What a search found: recommended models, models on the hub, and inspected models, each with the URL of its
    page. `problem` is why results may be missing."""

    text: str = ""
    recommended: tuple[Recommendation, ...] = ()
    hits: tuple[SearchHit, ...] = ()
    inspected: tuple[tuple[RemoteModel, str], ...] = ()
    problem: str = ""


def best_models(inventory: Inventory) -> tuple[Recommendation, ...]:
    """Choose up to MOST models for a first start: the largest model that suits this machine, then the largest
    one whose download is at most half as large, and so on. Smaller models usually write faster."""
    chosen: list[Recommendation] = []
    is_cpu, free = inventory.memory.device == "cpu", inventory.disk.free
    for one in sorted(inventory.recommended, key=lambda one: one.entry.parameters, reverse=True):
        entry = one.entry
        is_smaller = not chosen or entry.size <= chosen[-1].entry.size / 2
        is_quick = not is_cpu or entry.parameters <= CPU_PARAMETERS
        fits = one.fit.verdict == "fits" and entry.size < free
        if entry.is_first and is_smaller and is_quick and fits:
            chosen.append(one)
    return tuple(chosen[:MOST])


def quantisation_of(choice: ModelChoice, fit: Fit | None) -> Quantisation:
    """Return the quantisation with which a model is loaded; `fit` is the estimate for this choice."""
    if choice.quantisation != "auto":
        return choice.quantisation
    return fit.quantisation if fit and choice.dtype == "auto" else "none"


def picks_html(inventory: Inventory | None, known: frozenset[str]) -> Markup:
    """Render the models recommended for this machine; those in `known` are installed or downloading."""
    picks = [_row(one) for one in best_models(inventory)] if inventory else []
    return render_macro(TEMPLATE, "picks", picks=picks, known=known)


def catalogue_html(inventory: Inventory | None, filters: Filters, known: frozenset[str]) -> Markup:
    """Render the models of the catalogue that the filters admit; those for comparison with papers come last."""
    shown = [one for one in inventory.recommended if filters.admits(one)] if inventory else []
    current = [one for one in shown if one.entry.use != "comparison"]
    return render_macro(
        TEMPLATE,
        "catalogue",
        fitting=[_row(one) for one in current if one.fit.verdict != "too big"],
        too_big=[_row(one) for one in current if one.fit.verdict == "too big"],
        compared=[_row(one) for one in shown if one.entry.use == "comparison"],
        is_known=inventory is not None,
        parts=MEMORY_PARTS,
        known=known,
    )


def _row(one: Recommendation) -> dict[str, object]:
    entry = one.entry
    facts = (
        f"{parameters_label(entry.parameters)} parameters",
        f"{entry.context:,} tokens of context",
        KINDS[entry.kind],
        f"{gigabytes(one.fit.need.weights)} of weights in {one.fit.form}",
    )
    return {
        "entry": entry,
        "size": gigabytes(entry.size),
        "facts": list(filter(None, facts)),
        "fit": fit_values(one.fit),
    }


def results_html(results: SearchResults, known: frozenset[str], free: int = 0) -> Markup:
    """Render the results of a search; nothing before a search. `free` is the free disk space in bytes."""
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


def _inspected(model: RemoteModel, page: str, known: frozenset[str], free: int) -> dict[str, object]:
    facts = (
        f"{parameters_label(model.parameters)} parameters" if model.parameters else "",
        gigabytes(model.size) if model.size else "",
        f"{model.context:,} tokens" if model.context else "",
        model.licence,
    )
    return {
        "model": model,
        "page": page,
        "facts": list(filter(None, facts)),
        # A gated model has a note of its own about what to do before it can be checked.
        "problems": () if model.is_gated and model.files else model.problems,
        "fit": fit_values(model.fit) if model.fit else None,
        "files": [
            {
                "name": file.name,
                "words": packing_of(file.name) or file.name,
                "size": gigabytes(file.size),
                "is_here": not known.isdisjoint(
                    (f"{model.repo}:{file.name}", f"{model.repo}/{Path(file.name).stem}")
                ),
            }
            for file in (model.ggufs if model.fit else ())
        ],
        "best": best_gguf(model.ggufs, free, model.fit.memory.free if model.fit else 0),
    }
