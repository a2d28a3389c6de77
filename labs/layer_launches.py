"""Counts the kernels that a decoder layer launches in a step of one row, as transformers runs it and fused.

    python -m labs.layer_launches

Needs no GPU: tiny models in bfloat16 run a step on the CPU. An operation of torch counts unless it is a view or an
allocation, because all other operations are kernels on a GPU. A layer's kernels are those of a model with
three layers minus those of a model with two. A call of `WrittenOut`, with which fused layers run here, counts as
one kernel. Attention also counts as one kernel; our own has two on a GPU.
"""

from typing import Annotated, Any

import torch
import typer
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

from app.engine import attention
from app.engine.attention import register
from app.engine.attention.sdpa import attend
from app.engine.block.block import chain_block
from app.engine.layers.fusion_choice import fuse_by
from app.engine.runner.kv_cache import BlockCache
from app.engine.runner.runner import run_block
from tests.support.written_out import WrittenOut

FAMILIES = ("llama", "qwen3", "gemma3_text", "phi3")

_SHAPE: dict[str, Any] = {
    "vocab_size": 64, "hidden_size": 32, "intermediate_size": 48, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 8, "bos_token_id": None, "eos_token_id": None, "pad_token_id": 0,
}  # fmt: skip


class Counting(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the operations that would be kernels on a GPU."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        del types
        results = func(*args, **(kwargs or {}))
        is_view = bool(_storages(results) & _storages((args, kwargs))) and not func._schema.is_mutable
        self.count += not is_view and "empty" not in str(func)
        return results


def _storages(values: Any) -> set[int]:
    tensors = [value for value in tree_leaves(values) if isinstance(value, Tensor)]
    return {tensor.untyped_storage().data_ptr() for tensor in tensors if tensor.numel()}


def step_launches(model: PreTrainedModel, kernels: WrittenOut) -> int:
    """Return the number of kernels of a step of one row after a short prefix."""
    cache = BlockCache()
    run_block(model, cache, chain_block((3, 1, 4, 1), 0, wanted=()), attend)
    cache.commit(range(4))
    cache.reserve(8)
    kernels.calls.clear()
    with Counting() as counting:
        run_block(model, cache, chain_block((5,), 4, wanted=(0,)), attend)
    return int(counting.count) + len(kernels.calls)


def layer_launches(family: str) -> tuple[int, int]:
    """Return the number of kernels of one layer, before and after fusing."""
    before, after = zip(*(_both(family, layers) for layers in (2, 3)), strict=True)
    return before[1] - before[0], after[1] - after[0]


def _both(family: str, layers: int) -> tuple[int, int]:
    register()
    config = AutoConfig.for_model(family, **_SHAPE, num_hidden_layers=layers)
    torch.manual_seed(0)
    model: PreTrainedModel = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)  # type: ignore[no-untyped-call]
    model.requires_grad_(False).train(False).set_attn_implementation(attention.NAME)
    kernels = WrittenOut()
    fused = fuse_by(kernels, model, attend).model
    return step_launches(model, kernels), step_launches(fused, kernels)


def main(
    families: Annotated[
        list[str] | None, typer.Argument(help="Kinds of models, as configs name them.")
    ] = None,
) -> None:
    """Print the kernels of one layer in a step of one row, before and after fusing."""
    for family in families or FAMILIES:
        before, after = layer_launches(family)
        typer.echo(f"{family}: {before} kernels in transformers' layer, {after} in the fused layer")


if __name__ == "__main__":
    typer.run(main)
