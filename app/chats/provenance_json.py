"""How a reply came about, as it is kept: provenance and sources as JSON, and marks as three short columns.

A mark is written as what changed since the one before, a reply of 500 tokens in some 2 kB:

    TokenMark(5, "model", 0), TokenMark(9, "window", 1), TokenMark(12, "window", 1)
    {"ends": [5, 4, 3], "origins": "mww", "steps": [0, 1, 0]}
"""

import json
from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from types import MappingProxyType
from typing import get_args

from app.chat_messages import Provenance, TokenMark
from app.chats.values_json import plain, read
from app.document_messages import Sources
from app.messages import Origin, Sampling
from app.spacing import storable

LETTERS: Mapping[Origin, str] = MappingProxyType({origin: origin[0] for origin in get_args(Origin)})
ORIGINS: Mapping[str, Origin] = MappingProxyType({letter: origin for origin, letter in LETTERS.items()})


def marks_to_json(marks: Sequence[TokenMark]) -> str:
    """Marks as text; "" for none."""
    if not marks:
        return ""
    columns = {
        "ends": _changes([mark.end for mark in marks]),
        "origins": "".join(LETTERS[mark.origin] for mark in marks),
        "steps": _changes([mark.step for mark in marks]),
    }
    return json.dumps(columns, separators=(",", ":"))


def marks_from_json(text: str) -> tuple[TokenMark, ...]:
    """The marks again; none where the text makes no sense, and "model" for an origin that nobody knows."""
    try:
        columns = json.loads(text) if text else {"ends": [], "origins": "", "steps": []}
        ends, steps = accumulate(columns["ends"]), accumulate(columns["steps"])
        origins = (ORIGINS.get(letter, "model") for letter in columns["origins"])
        return tuple(map(TokenMark, ends, origins, steps))
    except (ValueError, TypeError, KeyError):
        return ()


def provenance_to_json(provenance: Provenance | None) -> str | None:
    """Provenance as text; None stays None."""
    return None if provenance is None else storable(json.dumps(plain(provenance), ensure_ascii=False))


def provenance_from_json(text: str | None) -> Provenance | None:
    """Provenance again; None where the text makes no sense."""
    try:
        return None if text is None else read(Provenance, json.loads(text))
    except ValueError:
        return None


def sources_to_json(sources: Sources | None) -> str | None:
    """Sources as text; None stays None."""
    return None if sources is None else storable(json.dumps(plain(sources), ensure_ascii=False))


def sources_from_json(text: str | None) -> Sources | None:
    """Sources again; None where the text makes no sense."""
    try:
        return None if text is None else read(Sources, json.loads(text))
    except ValueError:
        return None


def collections_to_json(collections: Sequence[int]) -> str:
    """The ids of collections as text; "" for none."""
    return json.dumps(collections) if collections else ""


def collections_from_json(text: str) -> tuple[int, ...]:
    """The ids again; none where the text makes no sense."""
    try:
        found = json.loads(text) if text else []
    except ValueError:
        return ()
    return tuple(one for one in found if type(one) is int) if isinstance(found, list) else ()


def sampling_to_json(sampling: Sampling | None) -> str | None:
    """A chat's own sampling as text; None stays None."""
    return None if sampling is None else json.dumps(plain(sampling))


def sampling_from_json(text: str | None) -> Sampling | None:
    """A chat's own sampling again; None, the settings', where the text makes no sense."""
    try:
        return None if text is None else read(Sampling, json.loads(text))
    except ValueError:
        return None


def _changes(numbers: list[int]) -> list[int]:
    """5 9 12 -> 5 4 3."""
    return [*numbers[:1], *(after - before for before, after in pairwise(numbers))]
