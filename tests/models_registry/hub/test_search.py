"""Searching the hub, and judging a model there before anything of it is downloaded."""

import json

import pytest

from app.errors import ModelError, ModelNotFound
from app.models_registry import Hub, HubId, inspect_model, search
from app.values.model import Memory, SearchHit
from tests.models_registry.hub_server import COMMIT, FakeHub
from tests.models_registry.model_files import model_files, sharded_files
from tests.models_registry.test_installed_models import CONFIG

PLENTY = Memory("cpu", 8 << 30, 16 << 30)
SMALL = HubId("org/small")


def whole() -> dict[str, bytes]:
    return {**model_files(), "config.json": CONFIG}


def test_the_hub_is_searched_by_name_the_most_downloaded_first(server: FakeHub, hub: Hub) -> None:
    server.models |= {"org/small-chat": {}, "other/big": {}}
    server.gated.add("org/small")
    assert search(hub, "SMALL") == [
        SearchHit("org/small-chat", downloads=140, likes=3),
        SearchHit("org/small", downloads=90, likes=3, is_gated=True),
    ]
    assert search(hub, "small", limit=1) == [SearchHit("org/small-chat", downloads=140, likes=3)]


def test_a_search_without_a_hub_is_a_sentence(hub: Hub) -> None:
    nowhere = Hub("http://127.0.0.1:9", hub.cache)
    with pytest.raises(ModelError, match="Can't reach Hugging Face"):
        search(nowhere, "small")


def test_an_offline_hub_is_not_searched(server: FakeHub, hub: Hub) -> None:
    with pytest.raises(ModelError, match="Foresight is set to offline"):
        search(Hub(hub.endpoint, hub.cache, is_offline=True), "small")
    assert server.asked == []


def test_a_model_is_judged_from_a_few_bytes(server: FakeHub, hub: Hub) -> None:
    server.models["org/small"] = files = {**model_files(2_000_000), "config.json": CONFIG}
    found = inspect_model(hub, SMALL, PLENTY, "float32", 100)
    assert (found.commit, found.size, found.parameters) == (COMMIT, sum(map(len, files.values())), 2_000_000)
    assert (found.licence, found.is_gated, found.problems) == ("apache-2.0", False, ())
    assert found.fit is not None and found.fit.verdict == "fits"
    assert sum(sent.count for sent in server.sent) < 200_000
    assert not hub.root.exists()


def test_shards_are_added_up(server: FakeHub, hub: Hub) -> None:
    server.models["org/small"] = {**sharded_files(), "config.json": CONFIG}
    assert inspect_model(hub, SMALL, PLENTY, "float32", 100).parameters == 64 + 65


def test_a_hub_that_ignores_ranges_does_not_fill_the_memory(server: FakeHub, hub: Hub) -> None:
    server.models["org/small"] = {**model_files(2_000_000), "config.json": CONFIG}
    server.ignores_ranges = True
    assert inspect_model(hub, SMALL, PLENTY, "float32", 100).parameters == 2_000_000


def test_a_long_header_is_read_to_its_end(server: FakeHub, hub: Hub) -> None:
    header = {f"tensor.{n}": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]} for n in range(5_000)}
    text = json.dumps(header).encode()
    weights = len(text).to_bytes(8, "little") + text + bytes(4)
    server.models["org/small"] = {**whole(), "model.safetensors": weights}
    assert inspect_model(hub, SMALL, PLENTY, "float32", 100).parameters == 5_000


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"model.safetensors": b"\xff" * 64}, "is no safetensors file"),
        ({"model.safetensors": (10).to_bytes(8, "little") + b"not a json"}, "has a damaged header"),
        ({"model.safetensors": (2).to_bytes(8, "little") + b"[]"}, "is invalid"),
        ({"config.json": b"{}"}, "does not tell the model's size"),
        ({"config.json": CONFIG.replace(b": 2,", b": 1000000000,", 1)}, "cannot be true"),
    ],
)
def test_a_model_that_makes_no_sense_has_a_problem_in_words(
    server: FakeHub, hub: Hub, files: dict[str, bytes], words: str
) -> None:
    server.models["org/small"] = {**whole(), **files}
    (problem,) = inspect_model(hub, SMALL, PLENTY, "float32", 100).problems
    assert words in problem


def test_pickled_weights_are_a_problem_in_words(server: FakeHub, hub: Hub) -> None:
    server.models["org/small"] = {"config.json": CONFIG, "tokenizer.json": b"{}", "pytorch_model.bin": b"x"}
    (problem,) = inspect_model(hub, SMALL, PLENTY, "float32", 100).problems
    assert "only pickled weights" in problem


def test_code_of_a_models_own_is_a_problem_only_where_it_is_needed(server: FakeHub, hub: Hub) -> None:
    code = CONFIG.replace(b"{", b'{"auto_map": {"AutoModel": "modeling.Y"}, ', 1)
    server.models["org/small"] = {**whole(), "config.json": code}
    assert inspect_model(hub, SMALL, PLENTY, "float32", 100).problems == ()
    server.models["org/small"]["config.json"] = code.replace(b"llama", b"unheard_of")
    (problem,) = inspect_model(hub, SMALL, PLENTY, "float32", 100).problems
    assert "Python code of its own, which Foresight does not run" in problem


def test_a_gated_model_is_described_although_its_files_are_closed(server: FakeHub, hub: Hub) -> None:
    server.models["org/small"] = whole()
    server.gated.add("org/small")
    found = inspect_model(hub, SMALL, PLENTY, "float32", 100)
    assert found.is_gated and found.size > 0 and "accept its terms" in found.problems[0]


def test_an_unknown_model_is_a_sentence(hub: Hub) -> None:
    with pytest.raises(ModelNotFound, match="check the spelling"):
        inspect_model(hub, HubId("org/none"), PLENTY, "float32", 100)
