"""Manages the other ranks from rank 0: starts them, lets them load the model, and restarts them.

With `--devices` the other ranks are child processes of the app. If a rank ends, the next reply ends the other
ranks, too, and loads the model again on the remaining devices. With torchrun the ranks are already running.
"""

import json
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import torch

from app.engine.loading.device_trial import device_fault
from app.engine.loading.loading import LoadedModel
from app.engine.machine.device_options import RankPlan
from app.engine.machine.hardware import choose_device
from app.engine.parallel.link import Link, LinkBroken, Op, Order, connect, meet_by_torchrun
from app.engine.parallel.parallel_runner import ParallelRunner, profile_together
from app.engine.parallel.rank_server import use_device
from app.engine.runner.runner import BlockRunner
from app.errors import BadOption, RankLost
from app.system.child_process import ChildProcess
from app.values.messages import ModelChoice, ModelFolder

STARTING = 120.0
"""The seconds that a process may take to import torch."""
_PINGS = 21


class Ranks:
    """Starts and ends the other ranks, if the plan has any."""

    def __init__(self, plan: RankPlan) -> None:
        self._plan = plan
        self._devices = plan.devices  # of the ranks that still run
        self._children: list[ChildProcess] = []
        self._link: Link | None = None
        self._shared: ParallelRunner | None = None
        self._gone = set[int]()  # ranks that have ended
        self._threads = torch.get_num_threads()  # all ranks together use this many

    @property
    def size(self) -> int:
        """The number of devices that share a step."""
        return max(len(self._devices), 1)

    @property
    def is_whole(self) -> bool:
        """Whether all started processes are running, and every exchange with the ranks has succeeded."""
        is_broken = self._shared is not None and self._shared.is_broken
        return not is_broken and all(child.is_running for child in self._children)

    def begin(self, choice: ModelChoice) -> ModelChoice:
        """Choose this rank's device and start the other processes, before this rank loads the model.

        Returns the choice with this device. Raises BadOption for a missing GPU, and RankLost if torchrun must be
        started again."""
        self._leave_out_ended_ranks()
        if self._plan.torchrun and not self._devices:  # if models run on GPUs, each rank gets a GPU
            is_gpu = choose_device(choice.device, fault_of=device_fault).device.type == "cuda"
            ranks = range(self._plan.torchrun.size)
            self._devices = tuple(f"cuda:{rank}" if is_gpu else "cpu" for rank in ranks)
        if not self._devices:
            return choice
        self._check_gpus()
        use_device(self._devices[0], self._threads // self.size or 1)
        if self.size > 1 and not self._plan.torchrun and not self._children:
            self._children = [ChildProcess("app.engine.parallel.rank_server") for _ in self._devices[1:]]
        return replace(choice, device="cpu" if self._devices[0] == "cpu" else "cuda")

    def join(
        self, loaded: LoadedModel, folder: ModelFolder, choice: ModelChoice, cache: Path | None
    ) -> LoadedModel:
        """Load the model on the other ranks; return a model that all ranks compute together. A model that cannot
        check draft trees stays on this device, with a note. Raises AppError if a rank fails."""
        if self.size == 1:
            return loaded
        if not isinstance(loaded.runner, BlockRunner):
            self._hang_up()
            note = f"{loaded.info.name} cannot check draft trees, so one device is used."
            return replace(loaded, info=loaded.info.with_note("device", note))
        request = {
            "path": str(folder.path.absolute()),
            "name": folder.name,
            "gguf": str(folder.gguf.absolute() if folder.gguf else ""),
            "cache": str(cache.absolute() if cache else ""),
            "choice": asdict(choice),
            "threads": self._threads // self.size or 1,
        }
        try:
            link = self._link = self._link or self._connect()
            link.load([{**request, "device": device} for device in self._devices[1:]])
            seconds = median(link.ping() for _ in range(_PINGS))
        except LinkBroken as broken:
            self._hang_up()
            raise self._lost(broken.rank) from broken
        except BaseException:
            self._hang_up()
            raise
        runner = self._shared = ParallelRunner(loaded.runner, link, self._lost)
        return replace(
            loaded,
            runner=runner,
            profile=profile_together(loaded.profile, self.size, seconds),
            info=replace(loaded.current_info, devices=self._devices),
        )

    def close(self) -> None:
        """End the started processes; the next load tries all devices again. Under torchrun the ranks only unload
        the model."""
        if not self._plan.torchrun:
            self._hang_up()
            self._devices = self._plan.devices
            self._gone.clear()
            return
        if not self.is_whole:
            self._gone.add(0)
        elif self._link:
            with suppress(LinkBroken):  # the next load reports it
                for rank in range(1, self.size):
                    self._link.send_order(rank, Order(Op.UNLOAD))
        self._shared = None

    def _check_gpus(self) -> None:
        """Raise BadOption for a GPU that does not exist."""
        if self._devices[0] == "cpu":
            return
        choose_device("cuda")  # raises the reason if no GPU can be used
        count = torch.cuda.device_count()
        for device in self._devices:
            if (number := int(device.removeprefix("cuda:"))) >= count:
                known = "the only GPU is 0" if count == 1 else f"the GPUs are 0 to {count - 1}"
                raise BadOption(f"There is no GPU {number} here: {known}.")

    def _connect(self) -> Link:
        if torchrun := self._plan.torchrun:
            return meet_by_torchrun(torchrun)
        from torch.distributed import FileStore  # type: ignore[attr-defined]  # imported only for several ranks

        with TemporaryDirectory(prefix="foresight-ranks-", ignore_cleanup_errors=True) as folder:
            store = str(Path(folder) / "store")
            for rank, child in enumerate(self._children, start=1):
                request = json.dumps({"store": store, "rank": rank, "size": self.size})
                if not child.ask(request.encode() + b"\n", STARTING):
                    raise self._lost(rank)
            link = connect(FileStore(store, self.size), 0, self.size)
            link.ping()  # the store is deleted next, and the answers show that the other ranks have read it
            return link

    def _lost(self, rank: int) -> RankLost:
        """Record that a rank has ended, so that the next load leaves it out; return the error to raise."""
        self._gone.add(rank)
        words = f"Rank {rank} ({self._devices[rank]}) ended: it was killed, crashed, or had no memory left."
        if self._plan.torchrun:
            return RankLost(f"{words} Start torchrun again.")
        left = " and ".join(device for rank, device in enumerate(self._devices) if rank not in self._gone)
        return RankLost(f"{words} Send the message again: Foresight continues with {left}.")

    def _leave_out_ended_ranks(self) -> None:
        is_whole = self.is_whole and not self._gone
        self._shared = None  # it refers to the old model
        if is_whole:
            return
        if self._plan.torchrun:
            self._gone.add(0)  # the ranks are out of step, whichever of them has ended
            raise RankLost("A rank has ended: start torchrun again.")
        self._gone |= {rank for rank, child in enumerate(self._children, start=1) if not child.is_running}
        self._devices = tuple(device for rank, device in enumerate(self._devices) if rank not in self._gone)
        self._gone.clear()
        self._hang_up()

    def _hang_up(self) -> None:
        if self._link and not self._plan.torchrun:
            self._link.close()
            self._link = None
        for child in self._children:
            child.close()
        self._children, self._shared = [], None
