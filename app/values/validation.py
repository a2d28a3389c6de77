"""Checks that values call in `__post_init__`."""

from typing import Any, get_args


def require(condition: bool, rule: str, value: object) -> None:
    """Raise ValueError, with the rule and the value, unless the condition is true."""
    if not condition:
        raise ValueError(f"{rule}, got {value!r}")


def require_one_of(choices: Any, name: str, value: object) -> None:
    """Raise ValueError unless the value is one of the choices, a Literal type."""
    require(value in get_args(choices), f"{name} must be one of " + ", ".join(get_args(choices)), value)
