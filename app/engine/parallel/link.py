"""Messages between ranks: int64 tensors of fixed length and, once for each model and reply, settings as JSON.

Rank 0 sends orders to each of the other ranks and receives their answers; the others send nothing to each
other. The data comes from the host and is needed there, so it is sent by local sockets, also between
GPUs: no kernel is launched, and a rank that waits for its next order keeps no GPU busy. gloo is not used,
because its receiver announces itself before anything is sent, and each message passes through two threads.

Rank 0 listens on 127.0.0.1, and the other ranks read its port from a store of torch. Any program of this
machine could connect to the port, so the ranks send a secret from the store first.
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
"""The size of an order: five counts, MOST_TEXT tokens, and four integers for each row of the widest block."""
MOST_TEXT = 128
_JSON = 4096
MEETING = timedelta(seconds=60)
"""How long the ranks may take to connect."""
FOR_TORCHRUN = timedelta(days=1)
"""How long the other ranks wait for rank 0 under torchrun, which may download the model first."""
_HERE = "127.0.0.1"
_PLACE = "link"
"""The key in the store for rank 0's port and the two integers of the secret."""
_GREETING = 5.0
"""The seconds within which a program that connects must send the secret."""


class Op(IntEnum):
    """What rank 0 orders another rank to do."""

    LOAD = 1  # load the model described by JSON, which follows
    REPLY = 2  # use the settings in JSON, which follows, for all further replies
    PREFILL = 3  # read the prompt whose ids follow
    STEP = 4  # commit new tokens of the text, then compute a share of a block
    FOLLOW = 5  # commit new tokens of the text and feed them at once
    FORGET = 6
    UNLOAD = 7
    PING = 8  # answer with as many bytes as an order has


class LinkBroken(Exception):
    """A rank does not answer, because its process has ended; `rank` is its number."""

    def __init__(self, rank: int) -> None:
        super().__init__(f"rank {rank} does not answer")
        self.rank = rank


@dataclass(frozen=True, slots=True)
class Order:
    """An order; `text` are the tokens committed since the last order, `length` is the length of a prompt that
    follows.

    A share is sent without its indices in the whole block, because only rank 0 needs them."""

    op: Op
    length: int = 0
    text: tuple[int, ...] = ()
    share: Share | None = None


class Link:
    """Sends tensors from this rank to other ranks, and receives theirs."""

    def __init__(self, peers: Mapping[int, socket.socket], rank: int, size: int) -> None:
        """Use these sockets, which are connected to the other ranks in `peers`."""
        self._peers = peers
        self.rank, self.size = rank, size

    def send(self, to: int, tensor: Tensor) -> None:
        """Send a tensor to another rank. Raises LinkBroken."""
        try:
            self._peers[to].sendall(_bytes_of(tensor))
        except OSError as error:
            raise LinkBroken(to) from error

    def receive(self, source: int, tensor: Tensor) -> None:
        """Fill this tensor with bytes from another rank. Raises LinkBroken."""
        left = _bytes_of(tensor)
        try:
            while left:
                if not (count := self._peers[source].recv_into(left)):
                    raise LinkBroken(source)
                left = left[count:]
        except OSError as error:
            raise LinkBroken(source) from error

    def send_order(self, to: int, order: Order) -> None:
        """Send an order as one tensor of fixed length."""
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
        """Wait for rank 0's next order and return it."""
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
            raise ValueError(f"at most {_JSON} bytes of JSON go into a message, not {len(text)}")
        self.send(to, torch.tensor(list(text.ljust(_JSON)), dtype=torch.uint8))

    def receive_json(self, source: int) -> Any:
        """Receive a value that `send_json` sent."""
        text = torch.empty(_JSON, dtype=torch.uint8)
        self.receive(source, text)
        return json.loads(bytes(text.tolist()))

    def load(self, requests: Sequence[dict[str, object]]) -> None:
        """Send each other rank its request to load a model, and wait for all. Raises ModelBroken if a rank
        refuses."""
        for rank, request in enumerate(requests, start=1):
            self.send_order(rank, Order(Op.LOAD))
            self.send_json(rank, request)
        refusals = [str(self.receive_json(rank)["refused"]) for rank in range(1, len(requests) + 1)]
        if refused := next(filter(None, refusals), ""):
            raise ModelBroken(refused)

    def ping(self) -> float:
        """Measure, at rank 0, the seconds that an order and its answer take for all ranks together."""
        began, pong = perf_counter(), torch.empty(_ORDER, dtype=torch.int64)
        for rank in self._peers:
            self.send_order(rank, Order(Op.PING))
        for rank in self._peers:
            self.receive(rank, pong)
        return perf_counter() - began

    def pong(self) -> None:
        """Answer rank 0's ping with a tensor as long as an order."""
        self.send(0, torch.zeros(_ORDER, dtype=torch.int64))

    def close(self) -> None:
        """Close the connections to all peers."""
        for peer in self._peers.values():
            peer.close()


def _bytes_of(tensor: Tensor) -> memoryview:
    """Return the bytes of a tensor; only a tensor that is not contiguous is copied."""
    return tensor.flatten().view(torch.uint8).numpy().data


def connect(store: Any, rank: int, size: int, within: timedelta = MEETING) -> Link:
    """Connect to the other ranks, whose addresses are exchanged through a torch store.

    On rank 0, raises LinkBroken if a rank does not connect in time; on the others, RuntimeError if rank 0 does not
    write its port to the store in time, LinkBroken if it cannot be reached."""
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
        peer.settimeout(None)  # the next order may come at any time
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, True)
    return Link(peers, rank, size)


def meet_by_torchrun(torchrun: TorchrunRank) -> Link:
    """Connect to the other processes of torchrun, by torchrun's own store."""
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
