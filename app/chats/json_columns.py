"""Values as JSON in database columns: token marks, provenance, sources, collections, sampling.

Token marks are stored as differences in three lists, a reply of 500 tokens in about 2 kB:

    TokenMark(5, "model", 0), TokenMark(9, "window", 1), TokenMark(12, "window", 1)
    {"ends": [5, 4, 3], "origins": "mww", "steps": [0, 1, 0]}
"""

import json
from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from types import MappingProxyType
from typing import get_args

from app.chat_messages import Provenance, TokenMark
from app.chats.dataclass_json import read, to_dict
from app.document_messages import Sources
from app.messages import Origin, Sampling
from app.text_normalisation import storable

LETTERS: Mapping[Origin, str] = MappingProxyType({origin: origin[0] for origin in get_args(Origin)})
ORIGINS: Mapping[str, Origin] = MappingProxyType({letter: origin for origin, letter in LETTERS.items()})


def marks_to_json(marks: Sequence[TokenMark]) -> str:
    """Marks as JSON; "" for none."""
    if not marks:
        return ""
    columns = {
        "ends": _differences([mark.end for mark in marks]),
        "origins": "".join(LETTERS[mark.origin] for mark in marks),
        "steps": _differences([mark.step for mark in marks]),
    }
    return json.dumps(columns, separators=(",", ":"))


def marks_from_json(text: str) -> tuple[TokenMark, ...]:
    """Marks from JSON; none if the text is invalid, and "model" for an unknown origin."""
    try:
        columns = json.loads(text) if text else {"ends": [], "origins": "", "steps": []}
        ends, steps = accumulate(columns["ends"]), accumulate(columns["steps"])
        origins = (ORIGINS.get(letter, "model") for letter in columns["origins"])
        return tuple(map(TokenMark, ends, origins, steps))
    except (ValueError, TypeError, KeyError):
        return ()


def provenance_to_json(provenance: Provenance | None) -> str | None:
    """Provenance as JSON; None stays None."""
    return None if provenance is None else storable(json.dumps(to_dict(provenance), ensure_ascii=False))


def provenance_from_json(text: str | None) -> Provenance | None:
    """Provenance from JSON; None if the text is invalid."""
    try:
        return None if text is None else read(Provenance, json.loads(text))
    except ValueError:
        return None


def sources_to_json(sources: Sources | None) -> str | None:
    """Sources as JSON; None stays None."""
    return None if sources is None else storable(json.dumps(to_dict(sources), ensure_ascii=False))


def sources_from_json(text: str | None) -> Sources | None:
    """Sources from JSON; None if the text is invalid."""
    try:
        return None if text is None else read(Sources, json.loads(text))
    except ValueError:
        return None


def collections_to_json(collections: Sequence[int]) -> str:
    """Ids of collections as JSON; "" for none."""
    return json.dumps(collections) if collections else ""


def collections_from_json(text: str) -> tuple[int, ...]:
    """Ids of collections from JSON; none if the text is invalid."""
    try:
        found = json.loads(text) if text else []
    except ValueError:
        return ()
    return tuple(one for one in found if type(one) is int) if isinstance(found, list) else ()


def sampling_to_json(sampling: Sampling | None) -> str | None:
    """A chat's own sampling as JSON; None stays None."""
    return None if sampling is None else json.dumps(to_dict(sampling))


def sampling_from_json(text: str | None) -> Sampling | None:
    """A chat's own sampling from JSON; None, for the app's settings, if the text is invalid."""
    try:
        return None if text is None else read(Sampling, json.loads(text))
    except ValueError:
        return None


def _differences(numbers: list[int]) -> list[int]:
    """5 9 12 -> 5 4 3."""
    return [*numbers[:1], *(after - before for before, after in pairwise(numbers))]
