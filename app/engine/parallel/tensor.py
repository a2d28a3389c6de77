"""Tensor parallelism (Shoeybi et al. 2019): each rank holds a share of every layer, by transformers' plan for it.

rank 0   announces a pass   embed -- heads 0-3 --+-- half of the MLP --+-- ... logits --> decoder
rank 1   hears of it        embed -- heads 4-7 --+-- the other half ---+-- ... logits
                                                 +: the ranks add up what each has

Rank 0 alone tries, measures and decodes the model, as one that it has whole. Its kernels are torch's own.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from math import gcd

import torch
from torch import distributed
from transformers import AutoConfig, PreTrainedConfig, PreTrainedModel

from app.engine.attention.selector import SDPA, Attention
from app.engine.layers.compatibility import reason_against_trees
from app.engine.loading.execution import Execution, check_torchs_own, run_by_torch
from app.engine.loading.head_loading import no_heads
from app.engine.loading.loading import LoadedModel, load
from app.engine.loading.weights import HERE, Place, as_model_errors
from app.engine.machine.device_plan import Estimate, Parallelism
from app.engine.machine.hardware import choose_dtype, dtype_name
from app.engine.parallel.layer_group import card_by_number
from app.engine.parallel.passes import Announcer
from app.engine.runner.kv_cache import BlockCache
from app.engine.runner.model_config import heads_of
from app.engine.runner.runner import EagerSteps
from app.engine.text.sandbox import Sandbox
from app.errors import AppError, BadOption, ModelBroken
from app.values.messages import ModelChoice, ModelFolder

ROUNDING = (
    "Each device holds a share of every layer (tensor parallelism). The shares' sums round differently from one "
    "device's, so the text can differ from what one device writes."
)
_OWN = "the model is split among devices"
_OTHER = "use --parallel lookahead, or one device"


def reason_against_split(config: PreTrainedConfig, ranks: int) -> str:
    """Why a model's layers cannot be split among so many ranks, as a sentence; "" where they can."""
    if not getattr(config, "base_model_tp_plan", None):
        return f"transformers has no plan to split the layers of {config.model_type} among devices: {_OTHER}."
    heads = heads_of(config, torch.float32)
    most = gcd(heads.count, heads.shared)
    if most % ranks == 0:
        return ""
    possible = [str(number) for number in range(2, most + 1) if most % number == 0]
    others = f"{' or '.join(possible)} can, or " if possible else ""
    return (
        f"{ranks} devices cannot share the attention heads of this model ({heads.count}, and {heads.shared} for "
        f"keys and values): {others}{_OTHER}."
    )


def check_can_split(folder: ModelFolder, choice: ModelChoice, ranks: int) -> None:
    """Raises BadOption for a model that cannot be split in so many shares, before any rank reads it."""
    check_torchs_own(folder, choice, "split among devices", _OWN, _OTHER)
    with as_model_errors(folder):
        config = AutoConfig.from_pretrained(folder.path, **HERE).get_text_config(decoder=True)
    if reason := reason_against_split(config, ranks):
        raise BadOption(reason)
    if reason := _reason_against_device(choice):
        raise BadOption(reason)


def _reason_against_device(choice: ModelChoice) -> str:
    """transformers takes what torch was built for, and adds up on cards by NCCL."""
    accelerator = torch.accelerator.current_accelerator()
    if choice.device == "cpu" and accelerator is not None:
        cards = "name them, such as --devices 0,1" if accelerator.type == "cuda" else _OTHER
        return f"With this torch transformers splits models among GPUs alone: {cards}."
    if choice.device == "cuda" and not distributed.is_nccl_available():
        return f"This torch has no NCCL, by which cards add up their shares: {_OTHER}."
    return ""


def does_split(
    parallel: Parallelism,
    folder: ModelFolder,
    choice: ModelChoice,
    devices: Sequence[str],
    estimate: Estimate,
) -> bool:
    """Whether these devices hold a share of the model each. Raises AppError where they should and cannot."""
    if len(devices) < 2 or parallel == "lookahead":
        return False
    try:
        check_can_split(folder, choice, len(devices))
    except AppError:
        if parallel == "tensor":
            raise
        return False
    precision = dtype_name(choose_dtype(choice.dtype, torch.device(devices[0])))
    fits = (estimate(folder, precision, one, choice.context, devices.count(one)) for one in set(devices))
    return parallel == "tensor" or not all(fit is None or fit.verdict == "fits" for fit in fits)


def load_split(
    folder: ModelFolder,
    choice: ModelChoice,
    sandbox: Sandbox | None,
    devices: Sequence[str],
    announcer: Announcer,
    wait_for_others: Callable[[], None],
) -> LoadedModel:
    """Rank 0's share, ready to decode once the others have theirs. Raises AppError."""

    def run(model: PreTrainedModel, _choice: ModelChoice, context: int) -> Execution:
        wait_for_others()
        announcer.announce_passes_of(model)
        return run_split(model, context, announcer)

    with card_by_number(devices[0]):
        loaded = load(folder, choice, sandbox, find_heads=no_heads, place=share_among(len(devices)), run=run)
    info = replace(loaded.info, devices=tuple(devices), device_note=ROUNDING)
    return replace(loaded, info=info)


def share_among(ranks: int) -> Place:
    """Have transformers read the share of this process, whose number torch's process group knows."""
    from transformers.distributed.configuration_utils import DistributedConfig  # for these models alone

    return lambda _config, _device: {"distributed_config": DistributedConfig(tp_size=ranks)}


def run_split(model: PreTrainedModel, context: int, announcer: Announcer) -> Execution:
    """Blocks by torch's attention in torch's own layers. Raises ModelBroken for a model that takes none."""
    if reason := reason_against_trees(model, SDPA.attend):
        raise ModelBroken(f"{reason}, and such models are not split among devices: {_OTHER}.")
    return run_by_torch(model, context, _OWN, partial(_SplitSteps, announcer))


class _SplitSteps(EagerSteps):
    """Steps whose commits the other ranks hear of."""

    def __init__(self, announcer: Announcer, model: PreTrainedModel, attention: Attention, note: str) -> None:
        super().__init__(model, attention, note)
        self._announcer = announcer

    def commit(self, cache: BlockCache, rows: Sequence[int]) -> None:
        """Move the rows layer by layer."""
        self._announcer.keep(rows)
        super().commit(cache, rows)
