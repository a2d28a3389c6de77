"""What can be known of a hub model before it is downloaded: its shape and its weights' headers, some kilobytes."""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from huggingface_hub import hf_hub_url

from app.errors import ModelBroken
from app.models_registry.files.checking import LONGEST_CONFIG
from app.models_registry.files.needed import CONFIG
from app.models_registry.files.shape import Shape, parse_shape
from app.models_registry.files.weights import Tensor, Weights, tensors
from app.models_registry.hub.asking import read_bytes
from app.models_registry.hub.errors import in_words
from app.models_registry.hub.hub import SECONDS_TO_ANSWER, Hub
from app.models_registry.hub.plan import Plan

FIRST = 100_000
"""Bytes that are asked for at once: most headers are shorter."""
LONGEST_HEADER = 25_000_000
MOST_FILES = 300
AT_ONCE = 8

Read = Callable[[int, int], bytes]
"""(start, count) -> these bytes of one file."""


def remote_shape(hub: Hub, plan: Plan) -> Shape:
    """The shape of a model on the hub. Raises ModelError."""
    with in_words(plan.repo, plan.revision, hub.page(plan.repo)):
        return parse_shape(_reader(hub, plan, CONFIG)(0, LONGEST_CONFIG), plan.repo)


def remote_weights(hub: Hub, plan: Plan) -> Weights:
    """The tensors of a model on the hub. Raises ModelError."""
    names = [file.name for file in plan.files if file.name.endswith(".safetensors")][:MOST_FILES]
    with in_words(plan.repo, plan.revision, hub.page(plan.repo)), ThreadPoolExecutor(AT_ONCE) as pool:
        found = pool.map(lambda name: _header(_reader(hub, plan, name), plan.repo), names)
        return Weights(tuple(tensor for part in found for tensor in part))


def _reader(hub: Hub, plan: Plan, file: str) -> Read:
    hub.require_online(plan.repo)
    url = hf_hub_url(plan.repo, file, revision=plan.commit, endpoint=hub.endpoint)
    return partial(read_bytes, url, silence=SECONDS_TO_ANSWER)


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
