"""Counting the tokens of a long chat while somebody types: only what is new of it is read.

A tokenizer cuts a text at its special tokens before anything else and reads what stands between them by itself. So
a chat has as many tokens as its parts together, and parts are remembered:

    <user> Hi <end> <assistant> Hello <end> <user> How a        1 + 1 + 1 + 1 + 1 + 1 + 1 + 2
    <user> Hi <end> <assistant> Hello <end> <user> How are      only "How are" is read

Some tokenizers read the first part of a text unlike the others. Whether this one does is tried once.
"""

import re
from collections.abc import Callable, Sequence
from functools import lru_cache

Count = Callable[[str], int]
"""A text -> how many tokens it has."""

PARTS = 8192
"""Parts that are remembered: a long chat has two or three for each of its messages."""
TRIED = 8
"""Special tokens that are tried: many models have hundreds of the same kind."""


def in_parts(whole: Count, borders: Sequence[str]) -> Count:
    """As `whole` counts, part by part between these special tokens; `whole` itself where that is not the same."""
    if not borders:
        return whole
    longest_first = sorted(borders, key=len, reverse=True)
    border = re.compile(f"({'|'.join(map(re.escape, longest_first))})")
    known = lru_cache(PARTS)(whole)

    def count(text: str) -> int:
        return sum(known(part) for part in border.split(text) if part)

    return count if all(count(text) == whole(text) for text in _trials(borders)) else whole


def _trials(borders: Sequence[str]) -> list[str]:
    """Texts in which a part that is read unlike others shows."""
    return [
        separator.join((first, second, "a", first, " a", second, "\n\na ", first))
        for first, second in zip(borders[:TRIED], borders[-TRIED:], strict=True)
        for separator in ("", "x", " ", "\n")
    ]
