"""All backends against attention from its definition: one suite, on CUDA where there is a device."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from app.engine.attention import Attend
from tests.engine.attention.backends import BACKENDS
from tests.engine.attention.cases import Case, attended, defined
from tests.tiers import examples, named, tiered

CASES = [
    Case(),
    Case(prefix=0),
    Case(prefix=1),
    Case(prefix=600),
    Case(parents=()),
    Case(parents=(), prefix=0),
    Case(parents=(), window=3),
    Case(parents=(0, 1, 2, 3, 4, 5)),
    Case(parents=(0, 0, 0, 0)),
    Case(heads=4, shared=4),
    Case(heads=8, shared=1),
    Case(heads=6, shared=2),
    Case(heads=20, shared=1, parents=(0,)),
    Case(size=8),
    Case(window=1),
    Case(window=2),
    Case(window=4),
    Case(window=100),
    Case(window=100, prefix=400),
    Case(window=300, prefix=700, parents=()),
    Case(softcap=2.0),
    Case(softcap=0.5, window=3, prefix=1),
    Case(has_sinks=True),
    Case(has_sinks=True, softcap=1.5, window=3),
    Case(has_sinks=True, prefix=0, parents=()),
    Case(has_sinks=True, heads=4, shared=4),
]
BORDERS = [
    Case(prefix=prefix, parents=(0, 0), heads=2, shared=1)
    for tile in (32, 64, 256, 2048)
    for prefix in (tile - 1, tile, tile + 1, tile + 31)
]
LONG = Case(prefix=4096, parents=(0, 1), heads=2, shared=1)
IN_HALF = [Case(softcap=2.0), Case(has_sinks=True, window=3), Case(has_sinks=True, prefix=300)]
SIZES = [Case(size=size, prefix=70, parents=(0,), heads=2, shared=1) for size in (64, 80, 96, 128, 256)]

ROUNDING = {torch.float32: 2**-19, torch.bfloat16: 2**-7, torch.float16: 2**-10}
"""How far a row may be from the definition, in parts of its length: the distance of 1 and the next number in half
precision; sixteen times that in float32, where the scores' own rounding shows."""


FEW = (
    Case(prefix=0),
    Case(prefix=600),
    Case(heads=6, shared=2),
    Case(window=100, prefix=400),
    Case(has_sinks=True, softcap=1.5, window=3),
)
"""What triton's interpreter does by default: one type, and a shape or two of each kind."""


def every_backend(*few: str, **cases: Mapping[str, Any]) -> pytest.MarkDecorator:
    """Every backend on every case; by default triton, in its interpreter, on these ids alone."""

    def is_default(backend: str, *ids: str) -> bool:
        return backend != "triton" or torch.cuda.is_available() or "-".join(ids) in few

    return tiered(is_default, indirect=["attend"], attend=named(BACKENDS), **cases)


@pytest.fixture(params=BACKENDS, scope="module")
def attend(request: pytest.FixtureRequest) -> Iterator[Attend]:
    yield BACKENDS[request.param]()


def error(attend: Attend, case: Case, dtype: torch.dtype) -> float:
    """The worst row's distance from the definition, in parts of its length."""
    out, expected = attended(attend, case, dtype).double(), defined(case, dtype)
    return float(((out - expected).norm(dim=-1) / expected.norm(dim=-1)).max())


@every_backend(*map(str, FEW), case=named(CASES))
def test_a_layer_attends_as_the_definition_says(attend: Attend, case: Case) -> None:
    assert error(attend, case, torch.float32) < ROUNDING[torch.float32]


@every_backend("32", "63", "257", case={str(case.prefix): case for case in BORDERS})
def test_no_key_is_lost_where_a_tile_or_a_span_ends(attend: Attend, case: Case) -> None:
    assert error(attend, case, torch.float16) < ROUNDING[torch.float16]


@every_backend(
    "torch.float32-64", "torch.float16-80", "torch.bfloat16-256",
    dtype=named(ROUNDING), case={str(case.size): case for case in SIZES},
)  # fmt: skip
def test_heads_of_any_size_in_any_type(attend: Attend, case: Case, dtype: torch.dtype) -> None:
    assert error(attend, case, dtype) < ROUNDING[dtype]


@every_backend("torch.float16", dtype=named([torch.float32, torch.float16]))
def test_a_long_prefix(attend: Attend, dtype: torch.dtype) -> None:
    assert error(attend, LONG, dtype) < ROUNDING[dtype]


@every_backend(
    *(f"torch.float16-{case}" for case in IN_HALF),
    dtype=named([torch.bfloat16, torch.float16]),
    case=named(IN_HALF),
)
def test_caps_sinks_and_windows_in_half_precision(attend: Attend, case: Case, dtype: torch.dtype) -> None:
    assert error(attend, case, dtype) < ROUNDING[dtype]


# The fixture is a function without state: every example may use the same one.
@examples(15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_any_tree_behind_any_prefix_attends_as_the_definition_says(
    attend: Attend, data: st.DataObject
) -> None:
    rows = data.draw(st.integers(0, 6))
    case = Case(
        prefix=data.draw(st.integers(0, 20) | st.integers(240, 300)),
        parents=tuple(data.draw(st.integers(0, row)) for row in range(rows)),
        heads=4,
        shared=data.draw(st.sampled_from([1, 2])),
        window=data.draw(st.integers(0, 12)),
        softcap=data.draw(st.sampled_from([None, 1.0])),
        has_sinks=data.draw(st.booleans()),
        seed=data.draw(st.integers(0, 100)),
    )
    assert error(attend, case, torch.float32) < ROUNDING[torch.float32]
