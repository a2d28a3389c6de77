"""Ranks meet at a socket of this machine, and nobody else comes in."""

import json
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.distributed import FileStore  # type: ignore[attr-defined]

from app.engine.parallel.link import Link, LinkBroken, Op
from app.engine.parallel.meeting import connect

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
