"""The ranks of one engine, as rank 0 sees them: they are started, get the model, and are started anew.

By `--devices` the other ranks are child processes of the app, which end with it. Where one of them ends by itself,
all do, and the next reply loads the model again on the devices that are left. By torchrun they are there from the
beginning, and torchrun ends all where one of them ends.
"""

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from datetime import timedelta
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import torch
import transformers

from app.child_process import ChildProcess
from app.engine.device_trial import device_fault
from app.engine.hardware import choose_device
from app.engine.loading import LoadedModel
from app.engine.parallel.link import Link, LinkBroken, Op, Order, connect
from app.engine.parallel.plan import RankPlan, TorchrunRank
from app.engine.parallel.runner import ParallelRunner, rows_together
from app.engine.parallel.serving import RankServer, use_device
from app.engine.runner import BlockRunner
from app.engine.step_profile import Buckets, StepProfile, StepTimes
from app.errors import BadOption, ModelBroken, RankLost
from app.messages import ModelChoice, ModelFolder

STARTING = 120.0
"""Seconds for a process to import torch."""
FOR_TORCHRUN = timedelta(days=1)
"""For rank 0 to come to the others: it may download the model first."""
_PINGS = 21


class Ranks:
    """Rank 0's view of the others. One device needs none of them, and nothing is started."""

    def __init__(self, plan: RankPlan) -> None:
        self._plan = plan
        self._devices = plan.devices  # that are left
        self._children: list[ChildProcess] = []
        self._link: Link | None = None
        self._runner: ParallelRunner | None = None
        self._gone = set[int]()  # ranks that have ended
        self._threads = torch.get_num_threads()  # for all ranks together

    @property
    def size(self) -> int:
        """How many devices a step is split among."""
        return max(len(self._devices), 1)

    @property
    def is_whole(self) -> bool:
        """Whether every rank that has the model is still there, as far as is known."""
        is_broken = self._runner is not None and self._runner.is_broken
        return not is_broken and all(child.is_running for child in self._children)

    def begin(self, choice: ModelChoice) -> ModelChoice:
        """Before the model is loaded here: this rank's device, and the other processes on their way."""
        self._leave_out_the_gone()
        if self._plan.torchrun and not self._devices:
            self._devices = _devices_by_torchrun(choice, self._plan.torchrun)
        if not self._devices:
            return choice
        _check_cards(self._devices)
        use_device(self._devices[0], self._threads // self.size or 1)
        if self.size > 1 and not self._plan.torchrun and not self._children:
            self._children = [ChildProcess("app.engine.parallel.rank_main") for _ in self._devices[1:]]
        return replace(choice, device="cpu" if self._devices[0] == "cpu" else "cuda")

    def join(
        self, loaded: LoadedModel, folder: ModelFolder, choice: ModelChoice, cache: Path | None
    ) -> LoadedModel:
        """The model on all ranks. Raises AppError where one of them cannot have it."""
        if self.size == 1:
            return loaded
        if not isinstance(loaded.runner, BlockRunner):
            self._hang_up()
            note = f"{loaded.info.name} takes no draft trees, so one device is used."
            return replace(loaded, info=replace(loaded.info, device_note=note))
        try:
            link = self._link = self._link or self._connect()
            self._load_others(link, folder, choice, cache)
            seconds = median(link.ping() for _ in range(_PINGS))
        except LinkBroken as broken:
            self._hang_up()
            raise self._lost(broken.rank) from broken
        except BaseException:
            self._hang_up()
            raise
        self._runner = ParallelRunner(loaded.runner, link, self._lost)
        return replace(
            loaded,
            runner=self._runner,
            profile=profile_together(loaded.profile, self.size, seconds),
            info=replace(loaded.current_info, devices=self._devices),
        )

    def close(self) -> None:
        """The model was unloaded: the started processes end, and each device may be tried again."""
        if self._plan.torchrun:
            self._unload_others()
            return
        self._hang_up()
        self._devices = self._plan.devices
        self._gone.clear()

    def _connect(self) -> Link:
        from torch.distributed import FileStore  # type: ignore[attr-defined]

        if torchrun := self._plan.torchrun:
            return _meet_by_torchrun(torchrun)
        with TemporaryDirectory(prefix="foresight-ranks-", ignore_cleanup_errors=True) as folder:
            place = str(Path(folder) / "store")
            for rank, child in enumerate(self._children, start=1):
                wanted = json.dumps({"store": place, "rank": rank, "size": self.size})
                if not child.ask(wanted.encode() + b"\n", STARTING):
                    raise self._lost(rank)
            link = connect(FileStore(place, self.size), 0, self.size)
            link.ping()  # the others have read the store when they answer
            return link

    def _load_others(self, link: Link, folder: ModelFolder, choice: ModelChoice, cache: Path | None) -> None:
        wanted = {
            "path": str(folder.path),
            "name": folder.name,
            "gguf": str(folder.gguf or ""),
            "cache": str(cache or ""),
            "choice": asdict(choice),
            "threads": self._threads // self.size or 1,
        }
        for rank in range(1, self.size):
            link.send_order(rank, Order(Op.LOAD))
            link.send_json(rank, {**wanted, "device": self._devices[rank]})
        refusals = [link.receive_json(rank)["refused"] for rank in range(1, self.size)]
        if refused := next(filter(None, refusals), ""):
            raise ModelBroken(refused)

    def _unload_others(self) -> None:
        """And this rank's model is held no more."""
        if not self.is_whole:
            self._gone.add(0)
        elif self._link:
            with suppress(LinkBroken):  # the next load tells
                for rank in range(1, self.size):
                    self._link.send_order(rank, Order(Op.UNLOAD))
        self._runner = None

    def _lost(self, rank: int) -> RankLost:
        """What is said where a rank has ended. It will be left out."""
        self._gone.add(rank)
        words = f"Rank {rank} ({self._devices[rank]}) ended: it was killed, crashed, or had no memory left."
        if self._plan.torchrun:
            return RankLost(f"{words} Start torchrun again.")
        left = [device for other, device in enumerate(self._devices) if other not in self._gone]
        return RankLost(f"{words} Ask again: Foresight goes on with {' and '.join(left)}.")

    def _leave_out_the_gone(self) -> None:
        is_whole = self.is_whole and not self._gone
        self._runner = None  # it holds the old model
        if is_whole:
            return
        if self._plan.torchrun:
            self._gone.add(0)  # the ranks are out of step, whoever has ended
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
        self._children, self._runner = [], None


def serve_torchrun(torchrun: TorchrunRank) -> None:
    """The work of a rank above 0. Returns when rank 0 has ended."""
    transformers.logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    transformers.logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    RankServer(_meet_by_torchrun(torchrun)).serve()


def _meet_by_torchrun(torchrun: TorchrunRank) -> Link:
    from torch.distributed import PrefixStore, TCPStore  # type: ignore[attr-defined]

    store = TCPStore(
        torchrun.address, torchrun.port, torchrun.size, torchrun.hosts_store, timeout=FOR_TORCHRUN
    )
    place = PrefixStore(f"foresight-{torchrun.attempt}", store)
    return connect(place, torchrun.rank, torchrun.size, FOR_TORCHRUN)


def _devices_by_torchrun(choice: ModelChoice, torchrun: TorchrunRank) -> tuple[str, ...]:
    """A card for each rank where models run on cards, else the CPU for all."""
    is_card = choose_device(choice.device, fault_of=device_fault).device.type == "cuda"
    return tuple(f"cuda:{rank}" if is_card else "cpu" for rank in range(torchrun.size))


def _check_cards(devices: Sequence[str]) -> None:
    """Raises BadOption for a card that is not there."""
    if devices[0] == "cpu":
        return
    choose_device("cuda")  # says why none can be used
    count = torch.cuda.device_count()
    for device in devices:
        if (number := int(device.removeprefix("cuda:"))) >= count:
            there = "the only one is 0" if count == 1 else f"they are 0 to {count - 1}"
            raise BadOption(f"There is no card {number} here: {there}.")


def profile_together(profile: StepProfile, ranks: int, exchange: float) -> StepProfile:
    """What the steps of all ranks together cost, by the rows that they have together."""

    def together(times: StepTimes) -> StepTimes:
        seconds = (
            each + exchange * (rows > 1) for rows, each in zip(times.buckets, times.seconds, strict=True)
        )
        return StepTimes(rows_of(times.buckets), tuple(seconds))

    def rows_of(buckets: Buckets) -> Buckets:
        return tuple(rows_together(rows, ranks) for rows in buckets)

    return replace(
        profile,
        free=together(profile.free),
        batch_invariant=together(profile.batch_invariant),
        bucket_sets=tuple(map(rows_of, profile.bucket_sets)),
    )
