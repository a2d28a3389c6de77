"""Which models can draft for which: heads of its sizes, smaller ones of its vocabulary, known pairs."""

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
"""How a model's name begins, and the id of a model on the hub that drafts for it."""


def draft_models_for(model: InstalledModel, installed: Iterable[InstalledModel]) -> DraftModels:
    """Those of the installed models that can draft for this one, heads and then the smallest first; a known one."""
    installed, digest = list(installed), vocabulary_digest(model.path)
    heads = [one for one in installed if one.state == "draft head" and _has_its_sizes(one, model)]
    ready = [one for one in installed if one.state == "ready" and digest]
    sizes = {one.path: _parameters(one) for one in (model, *ready)}
    smaller = [one for one in ready if 0 < sizes[one.path] < sizes[model.path]]
    smaller.sort(key=lambda one: sizes[one.path])
    same = [one for one in smaller if vocabulary_digest(one.path) == digest]
    return DraftModels((*heads, *same), known_draft_model(model.name))


def _has_its_sizes(head: InstalledModel, model: InstalledModel) -> bool:
    """Whether a head reads states and tokens like this model's. More of it is known once both are loaded."""
    try:
        wanted, found = read_eagle_config(head.path, head.name), read_config(model.path, model.name)
    except (ModelError, OSError):
        return False
    return (wanted.target_hidden, wanted.vocabulary) == (found.hidden, found.vocabulary)


def _parameters(model: InstalledModel) -> int:
    """How many weights its files hold; 0 where they make no sense. Bytes say less: precisions differ."""
    try:
        return read_weights(model.path, model.name).numbers
    except (ModelError, OSError):
        return 0


def known_draft_model(name: str) -> str:
    """The hub id of a model that is known to draft well for the model of this name; "" for none."""
    own = name.rpartition("/")[2].lower()
    return next((draft for begin, draft in KNOWN_PAIRS if own.startswith(begin.lower())), "")
