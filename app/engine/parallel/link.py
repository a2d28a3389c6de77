"""What the ranks send each other: fixed int64 tensors and, once for each model and reply, settings as JSON.

Rank 0 gives orders to each of the others and receives their answers; these do not talk among themselves. The
numbers come from the host and are wanted there, so sockets of this machine carry them, also between cards: no
kernel is launched, and a rank that waits for its next order keeps no card busy. Nor is gloo asked: its receiver
announces itself before anything is sent, and each message goes through two threads.
"""

import json
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from time import perf_counter
from typing import Any

import torch
from torch import Tensor

from app.engine.block.block import Block
from app.engine.parallel.shares import Share
from app.errors import ModelBroken

_ORDER = 1536
"""Numbers of an order: five counts, MOST_TEXT tokens, and four numbers for each row of the widest block."""
MOST_TEXT = 128
_JSON = 4096


class Op(IntEnum):
    """What an order asks for."""

    LOAD = 1  # a model, by JSON
    REPLY = 2  # settings of the replies from now on, by JSON
    PREFILL = 3  # a prompt, whose ids come next
    STEP = 4  # a share of a block, behind so many new tokens of the text
    FOLLOW = 5  # new tokens of the text, fed at once
    FORGET = 6
    UNLOAD = 7
    PING = 8  # an answer as long as an order
    PASS = 9  # a forward pass of a model that is split among the ranks, in so many numbers, which come next
    KEEP = 10  # these rows of the newest pass
    LAYER = 11  # one layer of it, by its number; the text is the shape of its input, which comes next
    PROBLEM = 12  # what went wrong in a pass, by JSON


class LinkBroken(Exception):
    """The process of this rank has ended."""

    def __init__(self, rank: int) -> None:
        super().__init__(f"rank {rank} does not answer")
        self.rank = rank


@dataclass(frozen=True, slots=True)
class Order:
    """An order; `text` are the tokens committed since the last one, `length` is that of what comes next.

    Of a share the rows of the whole block are left out: only rank 0 needs them."""

    op: Op
    length: int = 0
    text: tuple[int, ...] = ()
    share: Share | None = None


class Link:
    """Tensors from this rank to others and back."""

    def __init__(self, peers: Mapping[int, socket.socket], rank: int, size: int) -> None:
        """`peers` are the ranks that this one talks with."""
        self._peers = peers
        self.rank, self.size = rank, size

    def send(self, to: int, tensor: Tensor) -> None:
        """Raises LinkBroken."""
        try:
            self._peers[to].sendall(_bytes_of(tensor))
        except OSError as error:
            raise LinkBroken(to) from error

    def receive(self, source: int, tensor: Tensor) -> None:
        """Fill this tensor, which says how much there is. Raises LinkBroken."""
        left = _bytes_of(tensor)
        try:
            while left:
                if not (count := self._peers[source].recv_into(left)):
                    raise LinkBroken(source)
                left = left[count:]
        except OSError as error:
            raise LinkBroken(source) from error

    def send_order(self, to: int, order: Order) -> None:
        """One tensor, of the same length for every order."""
        self.send(to, _packed(order))

    def receive_order(self) -> Order:
        """The next one of rank 0."""
        numbers = torch.empty(_ORDER, dtype=torch.int64)
        self.receive(0, numbers)
        return _unpacked(numbers)

    def send_json(self, to: int, value: object) -> None:
        """One tensor of fixed length."""
        text = json.dumps(value).encode()
        if len(text) > _JSON:
            raise ValueError(f"at most {_JSON} bytes of JSON go into a message, got {len(text)}")
        self.send(to, torch.tensor(list(text.ljust(_JSON)), dtype=torch.uint8))

    def receive_json(self, source: int) -> Any:
        """What `send_json` sent."""
        text = torch.empty(_JSON, dtype=torch.uint8)
        self.receive(source, text)
        return json.loads(bytes(text.tolist()))

    def problem_of(self, rank: int) -> str:
        """What went wrong there in a pass, as a sentence, or "". Raises LinkBroken."""
        self.send_order(rank, Order(Op.PROBLEM))
        return str(self.receive_json(rank)["problem"])

    def ping(self) -> float:
        """Seconds that an order and an answer take, for all ranks together; to be called by rank 0."""
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
        """Hang up."""
        for peer in self._peers.values():
            peer.close()


class Loading:
    """The other ranks load what they are told."""

    def __init__(self, link: Link, wanted: Sequence[dict[str, object]]) -> None:
        self._link = link
        self._waiting = list(range(1, len(wanted) + 1))
        for rank, each in enumerate(wanted, start=1):
            link.send_order(rank, Order(Op.LOAD))
            link.send_json(rank, each)

    def wait(self) -> None:
        """Until each has answered. Raises ModelBroken where one of them cannot have it, and LinkBroken."""
        refusals: list[str] = []
        while self._waiting:
            refusals.append(self._link.receive_json(self._waiting.pop(0))["refused"])
        if refused := next(filter(None, refusals), ""):
            raise ModelBroken(refused)


def _bytes_of(tensor: Tensor) -> memoryview:
    """Its memory where it is contiguous, else that of a copy."""
    return tensor.flatten().view(torch.uint8).numpy().data


def _packed(order: Order) -> Tensor:
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
    return packed


def _unpacked(numbers: Tensor) -> Order:
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
