"""The messages of the ranks: fixed int64 tensors and, once for each model and reply, settings as JSON.

Rank 0 gives orders to each of the others and receives their answers; these do not talk among themselves. The
numbers come from the host and are wanted there, so sockets of this machine carry them, also between cards: no
kernel is launched, and a rank that waits for its next order keeps no card busy. gloo is not used, because its
receiver announces itself before anything is sent, and each message goes through two threads.

Rank 0 listens at 127.0.0.1, and a store of torch tells the others where. Any program of this machine could connect
there, so the others show a secret that the store holds.
"""

import json
import secrets
import socket
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from datetime import timedelta
from enum import IntEnum
from time import perf_counter
from typing import Any

import torch
from torch import Tensor

from app.engine.block.block import Block
from app.engine.machine.device_plan import TorchrunRank
from app.engine.parallel.rank import Share
from app.errors import ModelBroken

_ORDER = 1536
"""Numbers of an order: five counts, MOST_TEXT tokens, and four numbers for each row of the widest block."""
MOST_TEXT = 128
_JSON = 4096
MEETING = timedelta(seconds=60)
"""How long the ranks may take to find each other."""
FOR_TORCHRUN = timedelta(days=1)
"""How long the others wait for rank 0 under torchrun: it may download the model first."""
_HERE = "127.0.0.1"
_PLACE = "link"
"""The store's key for rank 0's port and the two numbers of the secret."""
_GREETING = 5.0
"""Seconds within which whoever connects must show the secret."""


class Op(IntEnum):
    """What an order asks for."""

    LOAD = 1  # a model, by JSON
    REPLY = 2  # settings of the replies from now on, by JSON
    PREFILL = 3  # a prompt, whose ids come next
    STEP = 4  # a share of a block, after new tokens of the text
    FOLLOW = 5  # new tokens of the text, fed at once
    FORGET = 6
    UNLOAD = 7
    PING = 8  # an answer as long as an order


class LinkBroken(Exception):
    """The process of this rank has ended."""

    def __init__(self, rank: int) -> None:
        super().__init__(f"rank {rank} does not answer")
        self.rank = rank


@dataclass(frozen=True, slots=True)
class Order:
    """An order; `text` are the tokens committed since the last one, `length` is that of what comes next.

    A share is sent without its places in the whole block, because only rank 0 needs them."""

    op: Op
    length: int = 0
    text: tuple[int, ...] = ()
    share: Share | None = None


