"""Checks that values call in `__post_init__`."""

from typing import Any, get_args
from urllib.parse import urlsplit


class ImpossibleValue(ValueError):
    """A value breaks a rule. The rule is a sentence without its capital letter and its full stop."""

    def __init__(self, rule: str, value: object) -> None:
        super().__init__(f"{rule}; it is {_shown(value)}")
        self.sentence = f"{rule[:1].upper()}{rule[1:]}."


def _shown(value: object) -> str:
    """Return a value in words: texts in quotes, the items of a tuple one after the other."""
    if isinstance(value, tuple | list):
        return ", ".join(map(_shown, value)) or "nothing"
    return f"“{value}”" if isinstance(value, str) else str(value)


def require(condition: bool, rule: str, value: object) -> None:
    """Raise ImpossibleValue, with the rule and the value, unless the condition is true."""
    if not condition:
        raise ImpossibleValue(rule, value)


def require_one_of(choices: Any, name: str, value: object) -> None:
    """Raise ImpossibleValue unless the value is one of the choices, which are a Literal type."""
    require(value in get_args(choices), f"{name} must be one of " + ", ".join(get_args(choices)), value)


def web_host(address: str) -> str:
    """Return the host of an http or https address; "" for anything else, such as an address with a wrong port."""
    try:
        parts = urlsplit(address)
        return (parts.hostname or "") if parts.scheme in ("http", "https") and parts.port != 0 else ""
    except ValueError:
        return ""
