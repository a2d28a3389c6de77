"""A rank above 0, which executes rank 0's orders until rank 0 closes the connection.

With `--devices` this module is started as a process; torchrun's processes call `serve_torchrun`.
"""

import json
from pathlib import Path
from typing import Any

import torch
import transformers

from app.engine.block.step_profile import Buckets
from app.engine.loading.loading import load
from app.engine.machine.device_options import TorchrunRank
from app.engine.machine.process_memory import release_memory
from app.engine.parallel.link import Link, LinkBroken, Op, Order, connect, meet_by_torchrun
from app.engine.parallel.step_shares import RankModel, answers_of
from app.engine.runner.runner import BlockRunner
from app.engine.sampling.sampling import Sampler
from app.errors import AppError, first_line
from app.system.child_process import Say, serve
from app.values.messages import ModelChoice, ModelFolder, Sampling


class RankServer:
    """Executes orders with this rank's model and answers them."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._loaded: RankModel | None = None
        self._sampler: Sampler | None = None  # None if rank 0 wants logits
        self._buckets: Buckets = ()  # row counts that steps are padded to

    def serve(self) -> None:
        """Execute orders until the connection to rank 0 is closed."""
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
                self._link.send_json(0, self._load(order.settings))
            case Op.UNLOAD:
                self._unload()
            case Op.REPLY:
                self._buckets = tuple(order.settings["buckets"])
                sampling = order.settings["sampling"]
                self._sampler = sampling and self._model.runner.sampler(Sampling(**sampling))
            case Op.PING:
                self._link.pong()
            case Op.PREFILL:
                for _ in self._model.prefill(order.text, self._buckets):
                    pass
            case Op.STEP:
                self._step(order)
            case Op.FOLLOW:
                self._model.extend(order.text)
                self._model.catch_up()
            case Op.FORGET:
                self._model.forget()

    def _load(self, wanted: Any) -> str:
        """Load a model; return "", or a sentence about why it cannot be loaded."""
        self._unload()
        use_device(wanted["device"], wanted["threads"])
        gguf, cache = (Path(wanted[name]) if wanted[name] else None for name in ("gguf", "cache"))
        folder = ModelFolder(Path(wanted["path"]), wanted["name"], gguf=gguf)
        try:
            choice = ModelChoice(**wanted["choice"])
            runner = load(folder, choice, cache=cache, reads_heads=False).runner  # only rank 0 drafts
        except AppError as error:
            return str(error)
        except Exception as error:  # untrusted files raise errors of any type
            return f"{folder.name} could not be loaded on {wanted['device']} ({first_line(error)})."
        if not isinstance(runner, BlockRunner):
            return f"{folder.name} cannot check draft trees on {wanted['device']}: leave that device out."
        self._loaded = RankModel(runner)
        return ""

    def _unload(self) -> None:
        self._loaded = self._sampler = None
        release_memory()

    def _step(self, order: Order) -> None:
        assert order.share is not None
        self._model.extend(order.text)
        block, own = order.share.block, list(order.share.own)
        logits = self._model.forward(block)
        if self._sampler is None:
            self._link.send(0, logits[own].cpu())
        else:
            self._link.send(0, torch.from_numpy(answers_of(self._sampler, logits, block)[own]))


def use_device(device: str, threads: int) -> None:
    """Set this thread's GPU, for a device such as "cuda:1"; for "cpu", set torch's number of threads."""
    if device == "cpu":
        torch.set_num_threads(threads)
    else:
        torch.cuda.set_device(torch.device(device))


def serve_torchrun(torchrun: TorchrunRank) -> None:
    """Serve as a rank above 0 that torchrun started, until rank 0 closes the connection."""
    transformers.logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    transformers.logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    RankServer(meet_by_torchrun(torchrun)).serve()


def _serve_app(request: bytes, say: Say) -> None:
    """Report to the app that torch is imported, then connect to rank 0 and serve."""
    from torch.distributed import FileStore  # type: ignore[attr-defined]

    wanted = json.loads(request)
    say(b"ready\n")
    rank, size = wanted["rank"], wanted["size"]
    RankServer(connect(FileStore(wanted["store"], size), rank, size)).serve()


if __name__ == "__main__":
    serve(_serve_app)
