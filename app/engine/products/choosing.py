"""Whether a model's steady passes can have our products on this machine, tried on each kind of its layers.

They are for half precision on a card. float32 needs none, a CPU has its packed weights, and triton's interpreter is
for tests. Whether they are worth it, `probing.py` measures: torch's own products may do.
"""

import logging

import torch
from torch import nn
from transformers import PreTrainedModel

from app.engine.attention.choosing import AMPERE, Machine
from app.engine.memory import is_out_of_memory
from app.engine.products.tiles import MOST_ROWS, Card
from app.engine.products.twin import num_linears, twin_of
from app.engine.same_bits import has_experts

log = logging.getLogger(__name__)

TOLERANCE = 0.02
"""How far a product may be from float32's, relative to the largest: half precision rounds to 0.004."""

LOOKED_AT = 256
"""Values of each row at either end that a trial looks at: a head's whole weight in float32 might not fit."""


def fixed_twin(model: PreTrainedModel, machine: Machine) -> PreTrainedModel | None:
    """The model with our products in the place of its Linears; None where they cannot be had."""
    if not can_have(model, machine):
        return None
    try:
        from app.engine.products.fixed import FixedLinear, on_device

        product = on_device(_card(machine), machine.device)
        twin = twin_of(model, lambda linear: FixedLinear(linear, product))
        kinds = {_kind(layer): layer for layer in twin.modules() if isinstance(layer, FixedLinear)}
        for layer in kinds.values():
            for rows in (3, MOST_ROWS):
                trial(layer, rows)
    except Exception as error:  # a compiler's, a driver's, a broken package's: each has types of its own
        if is_out_of_memory(error):
            raise
        log.info("steady passes keep torch's products, for ours failed their trial: %s", error)
        return None
    return twin


def can_have(model: PreTrainedModel, machine: Machine) -> bool:
    """Whether model and machine are of the kind that our products are for."""
    is_card = machine.device.type == "cuda" and machine.capability >= AMPERE and machine.has_triton
    # Among experts a row's products depend on its neighbours, whoever makes them.
    return is_card and model.dtype.itemsize == 2 and num_linears(model) > 0 and not has_experts(model)


def _card(machine: Machine) -> Card:
    count = torch.cuda.get_device_properties(machine.device).multi_processor_count
    return Card(machine.capability[0], count, machine.shared_memory)


def _kind(layer: nn.Module) -> tuple[object, ...]:
    """What the kernel is compiled for, and more."""
    return tuple(layer.get_parameter("weight").shape), getattr(layer, "bias", None) is None


@torch.inference_mode()
def trial(layer: nn.Module, count: int) -> None:
    """Have a Linear multiply so many rows; raises whatever goes wrong, ArithmeticError for wrong values."""
    weight, bias = layer.get_parameter("weight"), getattr(layer, "bias", None)
    rows = (
        torch.linspace(-1, 1, count * weight.shape[1], device=weight.device).view(count, -1).to(weight.dtype)
    )
    product = layer(rows).float()
    for some in (slice(LOOKED_AT), slice(-LOOKED_AT, None)):
        addend = None if bias is None else bias[some].float()
        expected = nn.functional.linear(rows.float(), weight[some].float(), addend)
        error = (product[:, some] - expected).abs().max()
        if not error <= TOLERANCE * expected.abs().max():
            raise ArithmeticError(f"wrong values of {tuple(weight.shape)} for {count} rows")
