"""Searches the hub, and inspects a model before it is downloaded: its config and the headers of its weights."""

import fnmatch
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlencode

from huggingface_hub import hf_hub_url

from app.errors import ModelBroken, ModelError, ModelGated
from app.models_registry.files.config import ModelConfig, parse_config, read_config
from app.models_registry.files.fit_estimate import Estimator, judge
from app.models_registry.files.gguf_checks import check_kind
from app.models_registry.files.model_files import MAX_HEADER, has_weights
from app.models_registry.files.recognition import SAFETENSORS, refuse_embedder
from app.models_registry.files.weights import Tensor, Weights, read_weights, tensors
from app.models_registry.hub.download_plan import DownloadPlan, Repository, count_of, gguf_names, part_names
from app.models_registry.hub.errors import as_model_errors
from app.models_registry.hub.http import read_json, read_part
from app.models_registry.hub.hub import Hub
from app.models_registry.hub.hub_id import HUB_ID, HubId
from app.values.dataclass_json import parse_json
from app.values.gguf_header import read_gguf_header, read_gguf_part
from app.values.model import FileProgress, Memory, Precision, RemoteModel, SearchHit, best_gguf

FIRST_BYTES = 100_000
"""Bytes of the first request for a safetensors header. Most headers are shorter."""
MAX_HEADERS = 100_000_000
"""Maximum bytes of all headers of a model. The largest known models have a tenth of this."""
FIRST_GGUF_BYTES, MAX_GGUF_BYTES = 4_000_000, 64_000_000
"""Bytes of a GGUF file that are read at first, and at most. A vocabulary alone has millions of bytes."""
AT_ONCE = 8
MAX_HITS = 50
LONGEST_ID = 200
FORMATS = ("safetensors", "gguf")
"""The tags of repositories with weights in a format that can be loaded."""


def search(hub: Hub, words: str, limit: int = 20) -> list[SearchHit]:
    """Find at most `limit` text models by words in their names, most downloaded first. Raises ModelError."""
    what = "The list of models on Hugging Face"
    hub.require_online(what)
    query = {"search": words, "sort": "downloads", "direction": -1, "limit": min(limit, MAX_HITS)}
    query |= {"pipeline_tag": "text-generation"}
    # The client's own search is not used, because without a network it tries six times before it fails.
    urls = [f"{hub.address}/api/models?{urlencode(query | {'filter': tag})}" for tag in FORMATS]
    with as_model_errors(what, "", hub.address), ThreadPoolExecutor(len(FORMATS)) as pool:
        answers = [answer for answer in pool.map(read_json, urls) if isinstance(answer, list)]
    found = {one["id"]: _hit(one) for answer in answers for one in answer if _is_model(one)}
    return sorted(found.values(), key=lambda hit: hit.downloads, reverse=True)[:limit]


def _is_model(listed: Any) -> bool:
    name = listed.get("id") if isinstance(listed, dict) else None
    return isinstance(name, str) and len(name) <= LONGEST_ID and bool(HUB_ID.fullmatch(name))


def _hit(model: dict[str, Any]) -> SearchHit:
    return SearchHit(
        model["id"], count_of(model.get("downloads")), count_of(model.get("likes")), bool(model.get("gated"))
    )


def inspect_model(
    hub: Hub, wanted: HubId, memory: Memory, precision: Precision, context: int, is_automatic: bool = False
) -> RemoteModel:
    """Return a model on the hub with its files and its fit; `problems` are reasons why it cannot be used.

    Raises ModelError if the model does not exist, or the hub cannot be reached."""
    found = hub.look_up(wanted)
    known = RemoteModel(
        repo=str(wanted) if wanted.file else wanted.repo,
        commit=found.commit[:40],
        size=0,
        files=(),
        is_gated=found.is_gated,
        licence=found.licence,
        downloads=found.downloads,
        ggufs=() if wanted.file else gguf_files_of(found),
    )
    try:
        if known.ggufs:
            # The page recommends this file if the disk has room for it.
            best = best_gguf(known.ggufs, sys.maxsize, memory.free)
            one = replace(wanted, file=best)
            config, weights = remote_gguf(hub, one, hub.plan_of(found, one).commit)
        else:
            plan = hub.plan_of(found, wanted)
            files = tuple(FileProgress(file.name, file.size) for file in plan.files)
            known = replace(known, size=plan.size, files=files)
            if wanted.file:
                config, weights = remote_gguf(hub, wanted, plan.commit)
            else:
                config = parse_config(hub.read_config(plan), plan.repo)
                refuse_embedder(found.files, plan.repo)
                weights = remote_weights(hub, plan).of_text(config)
    except ModelGated as error:  # the index may be gated, too, so weights with the usual names are counted
        usual = fnmatch.filter(found.files, "*-of-*.safetensors")
        size = known.size or sum(count_of(found.files[name].size) for name in usual)
        return replace(known, size=size, problems=(str(error),))
    except ModelError as error:
        return replace(known, problems=(str(error),))
    return replace(
        known,
        architecture=config.architecture,
        parameters=weights.numbers,
        context=config.context,
        fit=judge(Estimator(config, weights, memory.device), memory, precision, context, is_automatic),
    )


