"""Values as JSON and back, for whatever wrote the JSON: an older app, a newer one, or a person with an editor.

Reading is tolerant: unknown fields are left out; missing ones and those of a wrong type get their defaults, and
where a value has none, the nothing of its type. What would be untrue is refused (ValueError), as a value itself
refuses it; then a value that may be None is None, and one of several is left out.

    read(Sampling, {"temperature": 0.7, "top_k": None, "of_later": 1}) == Sampling(temperature=0.7)
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import MISSING, Field, asdict, fields, is_dataclass
from functools import cache
from math import isfinite
from types import NoneType
from typing import Any, Literal, TypeVar, cast, get_args, get_origin, get_type_hints

T = TypeVar("T")
Reader = Callable[[object], object]
"""What was found -> a value. Raises WrongType, or ValueError for what a value refuses."""
NOTHING: Mapping[type, object] = {str: "", int: 0, float: 0.0, bool: False}


class WrongType(ValueError):
    """Something else stands where a value should."""

    def __init__(self, found: object) -> None:
        super().__init__(f"of another type: {found!r}")


def plain(value: Any) -> dict[str, Any]:
    """A value, and the values in it, as what JSON can say."""
    return asdict(value)


def read(kind: type[T], found: object) -> T:
    """A value of this dataclass from parsed JSON. Raises ValueError when it cannot be one."""
    return cast("T", _reader(cast("Any", kind))(found))


# Types do not change: each is looked into once.
@cache
def _reader(hint: Any) -> Reader:
    origin, kinds = get_origin(hint), get_args(hint)
    if is_dataclass(hint):
        return _dataclass_reader(hint)
    if origin is tuple:
        return _series_reader(_reader(kinds[0]))
    if origin is Literal:
        return _word_reader(frozenset(kinds))
    if kinds:
        readers = [_reader(kind) for kind in kinds if kind is not NoneType]
        return _union_reader(readers, NoneType in kinds)
    return _number if hint is float else _exact_reader(hint)


def _dataclass_reader(kind: Any) -> Reader:
    hints = get_type_hints(kind)
    parts = [(field.name, _field_reader(field, hints[field.name])) for field in fields(kind)]

    def read_dataclass(found: object) -> object:
        if not isinstance(found, dict):
            raise WrongType(found)
        return kind(**{name: reader(found.get(name)) for name, reader in parts})

    return read_dataclass


def _field_reader(field: "Field[Any]", hint: Any) -> Reader:
    reader, default = _reader(hint), _default(field, hint)

    def read_field(found: object) -> object:
        try:
            return reader(found)
        except WrongType:
            return default()

    return read_field


def _default(field: "Field[Any]", hint: Any) -> Callable[[], object]:
    if field.default is not MISSING:
        return lambda: field.default
    if field.default_factory is not MISSING:
        return field.default_factory
    if hint in NOTHING:
        return lambda: NOTHING[hint]

    def refuse() -> object:
        raise ValueError(f"{field.name} is missing, or none of its values")

    return refuse


def _series_reader(reader: Reader) -> Reader:
    def read_series(found: object) -> object:
        if not isinstance(found, list):
            raise WrongType(found)
        values = []
        for one in found:
            with suppress(ValueError):
                values.append(reader(one))
        return tuple(values)

    return read_series


def _word_reader(words: frozenset[str]) -> Reader:
    def read_word(found: object) -> object:
        if isinstance(found, str) and found in words:
            return found
        raise WrongType(found)

    return read_word


def _union_reader(readers: list[Reader], may_be_none: bool) -> Reader:
    def read_union(found: object) -> object:
        for reader in readers:
            with suppress(ValueError):
                return reader(found)
        if may_be_none:
            return None
        raise WrongType(found)

    return read_union


def _exact_reader(kind: type) -> Reader:
    def read_exact(found: object) -> object:
        if type(found) is kind:
            return found
        raise WrongType(found)

    return read_exact


def _number(found: object) -> float:
    # JSON as Python reads it has NaN, Infinity and integers of any length.
    if isinstance(found, int | float) and not isinstance(found, bool):
        with suppress(OverflowError):
            if isfinite(number := float(found)):
                return number
    raise WrongType(found)
