"""The other ranks: they do what rank 0 orders, until it hangs up."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from app.engine.block.step_profile import Buckets
from app.engine.loading.head_loading import no_heads
from app.engine.loading.loading import load
from app.engine.loading.weights import load_weights
from app.engine.machine.memory import is_out_of_memory, release_memory
from app.engine.parallel.layer_group import card_by_number, join_layers, leave_layers
from app.engine.parallel.link import Link, LinkBroken, Op, Order
from app.engine.parallel.passes import Follower, unpacked
from app.engine.parallel.rank import RankModel, answers_of
from app.engine.parallel.tensor import share_among
from app.engine.runner.runner import BlockRunner
from app.engine.sampling.sampling import Sampler
from app.errors import AppError, first_line
from app.values.messages import ModelChoice, ModelFolder, Sampling

log = logging.getLogger(__name__)


class RankServer:
    """One rank's model, or its share of one, and how it answers."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._loaded: RankModel | None = None
        self._share: Follower | None = None
        self._dtype = torch.float32  # of the share
        self._problem = ""  # what went wrong in a pass of it
        self._sampler: Sampler | None = None  # None: rank 0 wants the logits
        self._buckets: Buckets = ()  # that steps are padded to for the same text

    def serve(self) -> None:
        """Returns when rank 0 has ended."""
        try:
            while True:
                self._obey(self._link.receive_order())
        except LinkBroken:
            return

    @property
    def _model(self) -> RankModel:
        assert self._loaded, "a model is loaded before it is used"
        return self._loaded

    def _obey(self, order: Order) -> None:
        match order.op:
            case Op.LOAD:
                self._link.send_json(0, {"refused": self._load(self._link.receive_json(0))})
            case Op.UNLOAD:
                self._unload()
            case Op.REPLY:
                self._prepare(self._link.receive_json(0))
            case Op.PING:
                self._link.pong()
            case Op.PROBLEM:
                self._link.send_json(0, {"problem": self._problem})
            case Op.PASS | Op.LAYER | Op.KEEP:
                self._follow(order)
            case _:
                self._go_on(order)

    def _go_on(self, order: Order) -> None:
        """With the text."""
        match order.op:
            case Op.PREFILL:
                self._prefill(order.length)
            case Op.STEP:
                self._step(order)
            case Op.FOLLOW:
                self._model.go_on(order.text)
                self._model.catch_up()
            case Op.FORGET:
                self._model.forget()

    def _load(self, wanted: Any) -> str:
        """Load a model; why it cannot be, as a sentence, or ""."""
        self._unload()
        use_device(wanted["device"], wanted["threads"])
        gguf, cache = (Path(wanted[name]) if wanted[name] else None for name in ("gguf", "cache"))
        folder = ModelFolder(Path(wanted["path"]), wanted["name"], gguf=gguf)
        try:
            choice = ModelChoice(**wanted["choice"])
            if wanted["split"]:
                self._share = self._load_share(folder, choice, wanted["split"], wanted["device"])
                return ""
            runner = load(folder, choice, cache=cache, find_heads=no_heads).runner  # rank 0 drafts
        except AppError as error:
            return str(error)
        except Exception as error:  # as anybody's file may raise
            return f"{folder.name} could not be loaded on {wanted['device']} ({first_line(error)[:200]})."
        if not isinstance(runner, BlockRunner):
            return f"{folder.name} takes no draft trees on {wanted['device']}: leave that device out."
        self._loaded = RankModel(runner)
        return ""

    def _load_share(self, folder: ModelFolder, choice: ModelChoice, place: str, device: str) -> Follower:
        join_layers(place, self._link.rank, self._link.size, device)
        with card_by_number(device):
            model = load_weights(folder, choice, share_among(self._link.size))
        self._dtype = model.dtype
        return Follower(model)

    def _unload(self) -> None:
        """The old model's memory is free before another one takes its own."""
        self._loaded = self._sampler = self._share = None
        self._problem = ""
        leave_layers()
        release_memory()

    def _follow(self, order: Order) -> None:
        """Compute what rank 0 computes. Where that fails the others hear of it by the end of the layers' group."""
        work = self._received(order)
        if self._share is None:  # an earlier pass failed
            return
        try:
            work(self._share)
        except Exception as error:  # torch's, a driver's: each has types of its own
            log.warning("a pass failed", exc_info=error)
            self._unload()
            self._problem = "had no memory left" if is_out_of_memory(error) else ""

    def _received(self, order: Order) -> Callable[[Follower], None]:
        """What is to be done, with what comes behind the order."""
        if order.op is Op.KEEP:
            return lambda share: share.keep(order.text)
        if order.op is Op.LAYER:
            states = torch.empty(order.text, dtype=self._dtype)
            self._link.receive(0, states)
            return lambda share: share.feed(order.length, states)
        numbers = torch.empty(order.length, dtype=torch.int64)
        self._link.receive(0, numbers)
        return lambda share: share.run(unpacked(numbers.tolist()))

    def _prepare(self, settings: Any) -> None:
        runner = self._model.runner
        self._buckets = tuple(settings["buckets"])
        wanted = settings["sampling"]
        self._sampler = wanted and runner.sampler(Sampling(**wanted))

    def _prefill(self, length: int) -> None:
        ids = torch.empty(length, dtype=torch.int64)
        self._link.receive(0, ids)
        for _ in self._model.prefill(ids.tolist(), self._buckets):
            pass

    def _step(self, order: Order) -> None:
        assert order.share is not None
        self._model.go_on(order.text)
        block, own = order.share.block, list(order.share.own)
        logits = self._model.forward(block)
        if self._sampler is None:
            self._link.send(0, logits[own].cpu())
        else:
            self._link.send(0, torch.from_numpy(answers_of(self._sampler, logits, block)[own]))


def use_device(device: str, threads: int) -> None:
    """Have this thread's models run there, "cpu" or "cuda:1", and products on so many threads."""
    if device == "cpu":
        torch.set_num_threads(threads)
    else:
        torch.cuda.set_device(torch.device(device))
