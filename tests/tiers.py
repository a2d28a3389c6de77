"""Which cases of a large product run by default: the others are marked thorough.

@pairwise(architecture=named(BRANCHING), sampling=SAMPLINGS, deep=IN_DEPTH)
def test_…(architecture: Architecture, sampling: Sampling) -> None:
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import date
from itertools import combinations, product
from typing import Any

import pytest
from hypothesis import settings

Case = tuple[str, ...]
"""The ids of one value of each parameter."""


def named(values: Iterable[Any]) -> dict[str, Any]:
    """Values by what they print."""
    return {str(value): value for value in values}


def numbered(values: Iterable[Any]) -> dict[str, Any]:
    """Values that print nothing of their own, by their places."""
    return {str(place): value for place, value in enumerate(values)}


def some(values: Mapping[str, Any], *default: str) -> list[Any]:
    """One parameter's values, of which these ids run by default."""
    assert set(default) <= set(values), f"{default} are not all among {list(values)}"
    return [_param([value], name, name in default) for name, value in values.items()]


def tiered(
    is_default: Callable[..., bool], *, indirect: Collection[str] = (), **parameters: Mapping[str, Any]
) -> pytest.MarkDecorator:
    """The whole product of these; by default the cases whose ids `is_default` takes."""
    cases = [
        _param(
            [values[name] for values, name in zip(parameters.values(), ids, strict=True)],
            "-".join(ids),
            is_default(*ids),
        )
        for ids in product(*parameters.values())
    ]
    return pytest.mark.parametrize(tuple(parameters), cases, indirect=list(indirect))


def pairwise(
    *, deep: Collection[str] | None = None, indirect: Collection[str] = (), **parameters: Mapping[str, Any]
) -> pytest.MarkDecorator:
    """The whole product; by default few cases that hold every pair of values.

    `deep` are ids of the first parameter: pairs are for these alone, each value of the others is there once."""
    chosen = covering([tuple(values) for values in parameters.values()], deep)
    return tiered(lambda *ids: ids in chosen, indirect=indirect, **parameters)


def covering(ids: list[Case], deep: Collection[str] | None = None) -> set[Case]:
    """Few cases, always the same ones: each time one that holds the most that is missing, and the rarest values."""
    cases = {case: _demands(case, deep is None or case[0] in deep) for case in product(*ids)}
    missing, used, chosen = set().union(*cases.values()), Counter[Any](), set[Case]()
    while missing:
        best = max(
            cases,
            key=lambda case: (len(cases[case] & missing), -sum(used[value] for value in enumerate(case))),
        )
        chosen.add(best)
        missing -= cases[best]
        used.update(enumerate(best))
    return chosen


def examples(most: int, **others: Any) -> settings:
    """So many of hypothesis's examples with --thorough; by default the share that tests/conftest.py says."""
    return settings(max_examples=max(3, most * settings().max_examples // 100), **others)


def todays_seed() -> int:
    """Faults come at other moments every day; pytest shows the seed where a test fails."""
    seed = date.today().toordinal()
    print(f"seed {seed}")
    return seed


def _demands(case: Case, is_deep: bool) -> set[Any]:
    """What this case shows: its values, and in depth their pairs."""
    values = list(enumerate(case))
    return {*values, *(combinations(values, 2) if is_deep else ())}


def _param(values: list[Any], name: str, is_default: bool) -> Any:
    return pytest.param(*values, id=name, marks=() if is_default else pytest.mark.thorough)
