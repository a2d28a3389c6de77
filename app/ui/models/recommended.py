"""Which models are recommended for this machine."""

import re
from collections.abc import Sequence

from app.model_messages import FileProgress, Recommendation
from app.ui.models.inventory import Inventory

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
