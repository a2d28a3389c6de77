"""Converts dataclasses to JSON and back. The JSON may come from an older or a newer app, or from a text editor.

Reading is tolerant: unknown fields are ignored; missing fields and fields of a wrong type get their defaults, or
else the zero value of their type. A dataclass that refuses its values raises ValueError. An optional field whose
value is refused becomes None, and a refused element of a list or a mapping is left out.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, Field, asdict, fields, is_dataclass
from functools import cache, partial
from math import isfinite
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from app.values.validation import require

T = TypeVar("T")
Reader = Callable[[object], object]
"""Converts parsed JSON to a value. Raises WrongType, or ValueError if the value's own checks fail."""
Part = tuple["Field[Any]", Any, Reader]
"""A field of a dataclass, its type and the type's reader."""
ZERO_VALUES: Mapping[type, object] = {str: "", int: 0, float: 0.0, bool: False}


class WrongType(ValueError):
    """The JSON value does not have the type of the field."""

    def __init__(self, found: object) -> None:
        super().__init__(f"wrong type: {found!r}")


def parse_json(text: str | bytes, *, strict: bool = True) -> Any:
    """Parse JSON. Raises ValueError if it is invalid or nested too deeply."""
    try:
        return json.loads(text, strict=strict)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def json_text(value: object) -> str:
    """Return a value as JSON, without escapes for letters beyond ASCII."""
    return json.dumps(value, ensure_ascii=False)


def require_types(value: T, found: object) -> T:
    """Return `value`, which was read from the JSON `found`. Raises ValueError if a value in it has a wrong type."""
    require(read(type(value), found) == value, "all values must have the types of their fields", found)
    return value


def to_dict(value: Any, left_out: str = "") -> dict[str, Any]:
    """Convert a dataclass and all dataclasses in it to dictionaries, without fields of the name `left_out`."""
    return asdict(value, dict_factory=lambda pairs: {name: one for name, one in pairs if name != left_out})


def read(kind: type[T], found: object) -> T:
    """Make a dataclass from parsed JSON. Raises ValueError if that is impossible."""
    return cast("T", _reader(cast("Any", kind))(found))


# Types do not change, so each type is analysed once.
@cache
def _reader(hint: Any) -> Reader:
    origin, kinds = get_origin(hint), get_args(hint)
    if is_dataclass(hint):
        hints = get_type_hints(hint)
        parts = [(one, hints[one.name], _reader(hints[one.name])) for one in fields(hint)]
        return partial(_read_dataclass, hint, parts)
    if origin is tuple:
        return partial(_read_list, _reader(kinds[0]))
    if origin is Mapping:
        return partial(_read_mapping, *map(_reader, kinds))
    if origin is Literal:
        return partial(_read_literal, frozenset(kinds))
    if origin in (Union, UnionType):
        readers = [_reader(kind) for kind in kinds if kind is not NoneType]
        return partial(_read_union, readers, NoneType in kinds)
    if origin:
        raise TypeError(f"{hint} cannot be read from JSON")
    return _number if hint is float else partial(_read_exact, hint)


def _read_dataclass(kind: Any, parts: Sequence[Part], found: object) -> object:
    if not isinstance(found, dict):
        raise WrongType(found)
    values = {}
    for field, hint, reader in parts:
        try:
            values[field.name] = reader(found.get(field.name))
        except WrongType:
            values[field.name] = _default(field, hint)
    return kind(**values)


def _default(field: "Field[Any]", hint: Any) -> object:
    """Return the field's default, or the zero value of its type. Raises ValueError if there is neither."""
    if field.default is not MISSING:
        return field.default
    if field.default_factory is not MISSING:
        return field.default_factory()
    if hint in ZERO_VALUES:
        return ZERO_VALUES[hint]
    raise ValueError(f"{field.name} is missing or invalid")


def _read_list(reader: Reader, found: object) -> object:
    if not isinstance(found, list):
        raise WrongType(found)
    values = []
    for one in found:
        with suppress(ValueError):
            values.append(reader(one))
    return tuple(values)


def _read_mapping(key_reader: Reader, value_reader: Reader, found: object) -> object:
    if not isinstance(found, dict):
        raise WrongType(found)
    values = {}
    for key, value in found.items():
        with suppress(ValueError):
            values[key_reader(key)] = value_reader(value)
    return values


def _read_literal(choices: frozenset[str], found: object) -> object:
    if isinstance(found, str) and found in choices:
        return found
    raise WrongType(found)


def _read_union(readers: Sequence[Reader], may_be_none: bool, found: object) -> object:
    for reader in readers:
        with suppress(ValueError):
            return reader(found)
    if may_be_none:
        return None
    raise WrongType(found)


def _read_exact(kind: type, found: object) -> object:
    if type(found) is kind:
        return found
    raise WrongType(found)


def _number(found: object) -> float:
    # Python's JSON parser accepts NaN, Infinity and integers of any length.
    if isinstance(found, int | float) and not isinstance(found, bool):
        with suppress(OverflowError):
            if isfinite(number := float(found)):
                return number
    raise WrongType(found)
