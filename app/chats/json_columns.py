"""Values as JSON in database columns: token marks, provenance, sources, collections, sampling.

Token marks are stored as differences in three lists, a reply of 500 tokens in about 2 kB:

    TokenMark(5, "model", 0), TokenMark(9, "window", 1), TokenMark(12, "window", 1)
    {"ends": [5, 4, 3], "origins": "mww", "steps": [0, 1, 0]}
"""

import json
from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from types import MappingProxyType
from typing import TypeVar, get_args

from app.values.chat import Provenance, TokenMark
from app.values.dataclass_json import parse_json, read, to_dict
from app.values.document import Sources
from app.values.json_answers import JsonAnswers
from app.values.messages import Origin, Sampling
from app.values.text_normalisation import storable

T = TypeVar("T")
LETTERS: Mapping[Origin, str] = MappingProxyType(
    {origin: {"prediction": "e", "draft": "r"}.get(origin, origin[0]) for origin in get_args(Origin)}
)  # p is the prompt, d a document
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
        columns = parse_json(text) if text else {"ends": [], "origins": "", "steps": []}
        ends, steps = accumulate(columns["ends"]), accumulate(columns["steps"])
        origins = (ORIGINS.get(letter, "model") for letter in columns["origins"])
        return tuple(map(TokenMark, ends, origins, steps))
    except (ValueError, TypeError, KeyError):
        return ()


def value_to_json(value: Provenance | Sources | Sampling | JsonAnswers | None) -> str | None:
    """A value as JSON; None stays None."""
    return None if value is None else storable(json.dumps(to_dict(value), ensure_ascii=False))


def value_from_json(kind: type[T], text: str | None) -> T | None:
    """A value of this dataclass from JSON; None if there is none, or the text is invalid."""
    try:
        return None if text is None else read(kind, parse_json(text))
    except ValueError:
        return None


def collections_to_json(collections: Sequence[int]) -> str:
    """Ids of collections as JSON; "" for none."""
    return json.dumps(collections) if collections else ""


def collections_from_json(text: str) -> tuple[int, ...]:
    """Ids of collections from JSON; none if the text is invalid."""
    try:
        found = parse_json(text) if text else []
    except ValueError:
        return ()
    return tuple(one for one in found if type(one) is int) if isinstance(found, list) else ()


def _differences(numbers: list[int]) -> list[int]:
    """5 9 12 -> 5 4 3."""
    return [*numbers[:1], *(after - before for before, after in pairwise(numbers))]
