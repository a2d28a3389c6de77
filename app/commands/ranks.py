"""Which devices a command uses: one, those of `--devices`, or those of torchrun's processes."""

import os
import signal

import typer

from app.engine.machine.device_plan import RankPlan, TorchrunRank, plan_of, torchrun_rank
from app.engine.session.imports import quiet_imports
from app.errors import impossible_values
from app.values.messages import Device

SECONDS_TO_SAY = 2
"""Between torchrun's signal to end and the end of rank 0."""


def chosen_ranks(devices: str | None, device: Device) -> RankPlan:
    """The plan of this command. A process that torchrun started beside the first serves that one and exits here.

    Raises BadOption."""
    torchrun = torchrun_rank(os.environ)
    if torchrun and torchrun.rank:
        quiet_imports()
        from app.engine.parallel.rank_server import serve_torchrun  # with it comes torch

        serve_torchrun(torchrun)
        raise typer.Exit
    if torchrun and hasattr(signal, "alarm"):
        # torchrun terminates all ranks when one has ended: the reply's clients hear of it before that.
        signal.signal(signal.SIGTERM, lambda *_: signal.alarm(SECONDS_TO_SAY))
    return devices_plan(devices, device, torchrun)


def devices_plan(
    devices: str | None, device: Device = "auto", torchrun: TorchrunRank | None = None
) -> RankPlan:
    """The plan of `--devices`, `--device` and torchrun. Raises BadOption."""
    with impossible_values():
        return plan_of(devices, device, torchrun)
