"""The catalogue that ships with the app holds to its form, and its numbers to each other."""

import tomllib
from dataclasses import replace
from datetime import date
from itertools import pairwise
from pathlib import Path
from typing import get_args

import pytest

from app.errors import ModelBroken
from app.models_registry.catalogue import FILE, CatalogueModel, grouped, read_catalogue, wng
from app.models_registry.hub.hub_id import parse_hub_id
from app.settings import assets_dir
from app.values.messages import PRESETS
from app.values.model import Kind, Memory, Use

CATALOGUE = read_catalogue()
UNREAD = {
    model["repo"]: model.get("unread", 0)
    for model in tomllib.loads((assets_dir() / FILE).read_text(encoding="utf-8"))["model"]
}
GIB = 1 << 30


def each(entries: list[CatalogueModel]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("one", entries, ids=lambda one: one.entry.repo)


def test_there_is_something_for_everybody() -> None:
    of_2026 = {
        "Qwen3", "Qwen3.5", "Qwen3.6", "Gemma 4", "Granite 4.1", "Ministral 3", "gpt-oss", "LFM2.5", "SmolLM3",
    }  # fmt: skip
    older = {"Llama 3", "Llama 2", "Code Llama", "Phi 4", "Mistral", "SmolLM2", "OLMo 2", "DeepSeek-Coder"}
    assert of_2026 | older <= {one.entry.family for one in CATALOGUE}
    assert {one.entry.use for one in CATALOGUE} == set(get_args(Use))
    assert {one.entry.kind for one in CATALOGUE} == set(get_args(Kind))
    parameters = [one.entry.parameters for one in CATALOGUE]
    assert parameters == sorted(parameters) and parameters[0] < 0.2e9 and 32e9 < parameters[-1] < 36e9
    assert len(CATALOGUE) >= 20 and len({one.entry.repo for one in CATALOGUE}) == len(CATALOGUE)


def test_first_models_chat_need_no_account_and_are_there_for_small_and_large_machines() -> None:
    first = [one.entry for one in CATALOGUE if one.entry.is_first]
    assert all(entry.use == "chat" and entry.kind == "dense" and not entry.is_gated for entry in first)
    sizes = [entry.size for entry in first]
    assert sizes[0] < 0.3e9 and sizes[-1] > 16e9
    assert all(larger < 5 * smaller for smaller, larger in pairwise(sizes))


@each(CATALOGUE)
def test_an_entry_agrees_with_itself(one: CatalogueModel) -> None:
    entry, shape = one.entry, one.estimator.shape
    hub_id = parse_hub_id(entry.repo)
    assert hub_id is not None and hub_id.revision == ""
    # Weights are stored in 16 bits, but for gpt-oss; some store their tied head, too, or parts that are not loaded.
    head = 2 * shape.embedding if shape.is_tied else 0
    if entry.family != "gpt-oss":
        assert (
            1.99 * entry.parameters <= entry.size - 2 * UNREAD[entry.repo] <= 2.01 * entry.parameters + head
        )
    assert entry.source.startswith("https://") and date.fromisoformat(entry.checked) >= date(2026, 11, 21)
    assert entry.licence == entry.licence.lower() and entry.good_for.endswith(".")
    # Between its attention alone and a generous feed-forward part; some layers of others keep no keys and values.
    layer = shape.hidden**2
    rest = entry.parameters - shape.embedding * (1 if shape.is_tied else 2)
    if entry.kind == "dense" and entry.family != "Gemma 4":
        assert 3 * layer < rest / shape.layers < 32 * layer
    assert shape.hidden % 64 == 0 and shape.head_size in (64, 128, 256, 512)


@pytest.mark.parametrize(("parameters", "preset"), [(1e8, "7b"), (8e9, "7b"), (13e9, "13b"), (33e9, "33b")])
def test_w_n_and_g_follow_the_size(parameters: float, preset: str) -> None:
    assert wng(int(parameters)) == {name: sizes for name, sizes in PRESETS.items()}[preset]  # type: ignore[index]


@pytest.mark.parametrize("free", [1, 4, 24, 80, 200])
def test_groups_hold_every_model_once_those_that_fit_first(free: int) -> None:
    groups = list(grouped(CATALOGUE, Memory("cuda:0", free * GIB, 200 * GIB), "bfloat16", 4096))
    listed = [entry.repo for group in groups for entry in group.entries]
    assert sorted(listed) == sorted(one.entry.repo for one in CATALOGUE)
    order = ["fits", "fits with int4", "too big"]
    assert [order.index(group.verdict) for group in groups] == sorted(order.index(g.verdict) for g in groups)


def test_more_memory_never_fits_less() -> None:
    def fitting(free: int) -> set[str]:
        groups = grouped(CATALOGUE, Memory("cuda:0", free * GIB, 200 * GIB), "bfloat16", 4096)
        return {entry.repo for group in groups if group.verdict == "fits" for entry in group.entries}

    assert fitting(1) < fitting(8) < fitting(24) < fitting(80)
    assert len(fitting(80)) == len(CATALOGUE)


@pytest.mark.parametrize("text", ["", "[[model]]\n", "[[model]]\nrepo = 'x'\n", "\xff", "model = 3"])
def test_a_broken_catalogue_is_a_sentence(tmp_path: Path, text: str) -> None:
    (tmp_path / "catalogue.toml").write_text(text, encoding="latin-1")
    with pytest.raises(ModelBroken, match="install the app again"):
        read_catalogue(tmp_path / "catalogue.toml")


def test_a_model_is_judged_in_the_form_that_is_fastest_here() -> None:
    small = next(one for one in CATALOGUE if one.entry.repo == "Qwen/Qwen3-1.7B")
    roomy, tight = (Memory("cpu", free * GIB, 64 * GIB) for free in (32, 6))
    fast, slow = (replace(small, estimator=replace(small.estimator, is_fast=one)) for one in (True, False))
    found = fast.fit(roomy, "bfloat16", 4096, is_automatic=True)
    assert (found.quantisation, found.precision) == ("int8", "int8")
    assert found.need.weights < 0.6 * fast.fit(roomy, "bfloat16", 4096).need.weights
    assert fast.fit(tight, "bfloat16", 4096, is_automatic=True).quantisation == "int8"
    card = fast.fit(replace(roomy, device="cuda:0"), "bfloat16", 4096, is_automatic=True)
    others = [slow.fit(roomy, "bfloat16", 4096, is_automatic=True), card]
    assert [(one.quantisation, one.precision) for one in others] == [("none", "bfloat16")] * 2


def test_mixtures_are_not_quantised_automatically() -> None:
    memory = Memory("cpu", 900 * GIB, 900 * GIB)
    for one in CATALOGUE:
        fast = replace(one, estimator=replace(one.estimator, is_fast=True))
        judged = fast.fit(memory, "bfloat16", 4096, is_automatic=True)
        assert (judged.quantisation == "int8") == (one.entry.kind != "mixture"), one.entry.repo


def test_what_is_recommended_does_not_depend_on_what_is_free() -> None:
    memories = [Memory("cpu", free * GIB, 32 * GIB).usual for free in (1, 30)]
    first, second = (list(grouped(CATALOGUE, one, "bfloat16", 4096)) for one in memories)
    assert first == second
    fit = CATALOGUE[0].fit(memories[0], "bfloat16", 4096)
    assert "and there are 34 GB in this machine" in fit.sentence


def test_experts_are_not_quantised_in_the_estimate() -> None:
    mixture = next(one for one in CATALOGUE if one.entry.family == "gpt-oss")
    memory = Memory("cuda:0", 80 * GIB, 80 * GIB)
    dense, packed = (mixture.fit(memory, form, 4096).need.weights for form in ("bfloat16", "int4"))
    assert 0.9 * dense < packed < dense
