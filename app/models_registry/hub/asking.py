"""One request to the hub, by the hub client's own session: its proxies, its login, its redirects."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from huggingface_hub import get_session
from huggingface_hub.utils import (  # type: ignore[attr-defined, unused-ignore]
    build_hf_headers,
    hf_raise_for_status,
)


@contextmanager
def answer_from(url: str, start: int, silence: float, end: int | None = None) -> Iterator[Any]:
    """The hub's answer to a request for the bytes from `start` on, still open; raises the client's errors.

    Its type is of another library in the client's 2.x than in its 1.x. Another host gets no token."""
    headers = build_hf_headers() | {"Accept-Encoding": "identity"}
    if start or end is not None:
        headers["Range"] = f"bytes={start}-{'' if end is None else end - 1}"
    with get_session().stream("GET", url, headers=headers, timeout=silence) as answer:
        hf_raise_for_status(answer)
        yield answer


def read_bytes(url: str, start: int, count: int, silence: float, is_part: bool = True) -> bytes:
    """At most so many bytes; never more, however much the hub sends. What is no file has no parts to ask for."""
    with answer_from(url, start, silence, start + count if is_part else None) as answer:
        skip = start if answer.status_code == 200 else 0
        found = bytearray()
        for piece in answer.iter_raw():
            found += piece
            if len(found) >= skip + count:
                break
    return bytes(found[skip : skip + count])
