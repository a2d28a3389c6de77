"""Which models are recommended for this machine, and which format of their weights."""

import re
from collections.abc import Sequence
from dataclasses import replace

from app.settings import Settings
from app.ui.models.inventory import Inventory, load_name
from app.values.messages import ModelChoice
from app.values.model import FileProgress, Fit, InstalledModel, Recommendation
from app.values.quantisation import Quantisation

MOST = 3
CPU_PARAMETERS = 4_500_000_000
"""A CPU reads every weight for every step: with more of them it writes more slowly than people read."""
DISK_RESERVE = 200_000_000
"""Bytes that a download leaves free on the disk."""
QUANTISATION = re.compile(r"(?:^|[-._])((?:I?Q|TQ)\d\w*|MXFP4\w*|BF16|F16|F32)$", re.IGNORECASE)


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


def quantisation_for(inventory: Inventory, name: str, fit: Fit | None) -> Quantisation:
    """The fastest quantisation for a model of the catalogue whose weights fit in float32; else "none".

    The weights are read in float32 and then quantised. Other models may have layers that cannot be quantised."""
    is_known = any(one.entry.repo == name for one in inventory.recommended)
    return inventory.fast if is_known and fit and _fits_in_float32(fit) else "none"


def _fits_in_float32(fit: Fit) -> bool:
    width = 4 if fit.precision == "float32" else 2
    return fit.need.total + fit.need.weights * (4 // width - 1) <= fit.memory.free


def quantisation_of_offer(settings: Settings, inventory: Inventory, one: Recommendation) -> Quantisation:
    """How an offered model is loaded once it is here: as it was loaded last, or as is fastest on this machine."""
    repo = one.entry.repo
    return _choice(settings, inventory, repo, repo, one.fit).quantisation


def choice_of(settings: Settings, inventory: Inventory, model: InstalledModel) -> ModelChoice:
    """How an offered model that is installed is loaded: as it was loaded last, or as is fastest on this machine."""
    return _choice(settings, inventory, load_name(model), model.name, inventory.fit_of(model))


def _choice(settings: Settings, inventory: Inventory, name: str, repo: str, fit: Fit | None) -> ModelChoice:
    """As it was loaded last by this name; else with the fastest quantisation for this model of the catalogue."""
    choice = settings.choice_of(name)
    if settings.was_loaded(name):
        return choice
    return replace(choice, quantisation=quantisation_for(inventory, repo, fit))


def quantisation_of(name: str) -> str:
    """How a GGUF file is quantised, by its name: "Q4_K_M"; "" where it does not tell."""
    found = QUANTISATION.search(name.removesuffix(".gguf"))
    return found[1].upper() if found else ""


def best_gguf(files: Sequence[FileProgress], free: int) -> str:
    """The largest of these files that fits the free disk, of those of at most 8 bits where there are some.

    All of them take the same memory once they are loaded; a larger one rounds less. "" where none fits."""
    fitting = [file for file in files if file.size + DISK_RESERVE <= free]
    packed = [file for file in fitting if not quantisation_of(file.name).endswith(("F16", "F32"))]
    return max(packed or fitting, key=lambda file: file.size).name if fitting else ""
