"""Connects ranks: rank 0 sends orders, as JSON, to the other ranks, which answer with tensors or JSON.

Ranks on GPUs use local sockets, too, because waiting for an order then keeps no GPU busy. gloo is not used,
because its receiver sends a message before it gets anything, and each message passes through two threads. Any
program on this machine could connect to rank 0's port, so the other ranks first send a secret. They read it from a
store of torch.
"""

import json
import secrets
import socket
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from enum import IntEnum
from time import perf_counter
from typing import Any

import torch
from torch import Tensor

from app.engine.block.block import Block
from app.engine.machine.device_options import TorchrunRank
from app.engine.parallel.step_shares import Share
from app.errors import ModelBroken

_TYPICAL = 512
"""About how many integers a step's order has; the answer has about as many."""
MEETING = timedelta(seconds=60)
"""How long the ranks may take to connect."""
FOR_TORCHRUN = timedelta(days=1)
"""How long ranks under torchrun may take to connect. Before that, rank 0 may have to download the model."""
_HERE = "127.0.0.1"
_KEY = "link"
"""The key in the store for rank 0's port and the two integers of the secret."""
_GREETING = 5.0
"""The seconds within which a program that connects must send the secret."""


class Op(IntEnum):
    """The kinds of rank 0's orders."""

    LOAD = 1  # load the model that the settings describe
    REPLY = 2  # use the settings for all further replies
    PREFILL = 3  # read the text as a prompt
    STEP = 4  # commit new tokens of the text, then compute a share of a block and answer
    FOLLOW = 5  # feed and commit new tokens of the text
    FORGET = 6
    UNLOAD = 7
    PING = 8  # answer at once, with as many numbers as in a step


class LinkBroken(Exception):
    """The rank with the number `rank` does not answer, usually because its process has ended."""

    def __init__(self, rank: int) -> None:
        super().__init__(f"rank {rank} does not answer")
        self.rank = rank


@dataclass(frozen=True, slots=True)
class Order:
    """An order of rank 0. `text` has the committed tokens that the rank does not know yet, or a prompt; `settings`
    are JSON. A share is sent without its indices in the whole block."""

    op: Op
    text: tuple[int, ...] = ()
    share: Share | None = None
    settings: dict[str, Any] = field(default_factory=dict)


class Link:
    """Exchanges messages with other ranks. Sending and receiving raise LinkBroken if the other rank has ended."""

    def __init__(self, peers: Mapping[int, socket.socket], rank: int, size: int) -> None:
        """Use the sockets in `peers`, each connected to the rank that is its key."""
        self._peers = peers
        self.rank, self.size = rank, size

    def send(self, to: int, tensor: Tensor) -> None:
        self._send(to, _bytes_of(tensor))

    def _send(self, to: int, content: bytes | memoryview) -> None:
        try:
            self._peers[to].sendall(content)
        except OSError as error:
            raise LinkBroken(to) from error

    def receive(self, source: int, tensor: Tensor) -> None:
        """Fill this tensor with values that another rank sends."""
        left = _bytes_of(tensor)
        try:
            while left:
                if not (count := self._peers[source].recv_into(left)):
                    raise LinkBroken(source)
                left = left[count:]
        except OSError as error:
            raise LinkBroken(source) from error

    def send_order(self, to: int, order: Order) -> None:
        rows: list[Sequence[int]] = []
        if order.share:
            block = order.share.block
            rows = [block.tokens, block.positions, block.parents, block.wanted, order.share.own]
        self.send_json(to, (order.op, order.text, rows, order.settings))

    def receive_order(self) -> Order:
        """Wait for rank 0's next order and return it."""
        op, text, rows, settings = self.receive_json(0)
        share = None
        if rows:
            *columns, own = map(tuple, rows)
            share = Share(Block(*columns), own, ())
        return Order(Op(op), tuple(text), share, settings)

    def send_json(self, to: int, value: object) -> None:
        """Send a JSON value, after its length in bytes."""
        text = json.dumps(value).encode()
        self._send(to, _bytes_of(torch.tensor([len(text)])).tobytes() + text)

    def receive_json(self, source: int) -> Any:
        """Receive a value that `send_json` sent."""
        length = torch.empty(1, dtype=torch.int64)
        self.receive(source, length)
        text = torch.empty(int(length), dtype=torch.uint8)
        self.receive(source, text)
        return json.loads(text.numpy().tobytes())

    def load(self, requests: Sequence[dict[str, Any]]) -> None:
        """Send each other rank its request to load a model, and wait for all answers. Raises ModelBroken if a rank
        refuses."""
        for rank, request in enumerate(requests, start=1):
            self.send_order(rank, Order(Op.LOAD, settings=request))
        refusals = [str(self.receive_json(rank)) for rank in range(1, len(requests) + 1)]
        if refused := next(filter(None, refusals), ""):
            raise ModelBroken(refused)

    def ping(self) -> float:
        """Measure, on rank 0, the seconds that an order to all other ranks and their answers take."""
        began, pong = perf_counter(), torch.empty(_TYPICAL, dtype=torch.int64)
        for rank in self._peers:
            self.send_order(rank, Order(Op.PING, text=tuple(range(_TYPICAL))))
        for rank in self._peers:
            self.receive(rank, pong)
        return perf_counter() - began

    def pong(self) -> None:
        self.send(0, torch.zeros(_TYPICAL, dtype=torch.int64))

    def close(self) -> None:
        for peer in self._peers.values():
            peer.close()


