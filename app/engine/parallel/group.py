"""The ranks of one engine, as rank 0 sees them: they are started, get the model, and are started anew.

By `--devices` the other ranks are child processes of the app, which end with it. Where one of them ends by itself,
all do, and the next reply loads the model again on the devices that are left. By torchrun they are there from the
beginning, and torchrun ends all where one of them ends.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import torch
import transformers

from app.engine.loading.loading import LoadedModel, load
from app.engine.machine.device_faults import is_no_verdict
from app.engine.machine.device_plan import Estimate, RankPlan, TorchrunRank, no_estimate
from app.engine.parallel.devices import check_cards, devices_by_torchrun
from app.engine.parallel.layer_group import Watch, join_layers, leave_layers
from app.engine.parallel.link import Link, LinkBroken, Loading, Op, Order
from app.engine.parallel.meeting import connect
from app.engine.parallel.passes import Announcer
from app.engine.parallel.runner import ParallelRunner, profile_together
from app.engine.parallel.serving import RankServer, use_device
from app.engine.parallel.tensor import does_split, load_split
from app.engine.runner.runner import BlockRunner
from app.engine.text.sandbox import Sandbox
from app.errors import AppError, RankLost, first_line
from app.system.child_process import ChildProcess
from app.values.messages import ModelChoice, ModelFolder

STARTING = 120.0
"""Seconds for a process to import torch."""
FOR_TORCHRUN = timedelta(days=1)
"""For rank 0 to come to the others: it may download the model first."""
_PINGS = 21


class Ranks:
    """Rank 0's view of the others. One device needs none of them, and nothing is started."""

    def __init__(self, plan: RankPlan, estimate: Estimate = no_estimate) -> None:
        """`estimate` decides whether a model is split, where the plan leaves that open."""
        self._plan = plan
        self._estimate = estimate
        self._devices = plan.devices  # that are left
        self._children: list[ChildProcess] = []
        self._link: Link | None = None
        self._shared: ParallelRunner | Announcer | None = None  # what goes on with all ranks
        self._watch: Watch | None = None
        self._is_split = False
        self._gone = set[int]()  # ranks that have ended
        self._threads = torch.get_num_threads()  # for all ranks together

    @property
    def size(self) -> int:
        """How many devices a step is split among."""
        return max(len(self._devices), 1)

    @property
    def is_whole(self) -> bool:
        """Whether every rank that has the model is still there, as far as is known."""
        is_broken = self._shared is not None and self._shared.is_broken
        return not is_broken and all(child.is_running for child in self._children)

    def begin(self, choice: ModelChoice) -> ModelChoice:
        """Before the model is loaded here: this rank's device, and the other processes on their way."""
        self._leave_out_the_gone()
        if self._plan.torchrun and not self._devices:
            self._devices = devices_by_torchrun(choice, self._plan.torchrun)
        if not self._devices:
            return choice
        check_cards(self._devices)
        use_device(self._devices[0], self._threads // self.size or 1)
        if self.size > 1 and not self._plan.torchrun and not self._children:
            self._children = [ChildProcess("app.engine.parallel.rank_main") for _ in self._devices[1:]]
        return replace(choice, device="cpu" if self._devices[0] == "cpu" else "cuda")

    def load(
        self, folder: ModelFolder, choice: ModelChoice, sandbox: Sandbox | None, cache: Path | None
    ) -> LoadedModel:
        """The model at this rank: a share of it where all ranks together hold one. Raises AppError."""
        self._is_split = does_split(self._plan.parallel, folder, choice, self._devices, self._estimate)
        if not self._is_split:
            return load(folder, choice, sandbox, cache)
        with self._hanging_up_on_error(), TemporaryDirectory(prefix="foresight-layers-") as meeting:
            link = self._link = self._link or self._connect()
            place = str(Path(meeting) / "store")
            wanted = [self._wanted(rank, folder, choice, cache, place) for rank in self._others]
            loading = Loading(link, wanted)
            with self._ending_together(loading), self.explaining_errors():
                announcer = self._shared = self._join_layers(link, place)
                wait = partial(self._wait, loading)
                return load_split(folder, choice, sandbox, self._devices, announcer, wait)

    def _join_layers(self, link: Link, place: str) -> Announcer:
        self._leave_layers()  # of an earlier model
        join_layers(place, 0, self.size, self._devices[0])
        watch = self._watch = Watch(lambda: not all(child.is_running for child in self._children))
        return Announcer(link, lambda: watch.has_cut)

    def _wait(self, loading: Loading) -> None:
        try:
            loading.wait()
        except LinkBroken as broken:  # which loading would take for a fault of the model's files
            raise self._lost(broken.rank) from broken

    def join(
        self, loaded: LoadedModel, folder: ModelFolder, choice: ModelChoice, cache: Path | None
    ) -> LoadedModel:
        """The model on all ranks. Raises AppError where one of them cannot have it."""
        if self.size == 1 or self._is_split:
            return loaded
        if not isinstance(loaded.runner, BlockRunner):
            self._hang_up()
            note = f"{loaded.info.name} takes no draft trees, so one device is used."
            return replace(loaded, info=loaded.info.with_note("device", note))
        with self._hanging_up_on_error():
            link = self._link = self._link or self._connect()
            Loading(link, [self._wanted(rank, folder, choice, cache) for rank in self._others]).wait()
            seconds = median(link.ping() for _ in range(_PINGS))
        runner = self._shared = ParallelRunner(loaded.runner, link, self._lost)
        return replace(
            loaded,
            runner=runner,
            profile=profile_together(loaded.profile, self.size, seconds),
            info=replace(loaded.current_info, devices=self._devices),
        )

    @contextmanager
    def explaining_errors(self) -> Iterator[None]:
        """Raise RankLost for an error that ended a pass of all ranks; others go through."""
        try:
            yield
        except Exception as error:
            meaning = self._explained(error)
            if meaning is error:
                raise
            raise meaning from error

    def _explained(self, error: Exception) -> Exception:
        if not isinstance(self._shared, Announcer) or not self._shared.is_broken or not self._link:
            return error
        self._leave_layers()  # whoever waits for this rank goes on
        try:
            problems = {rank: self._link.problem_of(rank) for rank in self._others}
        except LinkBroken as broken:
            return self._lost(broken.rank)
        rank = next((rank for rank, problem in problems.items() if problem), 0)
        if rank:
            return RankLost(f"Rank {rank} ({self._devices[rank]}) {problems[rank]}. {self._go_on()}")
        if isinstance(error, AppError) or is_no_verdict(error):
            return error
        return RankLost(f"A step failed on one of the devices ({first_line(error)[:200]}). {self._go_on()}")

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

    @property
    def _others(self) -> range:
        return range(1, self.size)

    def _wanted(
        self, rank: int, folder: ModelFolder, choice: ModelChoice, cache: Path | None, place: str = ""
    ) -> dict[str, object]:
        """What a rank is to load; of a model that is split its share, whose ranks meet at a place."""
        return {
            "path": str(folder.path.absolute()),
            "name": folder.name,
            "gguf": str(folder.gguf.absolute() if folder.gguf else ""),
            "cache": str(cache.absolute() if cache else ""),
            "choice": asdict(choice),
            "threads": self._threads // self.size or 1,
            "device": self._devices[rank],
            "split": place,
        }

    def _unload_others(self) -> None:
        """And this rank's model is held no more."""
        if not self.is_whole:
            self._gone.add(0)
        elif self._link:
            with suppress(LinkBroken):  # the next load tells
                for rank in self._others:
                    self._link.send_order(rank, Order(Op.UNLOAD))
        self._shared = None
        self._leave_layers()

    def _lost(self, rank: int) -> RankLost:
        """What is said where a rank has ended. It will be left out."""
        self._gone.add(rank)
        words = f"Rank {rank} ({self._devices[rank]}) ended: it was killed, crashed, or had no memory left."
        return RankLost(f"{words} {self._go_on()}")

    def _go_on(self) -> str:
        """What to do, and what happens then."""
        if self._plan.torchrun:
            return "Start torchrun again."
        left = " and ".join(device for rank, device in enumerate(self._devices) if rank not in self._gone)
        if self._is_split:
            return f"Ask again: the model is loaded anew on {left}, if it fits there."
        return f"Ask again: Foresight goes on with {left}."

    @contextmanager
    def _ending_together(self, loading: Loading) -> Iterator[None]:
        """Where the share fails to load here, the ranks that torchrun started get ready for the next model."""
        try:
            yield
        except BaseException:
            self._leave_layers()
            if self._plan.torchrun:
                with suppress(AppError, LinkBroken):
                    loading.wait()
            raise

    @contextmanager
    def _hanging_up_on_error(self) -> Iterator[None]:
        """Around what the other ranks do for a model that is being loaded."""
        try:
            yield
        except LinkBroken as broken:
            self._hang_up()
            raise self._lost(broken.rank) from broken
        except BaseException:
            self._hang_up()
            raise

    def _leave_out_the_gone(self) -> None:
        is_whole = self.is_whole and not self._gone
        self._shared = None  # it holds the old model
        if is_whole:
            return
        if self._plan.torchrun:
            self._gone.add(0)  # the ranks are out of step, whoever has ended
            raise RankLost("A rank has ended: start torchrun again.")
        self._gone |= {rank for rank, child in enumerate(self._children, start=1) if not child.is_running}
        self._devices = tuple(device for rank, device in enumerate(self._devices) if rank not in self._gone)
        self._gone.clear()
        self._hang_up()

    def _leave_layers(self) -> None:
        if self._watch:
            self._watch.close()
            self._watch = None
        leave_layers()

    def _hang_up(self) -> None:
        self._leave_layers()
        if self._link and not self._plan.torchrun:
            self._link.close()
            self._link = None
        for child in self._children:
            child.close()
        self._children, self._shared = [], None


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