class Link:
    """Carries tensors from this rank to others and back."""

    def __init__(self, peers: Mapping[int, socket.socket], rank: int, size: int) -> None:
        """`peers` are the ranks that this one talks with."""
        self._peers = peers
        self.rank, self.size = rank, size

    def send(self, to: int, tensor: Tensor) -> None:
        """Send a tensor. Raises LinkBroken."""
        try:
            self._peers[to].sendall(_bytes_of(tensor))
        except OSError as error:
            raise LinkBroken(to) from error

    def receive(self, source: int, tensor: Tensor) -> None:
        """Fill this tensor, whose size tells how much to receive. Raises LinkBroken."""
        left = _bytes_of(tensor)
        try:
            while left:
                if not (count := self._peers[source].recv_into(left)):
                    raise LinkBroken(source)
                left = left[count:]
        except OSError as error:
            raise LinkBroken(source) from error

    def send_order(self, to: int, order: Order) -> None:
        """Send an order as one tensor, of the same length for every order."""
        share, own = order.share, frozenset[int]()
        rows: list[Sequence[int]] = []
        if share:
            own = frozenset(share.own)
            wanted = [2 * row + (index in own) for index, row in enumerate(share.block.wanted)]
            rows = [share.block.tokens, share.block.positions, share.block.parents, wanted]
        counts = (order.op, order.length, len(order.text), *map(len, rows[2:]))
        numbers = [*counts, *(0,) * (5 - len(counts)), *order.text]
        for row in rows:
            numbers += row
        packed = torch.zeros(_ORDER, dtype=torch.int64)
        packed.numpy()[: len(numbers)] = numbers
        self.send(to, packed)

    def receive_order(self) -> Order:
        """Wait for rank 0's next order."""
        numbers = torch.empty(_ORDER, dtype=torch.int64)
        self.receive(0, numbers)
        op, length, text, rows, wanted = numbers[:5].tolist()
        rest = iter(numbers[5 : 5 + text + 3 * rows + wanted].tolist())

        def take(count: int) -> tuple[int, ...]:
            return tuple(next(rest) for _ in range(count))

        tokens = take(text)
        if not rows:
            return Order(Op(op), length, tokens)
        columns, asked = (take(rows), take(rows), take(rows)), take(wanted)
        block = Block(*columns, tuple(row // 2 for row in asked))
        own = tuple(index for index, row in enumerate(asked) if row % 2)
        return Order(Op(op), length, tokens, Share(block, own, ()))

    def send_json(self, to: int, value: object) -> None:
        """Send JSON as one tensor of fixed length."""
        text = json.dumps(value).encode()
        if len(text) > _JSON:
            raise ValueError(f"at most {_JSON} bytes of JSON go into a message, got {len(text)}")
        self.send(to, torch.tensor(list(text.ljust(_JSON)), dtype=torch.uint8))

    def receive_json(self, source: int) -> Any:
        """Receive what `send_json` sent."""
        text = torch.empty(_JSON, dtype=torch.uint8)
        self.receive(source, text)
        return json.loads(bytes(text.tolist()))

    def load(self, requests: Sequence[dict[str, object]]) -> None:
        """Have the other ranks load what they are told. Raises ModelBroken if one of them refuses, LinkBroken."""
        for rank, request in enumerate(requests, start=1):
            self.send_order(rank, Order(Op.LOAD))
            self.send_json(rank, request)
        refusals = [str(self.receive_json(rank)["refused"]) for rank in range(1, len(requests) + 1)]
        if refused := next(filter(None, refusals), ""):
            raise ModelBroken(refused)

    def ping(self) -> float:
        """Measure the seconds that an order and its answer take for all ranks together. Rank 0 calls this."""
        began, pong = perf_counter(), torch.empty(_ORDER, dtype=torch.int64)
        for rank in self._peers:
            self.send_order(rank, Order(Op.PING))
        for rank in self._peers:
            self.receive(rank, pong)
        return perf_counter() - began

    def pong(self) -> None:
        """Answer a ping."""
        self.send(0, torch.zeros(_ORDER, dtype=torch.int64))

    def close(self) -> None:
        """Hang up on all peers."""
        for peer in self._peers.values():
            peer.close()


def _bytes_of(tensor: Tensor) -> memoryview:
    """Its memory if it is contiguous, else that of a copy."""
    return tensor.flatten().view(torch.uint8).numpy().data


def connect(store: Any, rank: int, size: int, within: timedelta = MEETING) -> Link:
    """Meet the other ranks by a store of torch.

    Raises LinkBroken for a rank that does not come, RuntimeError if rank 0 does not."""
    store.set_timeout(within)
    if rank:
        port, *secret = json.loads(store.get(_PLACE))
        try:
            peer = socket.create_connection((_HERE, port), _GREETING)
        except OSError as error:
            raise LinkBroken(0) from error
        Link({0: peer}, rank, 2).send(0, torch.tensor([*secret, rank]))
        peers = {0: peer}
    else:
        peers = _others(store, size, within)
    for peer in peers.values():
        peer.settimeout(None)  # a person may take any time between two replies
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, True)
    return Link(peers, rank, size)


def meet_by_torchrun(torchrun: TorchrunRank) -> Link:
    """Meet the other processes of torchrun by its own store."""
    from torch.distributed import PrefixStore, TCPStore  # type: ignore[attr-defined]

    store = TCPStore(
        torchrun.address, torchrun.port, torchrun.size, torchrun.hosts_store, timeout=FOR_TORCHRUN
    )
    place = PrefixStore(f"foresight-{torchrun.attempt}", store)
    return connect(place, torchrun.rank, torchrun.size, FOR_TORCHRUN)


def _others(store: Any, size: int, within: timedelta) -> dict[int, socket.socket]:
    secret, peers = [secrets.randbits(62), secrets.randbits(62)], dict[int, socket.socket]()
    with ExitStack() as opened:
        server = opened.enter_context(socket.create_server((_HERE, 0)))
        server.settimeout(within.total_seconds())
        store.set(_PLACE, json.dumps([server.getsockname()[1], *secret]))
        while missing := set(range(1, size)) - peers.keys():
            try:
                peer = opened.enter_context(server.accept()[0])
            except TimeoutError as error:
                raise LinkBroken(min(missing)) from error
            *shown, rank = _greeting_of(peer)
            if shown == secret and rank in missing:
                peers[rank] = peer
            else:
                peer.close()
        opened.pop_all()
        server.close()
    return peers


def _greeting_of(peer: socket.socket) -> list[int]:
    greeting = torch.zeros(3, dtype=torch.int64)
    peer.settimeout(_GREETING)
    with suppress(LinkBroken):
        Link({1: peer}, 0, 2).receive(1, greeting)
    numbers: list[int] = greeting.tolist()
    return numbers