def _bytes_of(tensor: Tensor) -> memoryview:
    """Return the bytes of a tensor, without a copy if the tensor is contiguous."""
    return tensor.flatten().view(torch.uint8).numpy().data


def connect(store: Any, rank: int, size: int, within: timedelta = MEETING) -> Link:
    """Connect the ranks, which read rank 0's port from a torch store. Raises LinkBroken if they do not meet in
    time, and RuntimeError if the port is missing."""
    store.set_timeout(within)
    if rank:
        port, *secret = json.loads(store.get(_KEY))
        try:
            peer = socket.create_connection((_HERE, port), _GREETING)
        except OSError as error:
            raise LinkBroken(0) from error
        Link({0: peer}, rank, 2).send(0, torch.tensor([*secret, rank]))
        peers = {0: peer}
    else:
        peers = _others(store, size, within)
    for peer in peers.values():
        peer.settimeout(None)  # the next order may come at any time
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, True)
    return Link(peers, rank, size)


def meet_by_torchrun(torchrun: TorchrunRank) -> Link:
    """Connect to the other processes of torchrun, by torchrun's own store."""
    from torch.distributed import PrefixStore, TCPStore  # type: ignore[attr-defined]

    store = TCPStore(
        torchrun.address, torchrun.port, torchrun.size, torchrun.hosts_store, timeout=FOR_TORCHRUN
    )
    own = PrefixStore(f"foresight-{torchrun.attempt}", store)
    return connect(own, torchrun.rank, torchrun.size, FOR_TORCHRUN)


def _others(store: Any, size: int, within: timedelta) -> dict[int, socket.socket]:
    secret, peers = [secrets.randbits(62), secrets.randbits(62)], dict[int, socket.socket]()
    with ExitStack() as opened:
        server = opened.enter_context(socket.create_server((_HERE, 0)))
        server.settimeout(within.total_seconds())
        store.set(_KEY, json.dumps([server.getsockname()[1], *secret]))
        while missing := set(range(1, size)) - peers.keys():
            try:
                peer = opened.enter_context(server.accept()[0])
            except TimeoutError as error:
                raise LinkBroken(min(missing)) from error
            peer.settimeout(_GREETING)
            greeting = torch.zeros(3, dtype=torch.int64)
            with suppress(LinkBroken):
                Link({1: peer}, 0, 2).receive(1, greeting)
            *shown, rank = greeting.tolist()
            if shown == secret and rank in missing:
                peers[rank] = peer
            else:
                peer.close()
        opened.pop_all()
        server.close()
    return peers
