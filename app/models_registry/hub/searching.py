"""Finding models on the hub, and what there is to know of one before it is downloaded."""

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

from app.errors import ModelError
from app.model_messages import FileProgress, Memory, Precision, RemoteModel, SearchHit
from app.models_registry.fit.estimate import Estimator, judge
from app.models_registry.hub.asking import read_bytes
from app.models_registry.hub.errors import in_words
from app.models_registry.hub.hub import SECONDS_TO_ANSWER, Hub
from app.models_registry.hub.ids import HUB_ID, HubId
from app.models_registry.hub.plan import make_plan
from app.models_registry.hub.remote import remote_shape, remote_weights

MOST = 50
LONGEST_LIST = 5_000_000
KINDS = {"pipeline_tag": "text-generation", "filter": "safetensors"}
SHOWN = 200
"""Characters of a word from the hub that are kept."""


def search(hub: Hub, words: str, limit: int = 20) -> list[SearchHit]:
    """Text models whose name has these words, the most downloaded first. Raises ModelError."""
    what = "The hub's list of models"
    hub.require_online(what)
    query = urlencode(
        {"search": words, "sort": "downloads", "direction": -1, "limit": min(limit, MOST), **KINDS}
    )
    with in_words(what, "", hub.address):
        # The client's own search tries six times before it says that there is no network.
        told = read_bytes(
            f"{hub.address}/api/models?{query}", 0, LONGEST_LIST, SECONDS_TO_ANSWER, is_part=False
        )
        return _hits(json.loads(told))[:limit]


def look_at(hub: Hub, wanted: HubId, memory: Memory, precision: Precision, context: int) -> RemoteModel:
    """A hub model with its files and whether it fits. What keeps it from being used is among its problems.

    Raises ModelError when the hub does not know it or cannot be reached."""
    info = hub.look_up(wanted)
    known = RemoteModel(
        repo=wanted.repo,
        commit=str(info.sha or "")[:40],
        size=0,
        files=(),
        is_gated=bool(info.gated),
        licence=_licence(info.tags or []),
        downloads=info.downloads or 0,
    )
    try:
        plan = make_plan(info, wanted)
        files = tuple(FileProgress(file.name, file.size) for file in plan.files)
        known = replace(known, size=plan.size, files=files)
        shape, weights = remote_shape(hub, plan), remote_weights(hub, plan)
    except ModelError as error:
        return replace(known, problems=(str(error),))
    return replace(
        known,
        architecture=shape.architecture,
        parameters=weights.numbers,
        context=shape.context,
        fit=judge(Estimator(shape, weights, memory.device), memory, precision, context),
    )


def _licence(tags: Iterable[str]) -> str:
    return next((tag.removeprefix("license:")[:SHOWN] for tag in tags if tag.startswith("license:")), "")


def _hits(listed: Any) -> list[SearchHit]:
    """What the hub lists, without what makes no sense."""
    models = [model for model in listed if isinstance(model, dict)] if isinstance(listed, list) else []
    return [_hit(model) for model in models if HUB_ID.fullmatch(str(model.get("id")))]


def _hit(model: dict[str, Any]) -> SearchHit:
    return SearchHit(
        model["id"], _count(model.get("downloads")), _count(model.get("likes")), bool(model.get("gated"))
    )


def _count(value: object) -> int:
    return value if isinstance(value, int) and value >= 0 else 0
