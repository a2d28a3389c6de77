"""Reads from the command line's options which devices share each step. Importing this does not import torch."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from app.errors import BadOption
from app.values.messages import Device, ModelFolder
from app.values.model import Fit
from app.values.validation import require

_DEVICE = re.compile(r"cpu|cuda:[0-9]{1,3}")


@dataclass(frozen=True, slots=True)
class TorchrunRank:
    """One process of `torchrun --nproc-per-node N`: its number, and the address and port where the ranks meet.

    `attempt` counts torchrun's restarts. With `hosts_store` this process, not torchrun, opens torch's store."""

    rank: int
    size: int
    address: str
    port: int
    attempt: str = "0"
    hosts_store: bool = False


@dataclass(frozen=True, slots=True)
class RankPlan:
    """The devices of the ranks, such as "cpu" or "cuda:0"; () if the ModelChoice names the device.

    With `torchrun` the other ranks are already running; otherwise the app starts them."""

    devices: tuple[str, ...] = ()
    torchrun: TorchrunRank | None = None

    def __post_init__(self) -> None:
        for device in self.devices:
            require(bool(_DEVICE.fullmatch(device)), "a device must be cpu, or a GPU's number", device)
        gpus = [device for device in self.devices if device != "cpu"]
        twice = next((gpu for gpu in gpus if gpus.count(gpu) > 1), "")
        require(not twice, "a GPU can be named once only", twice)
        require(
            not gpus or len(gpus) == len(self.devices),
            "devices must be all GPUs or all cpu",
            ",".join(self.devices),
        )
        size = self.torchrun.size if self.torchrun else len(self.devices)
        require(
            len(self.devices) in (0, size),
            f"torchrun started {size} ranks, so name {size} devices",
            self.devices,
        )


ALONE = RankPlan()
"""The plan for one device, without other ranks."""


class Estimate(Protocol):
    """Estimates whether a model fits a device such as "cuda:0" together with its draft model."""

    def __call__(
        self, folder: ModelFolder, precision: str, device: str, context: int, draft: Path | None = None
    ) -> Fit | None:
        """Return the estimated fit; None if it cannot be estimated. `context` 0 lets the estimate choose one."""


def no_estimate(*_asked: Any, **_named: Any) -> Fit | None:
    """Return None, which means that the fit cannot be estimated."""
    return None


def read_devices(text: str) -> tuple[str, ...]:
    """Read the names of devices: "0,1" -> ("cuda:0", "cuda:1"), "cpu, cpu" -> ("cpu", "cpu")."""
    names = [name.strip().lower() for name in text.split(",")]
    return tuple(f"cuda:{int(name)}" if name.isascii() and name.isdigit() else name for name in names)


def torchrun_rank(environment: Mapping[str, str]) -> TorchrunRank | None:
    """Return this process's rank if torchrun started several processes, else None. Raises BadOption for several
    machines."""
    if "TORCHELASTIC_RUN_ID" not in environment or int(environment["WORLD_SIZE"]) == 1:
        return None
    if environment["LOCAL_WORLD_SIZE"] != environment["WORLD_SIZE"]:
        raise BadOption("All ranks must run on one machine: start torchrun with --nnodes 1.")
    rank, by_torchrun = int(environment["RANK"]), environment.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    return TorchrunRank(
        rank,
        int(environment["WORLD_SIZE"]),
        environment["MASTER_ADDR"],
        int(environment["MASTER_PORT"]),
        environment.get("TORCHELASTIC_RESTART_COUNT", "0"),
        hosts_store=rank == 0 and not by_torchrun,
    )


def plan_of(devices: str | None, device: Device, torchrun: TorchrunRank | None) -> RankPlan:
    """Make the plan of `--devices` or `--device`. Raises BadOption if both are given, ValueError for bad names."""
    if devices is not None and device != "auto":
        raise BadOption("Choose one of --device and --devices.")
    return RankPlan(() if devices is None else read_devices(devices), torchrun)
