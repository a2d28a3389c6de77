"""Finds which buckets give bitwise identical results: reads the same rows at every bucket and compares all values.

1. One layer of each kind and shape gets varied inputs of a real pass, in blocks of every bucket: some 100,000
   values a layer, because few values are rounded differently.

2. The whole model, with attention, reads the same text at every bucket, each time in two ways:

    chained    t0 t1 t2 t3 | t4 t5 t6 t7        every row is real and committed, and sees the rows before it
    drafted    t0 x  y  t1 | t2 x  y  t3        between the real rows are wrong guesses, which are not committed

Buckets whose readings and layers agree with each other form a set.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from app.engine.attention.backend_choice import Attention
from app.engine.attention.paths import NEWEST
from app.engine.block.block import Block, chain_block
from app.engine.block.step_profile import Buckets
from app.engine.layers.cpu_layers import NativeLayer
from app.engine.layers.int8_linear_cpu import NativeInt8Linear
from app.engine.layers.packed_layers import PackedExperts, PackedLinear, RowByRow
from app.engine.layers.quantised_layers import QuantisedEmbedding
from app.engine.runner.hidden_states import number_of_layers
from app.engine.runner.runner import BlockRunner

Bits = list[Tensor]
"""Tensors with one row for each token that was read; the number of tokens may differ from bucket to bucket."""

VALUES = 100_000
"""About how many values of each layer are compared, in at least ROWS[0] and at most ROWS[1] rows."""
ROWS = (8, 4096)
COMPARED = (1, 5, 16)
"""Sizes of the steps in which a mixture of experts reads a text."""
PASSES = 3
"""Maximum number of blocks in one reading of the text."""
STRIDE = 3
"""Every third row is real in the drafted reading. The stride is larger if the chain of real rows would otherwise be
deeper than any draft tree."""

MakeBlock = Callable[[Sequence[int], int], tuple[Block, tuple[int, ...]]]
"""(the rest of the text, its position) -> a block, and the indices of its rows that are tokens of the text."""


def agree(one: Bits, other: Bits) -> bool:
    """Return whether two readings are equal for the tokens that are in both."""
    lengths = [min(len(a), len(b)) for a, b in zip(one, other, strict=True)]
    return all(torch.equal(a[:n], b[:n]) for a, b, n in zip(one, other, lengths, strict=True))


def group_by_bits(buckets: Buckets, read: Callable[[int], Bits]) -> tuple[Buckets, ...]:
    """Read the buckets in this order, and group those with equal results. Buckets with the reading [] are left
    out."""
    bucket_sets: list[tuple[list[int], Bits]] = []
    for bucket in buckets:
        if not (bits := read(bucket)):
            continue
        for members, known in bucket_sets:
            if agree(known, bits):
                members.append(bucket)
                break
        else:
            bucket_sets.append(([bucket], bits))
    return tuple(sorted(tuple(sorted(members)) for members, _ in bucket_sets))


def takes_rows_one_by_one(model: PreTrainedModel, attention: Attention) -> bool:
    """Return whether attention and all products use our CPU kernels, which compute each row independently.

    Routers may use torch if they run row by row. Returns False, for example, for an int4 model, in whose
    layers torch multiplies."""
    ours = (NativeInt8Linear, PackedLinear, PackedExperts, QuantisedEmbedding, nn.Embedding)
    alone = {part for module in model.modules() if isinstance(module, RowByRow) for part in module.modules()}
    others = (each for each in model.modules() if not isinstance(each, ours) and each not in alone)
    # Layers with windows or sinks are not NativeLayers, because torch computes their attention.
    whole = sum(isinstance(each, NativeLayer) for each in model.modules())
    return (
        whole == number_of_layers(model) and attention.name == "native" and not any(map(_multiplies, others))
    )


def is_row_independent(runner: BlockRunner, text: Sequence[int], start: int) -> bool:
    """Return whether each row's results are bitwise identical in steps of all sizes.

    In a mixture of experts torch computes parts of a layer, so the text after `start` is read in steps of several
    sizes, and the results are compared."""
    if not takes_rows_one_by_one(runner.model, runner.attention):
        return False
    if not any(isinstance(each, PackedExperts) for each in runner.model.modules()):
        return True
    first, *others = (read_text(runner, text, start, bucket) for bucket in COMPARED)
    return bool(first) and all(other and agree(first, other) for other in others)


def _multiplies(module: nn.Module) -> bool:
    """Return whether the module has a matrix of its own, as a parameter or in a layout that a kernel reads."""
    tensors = (*module.parameters(recurse=False), *module.buffers(recurse=False))
    return hasattr(module, "out_features") or any(tensor.dim() > 1 for tensor in tensors)


def has_experts(model: PreTrainedModel) -> bool:
    """Return whether layers seem to group rows by expert, so that other rows change a row's result. Packed experts
    do not count, because they compute each row independently."""
    stacked = any(parameter.dim() > 2 for parameter in model.parameters())
    named = (module for name, module in model.named_modules() if name.rpartition(".")[2] == "experts")
    return stacked or not all(isinstance(module, PackedExperts) for module in named)


def read_text(runner: BlockRunner, text: Sequence[int], start: int, bucket: int) -> Bits:
    """Return logits, keys and values of the text after `start`, read in at most PASSES blocks of `bucket` rows;
    [] if the chained and the drafted reading differ."""
    chained = _read(runner, text, start, bucket, lambda line, position: _chained(line[:bucket], position))
    drafted = _read(runner, text, start, bucket, lambda line, position: _drafted(line, position, bucket))
    return chained if agree(chained, drafted) else []


def _read(runner: BlockRunner, text: Sequence[int], start: int, bucket: int, make: MakeBlock) -> Bits:
    runner.forget()
    for _ in runner.prefill(text[:start], (bucket,)):
        pass
    logits: list[Tensor] = []
    done = start
    while done < len(text) and len(logits) < PASSES:
        block, rows = make(text[done:], done)
        logits.append(runner.forward(block).clone())
        runner.commit(rows)
        done += len(rows)
    # [1, heads, L, size] -> [tokens, heads * size], copied, because the next reading overwrites the cache
    kept = [states[0, :, start:].transpose(0, 1).flatten(1).clone() for states in runner.cache.committed()]
    # One reading of each set is kept for comparison, on the host, because a GPU's memory may be full.
    return [each.cpu() for each in (torch.cat(logits), *kept)]


def _chained(line: Sequence[int], position: int) -> tuple[Block, tuple[int, ...]]:
    rows = tuple(range(len(line)))
    return chain_block(line, position, rows), rows


def _drafted(line: Sequence[int], position: int, bucket: int) -> tuple[Block, tuple[int, ...]]:
    """Make a block whose rows 0, 3, 6, ... (with a larger stride in large blocks) are the text. Each row
    between is a wrong guess after the nearest text row before it."""
    stride = max(STRIDE, -(-bucket // NEWEST))
    count = min(bucket, stride * len(line))
    real = tuple(range(0, count, stride))
    tokens = [line[row // stride] if row in real else line[0] for row in range(count)]
    positions = tuple(position + row // stride + (row not in real) for row in range(count))
    parents = (-1, *((row - 1) // stride * stride for row in range(1, count)))
    return Block(tuple(tokens), positions, parents, real), real


@torch.inference_mode()
def read_layers(layers: Sequence[tuple[nn.Module, Tensor]], bucket: int) -> Bits:
    """Return each layer's output for its rows [rows, size], fed in full blocks of `bucket` rows."""
    found = []
    for layer, rows in layers:
        # Blocks are [1, T, size], as in the model. All are full, because results may depend on the row count.
        enough = _repeated(rows, bucket)
        starts = range(0, len(enough) // bucket * bucket, bucket)
        found.append(torch.cat([layer(enough[None, start : start + bucket])[0] for start in starts]).cpu())
    return found


@torch.inference_mode()
def layers_with_rows(runner: BlockRunner, text: Sequence[int]) -> list[tuple[nn.Module, Tensor]]:
    """Run the model once; return one layer of each kind and shape, with varied rows [rows, size] of its inputs."""
    captured: dict[tuple[object, ...], tuple[nn.Module, Tensor]] = {}

    def capture(layer: nn.Module, inputs: tuple[object, ...], named: dict[str, object]) -> None:
        states = inputs[0] if len(inputs) == 1 and not named else None
        if isinstance(states, Tensor) and states.is_floating_point() and states.shape[:2] == (1, len(text)):
            outputs = getattr(layer, "out_features", 0)  # packed and quantised Linears have no `weight`
            shapes = (parameter.shape for parameter in layer.parameters(recurse=False))
            kind = (type(layer), states.shape[-1], outputs, *shapes)
            captured.setdefault(kind, (layer, states[0].clone()))

    inner = [layer for layer in runner.model.modules() if not any(True for _ in layer.children())]
    with ExitStack() as hooks:
        for layer in inner:
            hooks.enter_context(layer.register_forward_pre_hook(capture, with_kwargs=True))
        _read(runner, text, 0, len(text), _chained)
    return [(layer, _varied(rows, layer)) for layer, rows in captured.values()]


def _varied(states: Tensor, layer: nn.Module) -> Tensor:
    """Repeat these rows [T, .., size] until outputs have about VALUES values; multiply by random factors."""
    size = max(
        (parameter.shape[0] for parameter in layer.parameters(recurse=False)), default=states.shape[-1]
    )
    count = min(max(VALUES // size, ROWS[0]), ROWS[1])
    source = torch.Generator().manual_seed(0)
    factors = torch.rand((count, *states.shape[1:]), generator=source).add(0.5).to(states)
    return _repeated(states, count)[:count] * factors


def _repeated(rows: Tensor, count: int) -> Tensor:
    """Repeat these rows until there are at least `count`. A row may have several dimensions, such as heads."""
    return rows.repeat(-(-count // len(rows)), *(1 for _ in rows.shape[1:]))
