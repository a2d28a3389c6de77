"""What goes to flash-attn, and what to another backend. That the parts make a whole is in test_conformance.py."""

import pytest
import torch
from torch import Tensor

from app.engine.attention import BlockView, sdpa
from app.engine.attention.flash import FlashAttention
from tests.engine.attention.backends import over_cache
from tests.engine.attention.cases import Case, attended, defined, inputs


class Counted:
    """flash-attn's function as it promises to be, and how often it was called with which lengths."""

    def __init__(self) -> None:
        self.lengths: list[int] = []

    def __call__(
        self, query: Tensor, keys: Tensor, values: Tensor, lengths: Tensor, scale: float, softcap: float
    ) -> tuple[Tensor, Tensor]:
        assert lengths.dtype == torch.int32
        assert query.shape[1] < keys.shape[1]
        self.lengths.append(int(lengths))
        return over_cache(query, keys, values, lengths, scale, softcap)


def refused(*_asked: object) -> Tensor:
    raise AssertionError("the other backend was not to be asked")


@pytest.mark.parametrize("case", [Case(), Case(parents=(), has_sinks=True), Case(softcap=2.0)], ids=repr)
def test_the_package_is_given_the_prefix(case: Case) -> None:
    package = Counted()
    attended(FlashAttention(package, refused), case, torch.float16)
    assert package.lengths == [case.prefix]


@pytest.mark.parametrize("case", [Case(prefix=0), Case(window=3), Case(window=100)], ids=repr)
def test_blocks_without_prefix_and_sliding_layers_go_elsewhere(case: Case) -> None:
    package = Counted()
    out = attended(FlashAttention(package, sdpa.attend), case)
    assert package.lengths == []
    torch.testing.assert_close(out.double(), defined(case), atol=1e-5, rtol=1e-5)


def test_all_layers_of_a_pass_share_the_length() -> None:
    case = Case()
    given, view = inputs(case), BlockView(case.block, case.prefix, refused)
    flash = FlashAttention(Counted(), refused)
    for _ in range(2):
        flash(given.query, given.cache, view, given.scoring)
    assert view.lengths() is view.lengths()
