"""Searches the hub, and inspects a model before it is downloaded: its config and the headers of its weights."""

import fnmatch
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any
from urllib.parse import urlencode

from huggingface_hub import hf_hub_url

from app.errors import ModelBroken, ModelError, ModelGated
from app.models_registry.files.config import ModelConfig, parse_config
from app.models_registry.files.fit_estimate import Estimator, judge
from app.models_registry.files.model_files import MAX_HEADER, SAFETENSORS
from app.models_registry.files.weights import Tensor, Weights, tensors
from app.models_registry.hub.download_plan import DownloadPlan
from app.models_registry.hub.errors import as_model_errors
from app.models_registry.hub.gguf_repo import gguf_files_of, remote_gguf
from app.models_registry.hub.http import read_json, read_part
from app.models_registry.hub.hub import Hub
from app.models_registry.hub.hub_id import HUB_ID, HubId
from app.models_registry.hub.repository import Repository, count_of
from app.values.dataclass_json import parse_json
from app.values.model import FileProgress, Memory, Precision, RemoteModel, SearchHit

FIRST = 100_000
"""Bytes of the first request. Most headers are shorter."""
MAX_HEADERS = 50_000_000
"""Bytes of all headers of a model. The largest models take a fifth of it."""
AT_ONCE = 8
MAX_HITS = 50
LONGEST_ID = 200
FORMATS = ("safetensors", "gguf")
"""The tags of repositories that have weights which can be loaded."""


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
    return _hits(read_json(f"{hub.address}/api/models?{urlencode(query)}"))


def inspect_model(hub: Hub, wanted: HubId, memory: Memory, precision: Precision, context: int) -> RemoteModel:
    """A model on the hub with its files and whether it fits. Why it cannot be used is among its `problems`.

    Raises ModelError when it does not exist, or the hub cannot be reached."""
    found = hub.look_up(wanted)
    known = RemoteModel(
        repo=str(wanted) if wanted.file else wanted.repo,
        commit=found.commit[:40],
        size=0,
        files=(),
        is_gated=found.is_gated,
        licence=found.licence,
        downloads=found.downloads,
    )
    ggufs = () if wanted.file else gguf_files_of(found)
    try:
        if ggufs:
            known = replace(known, ggufs=ggufs)
            one = replace(wanted, file=ggufs[0].name)
            config, weights = remote_gguf(hub, one, hub.plan_of(found, one).commit)
        else:
            plan = hub.plan_of(found, wanted)
            files = tuple(FileProgress(file.name, file.size) for file in plan.files)
            known = replace(known, size=plan.size, files=files)
            config, weights = _config_and_weights(hub, wanted, plan)
    except ModelGated as error:  # perhaps its index is closed, too
        return replace(known, size=known.size or _usual_size(found), problems=(str(error),))
    except ModelError as error:
        return replace(known, problems=(str(error),))
    return replace(
        known,
        architecture=config.architecture,
        parameters=weights.numbers,
        context=config.context,
        fit=judge(Estimator(config, weights, memory.device), memory, precision, context),
    )


def _usual_size(found: Repository) -> int:
    """Bytes of the weights of a model whose index may not be read, if they have the usual names."""
    return sum(count_of(found.files[name].size) for name in fnmatch.filter(found.files, "*-of-*.safetensors"))


def _config_and_weights(hub: Hub, wanted: HubId, plan: DownloadPlan) -> tuple[ModelConfig, Weights]:
    if wanted.file:
        return remote_gguf(hub, wanted, plan.commit)
    config = hub.read_config(plan)
    hub.check_loadable(plan, config)
    return parse_config(config, plan.repo), remote_weights(hub, plan)


def _hits(listed: Any) -> list[SearchHit]:
    """The valid entries of the hub's list."""
    models = [model for model in listed if isinstance(model, dict)] if isinstance(listed, list) else []
    return [_hit(model) for model in models if _is_id(model.get("id"))]


def _is_id(value: object) -> bool:
    return isinstance(value, str) and len(value) <= LONGEST_ID and bool(HUB_ID.fullmatch(value))


def _hit(model: dict[str, Any]) -> SearchHit:
    return SearchHit(
        model["id"], count_of(model.get("downloads")), count_of(model.get("likes")), bool(model.get("gated"))
    )


def remote_weights(hub: Hub, plan: DownloadPlan) -> Weights:
    """The tensors of a model on the hub. Raises ModelError."""
    names = [file.name for file in plan.files if file.name.endswith(SAFETENSORS)]
    found, size = list[Tensor](), 0
    with as_model_errors(plan.repo, plan.revision, hub.page(plan.repo)), ThreadPoolExecutor(AT_ONCE) as pool:
        for first in range(0, len(names), AT_ONCE):  # no more of them are in memory at a time
            headers = list(pool.map(partial(_header, hub, plan), names[first : first + AT_ONCE]))
            size += sum(map(len, headers))
            if size > MAX_HEADERS:
                raise ModelBroken(
                    f"The weight files of {plan.repo} list too many tensors: choose another model."
                )
            for header in headers:
                found += _tensors(header, plan.repo)
    return Weights(tuple(found))


def _header(hub: Hub, plan: DownloadPlan, file: str) -> bytes:
    """The header of a weight file."""
    hub.require_online(plan.repo)
    url = hf_hub_url(plan.repo, file, revision=plan.commit, endpoint=hub.endpoint)
    begin = read_part(url, 0, FIRST)
    size = int.from_bytes(begin[:8], "little")
    if not 0 < size <= MAX_HEADER:
        raise ModelBroken(f"A weight file of {plan.repo} is no safetensors file: choose another model.")
    if len(begin) < 8 + size:
        begin += read_part(url, len(begin), 8 + size - len(begin))
    return begin[8 : 8 + size]


def _tensors(header: bytes, repo: str) -> list[Tensor]:
    try:
        return list(tensors(parse_json(header), repo))
    except ValueError as error:
        raise ModelBroken(f"A weight file of {repo} has a damaged header: choose another model.") from error
