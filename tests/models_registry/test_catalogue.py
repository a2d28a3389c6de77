"""The catalogue that ships with the app holds to its form, and its numbers to each other."""

from itertools import pairwise
from pathlib import Path

import pytest

from app.errors import ModelBroken
from app.models_registry import find, grouped, parse_hub_id, read_catalogue
from app.models_registry.catalogue import CatalogueModel, wng
from app.values.messages import PRESETS
from app.values.model import Memory

CATALOGUE = read_catalogue()
GIB = 1 << 30


def each(entries: list[CatalogueModel]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("one", entries, ids=lambda one: one.entry.repo)


def test_there_is_something_for_everybody() -> None:
    large_makers = {"Qwen3", "Llama 3", "Llama 2", "Code Llama", "Gemma 3", "Phi 4", "Mistral", "Granite"}
    assert large_makers | {"SmolLM2", "SmolLM3", "OLMo 2", "DeepSeek-Coder"} <= {
        one.entry.family for one in CATALOGUE
    }
    assert {one.entry.use for one in CATALOGUE} == {"chat", "code", "reasoning"}
    parameters = [one.entry.parameters for one in CATALOGUE]
    assert parameters == sorted(parameters) and parameters[0] < 0.2e9 and 32e9 < parameters[-1] < 35e9
    assert len(CATALOGUE) >= 20 and len({one.entry.repo for one in CATALOGUE}) == len(CATALOGUE)


def test_first_models_chat_need_no_account_and_are_there_for_small_and_large_machines() -> None:
    first = [one.entry for one in CATALOGUE if one.entry.is_first]
    assert all(entry.use == "chat" and not entry.is_gated for entry in first)
    sizes = [entry.size for entry in first]
    assert sizes[0] < 0.3e9 and sizes[-1] > 16e9
    assert all(larger < 5 * smaller for smaller, larger in pairwise(sizes))


@each(CATALOGUE)
def test_an_entry_agrees_with_itself(one: CatalogueModel) -> None:
    entry, shape = one.entry, one.estimator.shape
    hub_id = parse_hub_id(entry.repo)
    assert hub_id is not None and hub_id.revision == ""
    # Weights are stored in 16 bits; two small ones store their tied head, too.
    head = 2 * shape.embedding if shape.is_tied else 0
    assert 1.99 * entry.parameters <= entry.size <= 2.01 * entry.parameters + head
    assert entry.licence == entry.licence.lower() and entry.good_for.endswith(".")
    # Between its attention alone and a generous feed-forward part.
    layer = shape.hidden**2
    rest = entry.parameters - shape.embedding * (1 if shape.is_tied else 2)
    assert 4 * layer < rest / shape.layers < 24 * layer
    assert shape.hidden % 64 == 0 and shape.head_size in (64, 128, 256)


@pytest.mark.parametrize(("parameters", "preset"), [(1e8, "7b"), (8e9, "7b"), (13e9, "13b"), (33e9, "33b")])
def test_w_n_and_g_follow_the_size(parameters: float, preset: str) -> None:
    assert wng(int(parameters)) == {name: sizes for name, sizes in PRESETS.items()}[preset]  # type: ignore[index]


def test_words_find_names_families_and_uses() -> None:
    assert {one.entry.family for one in find("qwen", CATALOGUE)} == {"Qwen3"}
    assert all(one.entry.use == "code" for one in find("deepseek code", CATALOGUE))
    assert find("no such model", CATALOGUE) == []


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
