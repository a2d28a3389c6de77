"""Checks for `__post_init__` of values."""

from typing import Any, get_args


def require(condition: bool, rule: str, value: object) -> None:
    """Raise ValueError with the rule and the value that breaks it."""
    if not condition:
        raise ValueError(f"{rule}, got {value!r}")


def require_one_of(choices: Any, name: str, value: object) -> None:
    """Raise ValueError for a value that this Literal does not have."""
    require(value in get_args(choices), f"{name} must be one of " + ", ".join(get_args(choices)), value)
