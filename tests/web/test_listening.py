"""Ports: the asked one, the next free one, or a sentence."""

import asyncio
import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import pytest

from app.errors import BadOption, NoFreePort
from app.web.listening import LOOPBACK, PORTS_TRIED, listen


@pytest.fixture
def taken() -> Iterator[int]:
    with listen(0) as other:
        yield other.getsockname()[1]


def test_a_taken_port_moves_to_a_later_one(taken: int) -> None:
    with listen(taken) as listener:
        host, port = listener.getsockname()
    assert host == LOOPBACK
    assert taken < port < taken + PORTS_TRIED


def test_a_free_port_is_taken_as_asked(taken: int) -> None:
    with listen(taken + 1) as free:
        port = free.getsockname()[1]
    with listen(port) as listener:
        assert listener.getsockname()[1] == port


def test_when_every_port_is_taken_a_sentence_says_what_to_do(taken: int) -> None:
    with ExitStack() as others:
        for port in range(taken + 1, taken + PORTS_TRIED):
            others.enter_context(occupied(port))
        with pytest.raises(NoFreePort, match=f"No port from {taken} to .* can be used.*--port"):
            listen(taken)


def occupied(port: int) -> socket.socket:
    """The port in somebody's hands, if not in somebody else's already."""
    other = socket.socket()
    # As the app does: a port that only waits for the end of an old connection is free.
    other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    with suppress(OSError):
        other.bind((LOOPBACK, port))
        other.listen()
    return other


def test_the_last_port_there_is_has_no_next_one() -> None:
    with occupied(65535), pytest.raises(NoFreePort, match="from 65535 to 65535"):
        listen(65535)


def test_an_address_of_another_machine_is_refused() -> None:
    with pytest.raises(BadOption, match=r"^192\.0\.2\.1 is not an address of this machine"):
        listen(0, "192.0.2.1")


async def delay_of_packets(listener: socket.socket) -> bool:
    """Whether a server at this socket holds back small packets until earlier ones are acknowledged."""
    served = asyncio.get_running_loop().create_future()

    def connected(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served.set_result(writer.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        writer.close()

    async with await asyncio.start_server(connected, sock=listener):
        _, writer = await asyncio.open_connection(*listener.getsockname())
        is_off = await served
        writer.close()
        await writer.wait_closed()
    return not is_off


def test_a_stream_is_not_held_back() -> None:
    assert not asyncio.run(delay_of_packets(listen(0)))
