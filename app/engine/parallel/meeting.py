"""How the ranks of this machine find each other: rank 0 listens at 127.0.0.1, and a store of torch tells where.

Any program of this machine could connect there, so the others show a secret that the store holds.
"""

import json
import secrets
import socket
from contextlib import ExitStack, suppress
from datetime import timedelta
from typing import Any

import torch

from app.engine.parallel.link import Link, LinkBroken

MEETING = timedelta(seconds=60)
"""For the ranks to find each other."""
_HERE = "127.0.0.1"
_PLACE = "link"
"""What the store calls rank 0's port with the two numbers of the secret."""
_GREETING = 5.0
"""Seconds for who connects to show the secret."""


def connect(store: Any, rank: int, size: int, within: timedelta = MEETING) -> Link:
    """Meet the other ranks by a store of torch.

    Raises LinkBroken for one that does not come, RuntimeError where rank 0 does not."""
    store.set_timeout(within)
    peers = {0: _rank_0(store, rank)} if rank else _others(store, size, within)
    for peer in peers.values():
        peer.settimeout(None)  # between two replies lies as much time as the person likes
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, True)
    return Link(peers, rank, size)


def _rank_0(store: Any, rank: int) -> socket.socket:
    port, *secret = json.loads(store.get(_PLACE))
    try:
        peer = socket.create_connection((_HERE, port), _GREETING)
    except OSError as error:
        raise LinkBroken(0) from error
    Link({0: peer}, rank, 2).send(0, torch.tensor([*secret, rank]))
    return peer


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
