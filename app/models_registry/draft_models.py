"""Finds draft models for a model: heads for its sizes, smaller models with its vocabulary, and known pairs."""

from collections.abc import Iterable

from app.errors import ModelError
from app.models_registry.files.config import read_config
from app.models_registry.files.weights import read_weights
from app.values.eagle_config import read_eagle_config
from app.values.model import DraftModels, InstalledModel
from app.values.tokenizer_vocabulary import vocabulary_digest

KNOWN_PAIRS = (
    ("SmolLM2-1.7B", "HuggingFaceTB/SmolLM2-135M-Instruct"),
    ("SmolLM2-360M", "HuggingFaceTB/SmolLM2-135M-Instruct"),
    *((f"Qwen3-{size}", "Qwen/Qwen3-0.6B") for size in ("32B", "14B", "8B", "4B", "1.7B")),
    *((f"Qwen2.5-{size}", "Qwen/Qwen2.5-0.5B-Instruct") for size in ("32B", "14B", "7B", "3B", "1.5B")),
)
"""The beginning of a model's name, and the hub id of a model that drafts well for it."""


def draft_models_for(model: InstalledModel, installed: Iterable[InstalledModel]) -> DraftModels:
    """Return the installed models that can draft for this one, heads first, then the smallest."""
    installed, digest = list(installed), vocabulary_digest(model.path)
    heads = [one for one in installed if one.state == "draft head" and _has_its_sizes(one, model)]
    ready = [one for one in installed if one.state == "ready" and digest]
    sizes = {one.path: _parameters(one) for one in (model, *ready)}
    smaller = [one for one in ready if 0 < sizes[one.path] < sizes[model.path]]
    smaller.sort(key=lambda one: sizes[one.path])
    same = [one for one in smaller if vocabulary_digest(one.path) == digest]
    return DraftModels((*heads, *same), known_draft_model(model.name))


def _has_its_sizes(head: InstalledModel, model: InstalledModel) -> bool:
    """Return whether a head's sizes of states and vocabulary are the model's.

    More is checked when both are loaded."""
    try:
        wanted, found = read_eagle_config(head.path, head.name), read_config(model.path, model.name)
    except (ModelError, OSError):
        return False
    return (wanted.target_hidden, wanted.vocabulary) == (found.hidden, found.vocabulary)


def _parameters(model: InstalledModel) -> int:
    """Count the weights in a model's files; 0 if they are invalid. (File sizes depend on the precision.)"""
    try:
        return read_weights(model.path, model.name).numbers
    except (ModelError, OSError):
        return 0


def known_draft_model(name: str) -> str:
    """Return the hub id of a model that is known to draft well for the model of this name; "" if there is none."""
    own = name.rpartition("/")[2].lower()
    return next((draft for begin, draft in KNOWN_PAIRS if own.startswith(begin.lower())), "")