def gguf_files_of(repository: Repository) -> tuple[FileProgress, ...]:
    """Return each GGUF model of a repository, smallest first: the name of its first part and the size of all parts.

    Returns () if the repository has other weights."""
    sizes = {name: count_of(file.size) for name, file in repository.files.items()}
    names = [] if has_weights(sizes) else gguf_names(sizes)
    files = (FileProgress(name, sum(sizes[part] for part in part_names(name))) for name in names)
    return tuple(sorted(files, key=lambda file: file.size))


def remote_gguf(hub: Hub, wanted: HubId, commit: str) -> tuple[ModelConfig, Weights]:
    """Read the config and the list of tensors of a GGUF model on the hub. Raises ModelError."""
    hub.require_online(wanted.repo)
    with (
        TemporaryDirectory(prefix="foresight-") as folder,
        as_model_errors(wanted.repo, wanted.revision, hub.page(wanted.repo)),
    ):
        files = [Path(folder) / Path(name).name for name in part_names(wanted.file)]
        for name, file in zip(part_names(wanted.file), files, strict=True):
            _read_beginning(hf_hub_url(wanted.repo, name, revision=commit, endpoint=hub.endpoint), file, name)
        check_kind(read_gguf_header(files[0]), wanted.file)
        return read_config(files[0], wanted.file), read_weights(files[0], wanted.file)


def _read_beginning(url: str, file: Path, name: str) -> None:
    """Fetch the beginning of a GGUF file, at least its header, into `file`. Raises ModelBroken if it is damaged."""
    content = b""
    while True:
        wanted = min(max(FIRST_GGUF_BYTES, 2 * len(content)), MAX_GGUF_BYTES)
        content += read_part(url, len(content), wanted - len(content))
        file.write_bytes(content)
        try:
            read_gguf_part(file)
            return
        except ValueError as error:
            if len(content) < wanted or len(content) >= MAX_GGUF_BYTES:  # no further bytes can be read
                raise ModelBroken(
                    f"{name} is damaged on Hugging Face: {error}. Choose another one."
                ) from error


def remote_weights(hub: Hub, plan: DownloadPlan) -> Weights:
    """Read the list of a model's tensors from the headers of its weight files on the hub. Raises ModelError."""
    names = [file.name for file in plan.files if file.name.endswith(SAFETENSORS)]
    found, size = list[Tensor](), 0
    with as_model_errors(plan.repo, plan.revision, hub.page(plan.repo)), ThreadPoolExecutor(AT_ONCE) as pool:
        for first in range(0, len(names), AT_ONCE):  # limits the headers that are in memory at a time
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
    """Fetch the header of a weight file from the hub. Raises ModelError."""
    hub.require_online(plan.repo)
    url = hf_hub_url(plan.repo, file, revision=plan.commit, endpoint=hub.endpoint)
    begin = read_part(url, 0, FIRST_BYTES)
    size = int.from_bytes(begin[:8], "little")
    if not 0 < size <= MAX_HEADER:
        raise ModelBroken(f"A weight file of {plan.repo} is not a safetensors file: choose another model.")
    if len(begin) < 8 + size:
        begin += read_part(url, len(begin), 8 + size - len(begin))
    return begin[8 : 8 + size]


def _tensors(header: bytes, repo: str) -> list[Tensor]:
    try:
        return list(tensors(parse_json(header), repo))
    except ValueError as error:
        raise ModelBroken(f"A weight file of {repo} has a damaged header: choose another model.") from error
