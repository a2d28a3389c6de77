"""Searches the hub, and inspects a model before it is downloaded: its config and the headers of its weights."""

import json
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any
from urllib.parse import urlencode

from huggingface_hub import hf_hub_url

from app.config_limits import CONFIG, LONGEST_CONFIG
from app.errors import ModelBroken, ModelError
from app.model_messages import FileProgress, Memory, Precision, RemoteModel, SearchHit
from app.models_registry.files.config import ModelConfig, parse_config
from app.models_registry.files.weights import Tensor, Weights, tensors
from app.models_registry.fit_estimate import Estimator, judge
from app.models_registry.hub.download_plan import DownloadPlan, make_plan
from app.models_registry.hub.errors import as_model_errors
from app.models_registry.hub.gguf_repo import gguf_files_of, remote_gguf
from app.models_registry.hub.http import read_bytes
from app.models_registry.hub.hub import SECONDS_TO_ANSWER, Hub
from app.models_registry.hub.hub_id import HUB_ID, HubId

FIRST = 100_000
"""Bytes of the first request. Most headers are shorter."""
MAX_HEADER_BYTES = 25_000_000
MAX_FILES = 300
AT_ONCE = 8
Read = Callable[[int, int], bytes]
"""(start, count) -> these bytes of a file."""


MAX_HITS = 50
MAX_LIST_BYTES = 5_000_000
FORMATS = ("safetensors", "gguf")
"""The tags of repositories that have weights which can be loaded."""
MAX_LICENCE = 200
"""Characters of a licence that are kept."""


def search(hub: Hub, words: str, limit: int = 20) -> list[SearchHit]:
    """Text models with these words in their names, the most downloaded first. Raises ModelError."""
    what = "The list of models on Hugging Face"
    hub.require_online(what)
    search_one = partial(_search, hub, words, min(limit, MAX_HITS))
    with as_model_errors(what, "", hub.address), ThreadPoolExecutor(len(FORMATS)) as pool:
        found = {hit.repo: hit for hits in pool.map(search_one, FORMATS) for hit in hits}
    return sorted(found.values(), key=lambda hit: hit.downloads, reverse=True)[:limit]


def _search(hub: Hub, words: str, limit: int, tag: str) -> list[SearchHit]:
    query = {"search": words, "sort": "downloads", "direction": -1, "limit": limit}
    query |= {"pipeline_tag": "text-generation", "filter": tag}
    # The client's own search tries six times before it says that there is no network.
    answer = read_bytes(
        f"{hub.address}/api/models?{urlencode(query)}", 0, MAX_LIST_BYTES, SECONDS_TO_ANSWER, is_part=False
    )
    return _hits(json.loads(answer))


def inspect_model(hub: Hub, wanted: HubId, memory: Memory, precision: Precision, context: int) -> RemoteModel:
    """A model on the hub with its files and whether it fits. Why it cannot be used is among its `problems`.

    Raises ModelError when it does not exist, or the hub cannot be reached."""
    info = hub.look_up(wanted)
    known = RemoteModel(
        repo=str(wanted) if wanted.file else wanted.repo,
        commit=str(info.sha or "")[:40],
        size=0,
        files=(),
        is_gated=bool(info.gated),
        licence=_licence(info.tags or []),
        downloads=info.downloads or 0,
    )
    ggufs = () if wanted.file else gguf_files_of(info)
    try:
        if ggufs:
            known = replace(known, ggufs=ggufs)
            one = replace(wanted, file=ggufs[0].name)
            config, weights = remote_gguf(hub, one, make_plan(info, one).commit)
        else:
            plan = make_plan(info, wanted)
            files = tuple(FileProgress(file.name, file.size) for file in plan.files)
            known = replace(known, size=plan.size, files=files)
            config, weights = _config_and_weights(hub, wanted, plan)
    except ModelError as error:
        return replace(known, problems=(str(error),))
    return replace(
        known,
        architecture=config.architecture,
        parameters=weights.numbers,
        context=config.context,
        fit=judge(Estimator(config, weights, memory.device), memory, precision, context),
    )


def _config_and_weights(hub: Hub, wanted: HubId, plan: DownloadPlan) -> tuple[ModelConfig, Weights]:
    if wanted.file:
        return remote_gguf(hub, wanted, plan.commit)
    return remote_config(hub, plan), remote_weights(hub, plan)


def _licence(tags: Iterable[str]) -> str:
    return next(
        (tag.removeprefix("license:")[:MAX_LICENCE] for tag in tags if tag.startswith("license:")), ""
    )


def _hits(listed: Any) -> list[SearchHit]:
    """The valid entries of the hub's list."""
    models = [model for model in listed if isinstance(model, dict)] if isinstance(listed, list) else []
    return [_hit(model) for model in models if HUB_ID.fullmatch(str(model.get("id")))]


def _hit(model: dict[str, Any]) -> SearchHit:
    return SearchHit(
        model["id"], _count(model.get("downloads")), _count(model.get("likes")), bool(model.get("gated"))
    )


def _count(value: object) -> int:
    return value if isinstance(value, int) and value >= 0 else 0


def remote_config(hub: Hub, plan: DownloadPlan) -> ModelConfig:
    """The config.json of a model on the hub. Raises ModelError."""
    with as_model_errors(plan.repo, plan.revision, hub.page(plan.repo)):
        return parse_config(_reader(hub, plan, CONFIG)(0, LONGEST_CONFIG), plan.repo)


def remote_weights(hub: Hub, plan: DownloadPlan) -> Weights:
    """The tensors of a model on the hub. Raises ModelError."""
    names = [file.name for file in plan.files if file.name.endswith(".safetensors")][:MAX_FILES]
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
    if not 0 < size <= MAX_HEADER_BYTES:
        raise ModelBroken(f"A weight file of {repo} is no safetensors file: choose another model.")
    if len(begin) < 8 + size:
        begin += read(len(begin), 8 + size - len(begin))
    try:
        return list(tensors(json.loads(begin[8 : 8 + size]), repo))
    except (ValueError, RecursionError) as error:
        raise ModelBroken(f"A weight file of {repo} has a damaged header: choose another model.") from error
