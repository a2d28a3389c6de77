"""The ranks' devices: those that torchrun's processes get, and whether the named ones are there."""

from collections.abc import Sequence

import torch

from app.engine.loading.device_trial import device_fault
from app.engine.machine.device_plan import TorchrunRank
from app.engine.machine.hardware import choose_device
from app.errors import BadOption
from app.values.messages import ModelChoice


def devices_by_torchrun(choice: ModelChoice, torchrun: TorchrunRank) -> tuple[str, ...]:
    """A card for each rank where models run on cards, else the CPU for all."""
    is_card = choose_device(choice.device, fault_of=device_fault).device.type == "cuda"
    return tuple(f"cuda:{rank}" if is_card else "cpu" for rank in range(torchrun.size))


def check_cards(devices: Sequence[str]) -> None:
    """Raises BadOption for a card that is not there."""
    if devices[0] == "cpu":
        return
    choose_device("cuda")  # says why none can be used
    count = torch.cuda.device_count()
    for device in devices:
        if (number := int(device.removeprefix("cuda:"))) >= count:
            there = "the only one is 0" if count == 1 else f"they are 0 to {count - 1}"
            raise BadOption(f"There is no card {number} here: {there}.")
