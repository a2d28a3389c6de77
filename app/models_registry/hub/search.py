"""Searches the hub, and inspects a model before it is downloaded: its config and the headers of its weights."""

import json
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any
from urllib.parse import urlencode

from huggingface_hub import hf_hub_url

from app.errors import ModelBroken, ModelError
from app.model_messages import FileProgress, Memory, Precision, RemoteModel, SearchHit
from app.models_registry.files.config import ModelConfig, parse_config
from app.models_registry.files.model_files import CONFIG, LONGEST_CONFIG
from app.models_registry.files.weights import Tensor, Weights, tensors
from app.models_registry.fit_estimate import Estimator, judge
from app.models_registry.hub.download_plan import DownloadPlan, make_plan
from app.models_registry.hub.errors import as_model_errors
from app.models_registry.hub.http import read_bytes
from app.models_registry.hub.hub import SECONDS_TO_ANSWER, Hub
from app.models_registry.hub.hub_id import HUB_ID, HubId

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
    with as_model_errors(what, "", hub.address):
        # The client's own search tries six times before it says that there is no network.
        told = read_bytes(
            f"{hub.address}/api/models?{query}", 0, LONGEST_LIST, SECONDS_TO_ANSWER, is_part=False
        )
        return _hits(json.loads(told))[:limit]


def inspect_model(hub: Hub, wanted: HubId, memory: Memory, precision: Precision, context: int) -> RemoteModel:
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
        shape, weights = remote_config(hub, plan), remote_weights(hub, plan)
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


FIRST = 100_000
"""Bytes that are asked for at once: most headers are shorter."""
LONGEST_HEADER = 25_000_000
MOST_FILES = 300
AT_ONCE = 8

Read = Callable[[int, int], bytes]
"""(start, count) -> these bytes of one file."""


def remote_config(hub: Hub, plan: DownloadPlan) -> ModelConfig:
    """The shape of a model on the hub. Raises ModelError."""
    with as_model_errors(plan.repo, plan.revision, hub.page(plan.repo)):
        return parse_config(_reader(hub, plan, CONFIG)(0, LONGEST_CONFIG), plan.repo)


def remote_weights(hub: Hub, plan: DownloadPlan) -> Weights:
    """The tensors of a model on the hub. Raises ModelError."""
    names = [file.name for file in plan.files if file.name.endswith(".safetensors")][:MOST_FILES]
    with as_model_errors(plan.repo, plan.revision, hub.page(plan.repo)), ThreadPoolExecutor(AT_ONCE) as pool:
        found = pool.map(lambda name: _header(_reader(hub, plan, name), plan.repo), names)
        return Weights(tuple(tensor for part in found for tensor in part))


def _reader(hub: Hub, plan: DownloadPlan, file: str) -> Read:
    hub.require_online(plan.repo)
    url = hf_hub_url(plan.repo, file, revision=plan.commit, endpoint=hub.endpoint)
    return partial(read_bytes, url, read_timeout=SECONDS_TO_ANSWER)


def _header(read: Read, repo: str) -> list[Tensor]:
    begin = read(0, FIRST)
    size = int.from_bytes(begin[:8], "little")
    if not 0 < size <= LONGEST_HEADER:
        raise ModelBroken(f"A weight file of {repo} is no safetensors file: choose another model.")
    if len(begin) < 8 + size:
        begin += read(len(begin), 8 + size - len(begin))
    try:
        return list(tensors(json.loads(begin[8 : 8 + size]), repo))
    except (ValueError, RecursionError) as error:
        raise ModelBroken(f"A weight file of {repo} has a damaged header: choose another model.") from error
