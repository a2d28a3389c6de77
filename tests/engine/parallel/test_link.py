"""Ranks meet at a socket of this machine, nobody else comes in, and orders arrive as they were sent."""

import json
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import torch
from torch.distributed import FileStore  # type: ignore[attr-defined]

from app.engine.block.block import Block, chain_block
from app.engine.parallel.link import Link, LinkBroken, Op, Order, connect
from app.engine.parallel.step_shares import Share
from app.values.messages import MAX_ROWS


@pytest.fixture
def links() -> Iterator[tuple[Link, Link]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield Link({3: ours}, 0, 4), Link({0: theirs}, 3, 4)


WIDE = Block(
    tuple(range(MAX_ROWS)), (3, *[4] * (MAX_ROWS - 1)), (-1, *[0] * (MAX_ROWS - 1)), (0, *range(MAX_ROWS))
)


@pytest.mark.parametrize(
    "order",
    [
        Order(Op.PREFILL, tuple(range(70_000))),
        Order(Op.REPLY, settings={"buckets": [1, 2], "sampling": None}),
        Order(Op.FOLLOW, text=tuple(range(128))),
        Order(Op.STEP, (5, 6), Share(chain_block((7, 8), 70_000, (0, 1)), (1,), ())),
        Order(Op.STEP, tuple(range(128)), Share(WIDE, tuple(range(MAX_ROWS + 1)), ())),
    ],
)
def test_an_order_arrives_as_it_was_sent(order: Order, links: tuple[Link, Link]) -> None:
    here, there = links
    sender = Thread(target=here.send_order, args=(3, order))  # more than a socket takes at once
    sender.start()
    assert there.receive_order() == order
    sender.join()
    here.send_json(3, {"text": "\u00e4 \u2028", "none": None})
    assert there.receive_json(0) == {"text": "\u00e4 \u2028", "none": None}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.int64])
def test_a_tensor_arrives_in_pieces_whatever_its_type_and_strides(
    dtype: torch.dtype, links: tuple[Link, Link]
) -> None:
    here, there = links
    wide = torch.arange(300_000).view(3, -1).to(dtype).T
    sender = Thread(target=here.send, args=(3, wide))  # more than a socket takes at once
    sender.start()
    for size in ((100_000, 3), (0, 3)):
        received = torch.empty(size, dtype=dtype)
        there.receive(0, received)
        assert torch.equal(received, wide[: size[0]])
    sender.join()


def test_a_rank_that_has_ended_is_named(links: tuple[Link, Link]) -> None:
    here, there = links
    there.close()
    for talk in (lambda: here.receive_json(3), lambda: here.send_order(3, Order(Op.FORGET))):
        with pytest.raises(LinkBroken) as broken:
            talk()
        assert broken.value.rank == 3


SHORT = timedelta(seconds=0.2)


@pytest.fixture
def store(tmp_path: Path) -> Callable[[], Any]:
    """A rank's view of the store, in which a dead process would be waited for no longer than it takes."""
    return partial(FileStore, str(tmp_path / "store"))


def test_ranks_find_each_other_in_any_order(store: Callable[[], Any]) -> None:
    with ThreadPoolExecutor() as threads:
        links = list(threads.map(lambda rank: connect(store(), rank, 3), (2, 0, 1)))
        two, zero, one = links
        for other in (one, two):
            threads.submit(lambda link: link.receive_order().op is Op.PING and link.pong(), other)
        assert zero.ping() > 0
        for other in (one, two):
            other.send(0, torch.tensor([other.rank]))
            heard = torch.empty(1, dtype=torch.int64)
            zero.receive(other.rank, heard)
            assert heard.item() == other.rank
    for link in links:
        link.close()


def test_a_rank_that_does_not_come_is_named(store: Callable[[], Any]) -> None:
    with ThreadPoolExecutor() as threads:
        meeting = threads.submit(connect, store(), 0, 3, timedelta(seconds=1))
        connect(store(), 1, 3).close()
        with pytest.raises(LinkBroken, match="rank 2 does not answer"):
            meeting.result()


def test_rank_0_that_does_not_come_is_an_error(store: Callable[[], Any]) -> None:
    with pytest.raises(RuntimeError):
        connect(store(), 1, 2, SHORT)
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    store().set("link", json.dumps([port, 1, 2]))
    with pytest.raises(LinkBroken, match="rank 0 does not answer"):
        connect(store(), 1, 2)


@pytest.mark.parametrize("greeting", [[1, 2, 1], []])
def test_a_stranger_is_turned_away(greeting: list[int], store: Callable[[], Any]) -> None:
    with ThreadPoolExecutor() as threads:
        meeting = threads.submit(connect, store(), 0, 2)
        port, *_ = json.loads(store().get("link"))
        with socket.create_connection(("127.0.0.1", port)) as stranger:
            if greeting:
                Link({0: stranger}, 1, 2).send(0, torch.tensor(greeting))
            else:
                stranger.shutdown(socket.SHUT_WR)
            assert stranger.recv(1) == b""
        rank_1 = connect(store(), 1, 2)
        meeting.result().close()
        with pytest.raises(LinkBroken):
            rank_1.receive_order()
        rank_1.close()
