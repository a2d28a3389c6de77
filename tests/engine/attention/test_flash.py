"""What goes to flash-attn, and what to another backend. That the parts make a whole is in test_conformance.py."""

import ast
import inspect
import sys
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from app.engine.attention import BlockView, sdpa
from app.engine.attention.flash import FlashAttention, flash_over_cache
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
    assert view.lengths is view.lengths


NAME = "flash_attn_with_kvcache"
PARAMETERS = (
    "q", "k_cache", "v_cache", "k", "v", "rotary_cos", "rotary_sin", "cache_seqlens", "cache_batch_idx",
    "cache_leftpad", "block_table", "softmax_scale", "causal", "window_size", "softcap", "rotary_interleaved",
    "alibi_slopes", "num_splits", "return_softmax_lse",
)  # fmt: skip
"""The parameters of the package's function in its version 2.8, in its order."""


def test_the_package_is_called_by_its_own_parameters(monkeypatch: pytest.MonkeyPatch) -> None:
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    signature = inspect.Signature([inspect.Parameter(name, kind, default=None) for name in PARAMETERS])

    def package(*given: Any, **named: Any) -> tuple[Tensor, Tensor]:
        asked = signature.bind(*given, **named).arguments
        assert asked["return_softmax_lse"] is True and asked["num_splits"] > 0
        assert asked.keys().isdisjoint({"k", "v", "causal", "window_size"}), "nothing is written, or masked"
        states = (asked["q"], asked["k_cache"], asked["v_cache"], asked["cache_seqlens"])
        return over_cache(*states, asked["softmax_scale"], asked["softcap"])

    monkeypatch.setitem(sys.modules, "flash_attn", SimpleNamespace(**{NAME: package}))  # type: ignore[arg-type]
    case = Case(softcap=2.0)
    out = attended(FlashAttention(flash_over_cache(), refused), case)
    torch.testing.assert_close(out.double(), defined(case), atol=1e-5, rtol=1e-5)


@pytest.mark.skipif(find_spec("flash_attn") is None, reason="flash-attn is not installed")
def test_the_installed_package_has_these_parameters() -> None:
    spec = find_spec("flash_attn")
    assert spec and spec.origin
    source = Path(spec.origin).with_name("flash_attn_interface").with_suffix(".py")
    functions = (
        node for node in ast.parse(source.read_text("utf-8")).body if isinstance(node, ast.FunctionDef)
    )
    found = next(node for node in functions if node.name == NAME)
    assert tuple(one.arg for one in found.args.args) == PARAMETERS
