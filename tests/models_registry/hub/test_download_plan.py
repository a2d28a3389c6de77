"""What is fetched of a repository is what loading reads: of weights in several files, those of their index."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from app.errors import ModelBroken, ModelError
from app.models_registry.downloads.process import DownloadMessage, DownloadRequest
from app.models_registry.downloads.process_main import download
from app.models_registry.hub.download_plan import DownloadPlan
from app.models_registry.hub.hub import Hub
from app.models_registry.hub.hub_id import HubId
from app.models_registry.hub.search import inspect_model
from app.models_registry.installed_models import find_installed, installed, verify
from app.models_registry.locate import locate
from app.values.model import Memory
from tests.models_registry.hub_server import FakeHub
from tests.models_registry.model_files import model_files, safetensors, silent, write
from tests.models_registry.test_installed_models import CONFIG

INDEX, WHOLE = "model.safetensors.index.json", "model.safetensors"
pytestmark = pytest.mark.usefixtures("downloads_here")
SMALL = HubId("org/small")
PLENTY = Memory("cpu", 8 << 30, 16 << 30)
Files = dict[str, bytes]


def index(*names: object) -> bytes:
    return json.dumps({"weight_map": {f"tensor{number}": name for number, name in enumerate(names)}}).encode()


def sharded(*names: str) -> Files:
    """A model whose weights are in files of these names."""
    shards = {name: safetensors(64 + number) for number, name in enumerate(names)}
    files = {**model_files(), "config.json": CONFIG, INDEX: index(*names, *names), **shards}
    del files[WHOLE]
    return files


def without(*names: str, files: Mapping[str, bytes] | None = None, **more: bytes) -> Files:
    """A model without some files, and with others."""
    whole = {**(files or {**model_files(), "config.json": CONFIG}), **more}
    return {name: content for name, content in whole.items() if name not in names}


def total(files: Files) -> int:
    return sum(map(len, files.values()))


NAMES = {
    "usual": ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"),
    "after the ending": (
        "model.safetensors-00001-of-00002.safetensors",
        "model.safetensors-00002-of-00002.safetensors",
    ),
    "of another library": (
        "pytorch_model-00001-of-00002.safetensors",
        "pytorch_model-00002-of-00002.safetensors",
    ),
    "of their own": ("language.safetensors", "model-00001-of-00001.safetensors", "x.y.safetensors"),
    "one": ("weights.safetensors",),
}


@pytest.mark.parametrize("names", NAMES.values(), ids=NAMES)
def test_shards_come_by_the_names_of_their_index(server: FakeHub, hub: Hub, names: tuple[str, ...]) -> None:
    files = server.models["org/small"] = sharded(*names)
    beside = ("consolidated.safetensors", "model-00003-of-00002.safetensors", "model.fp16.safetensors")
    server.models["org/small"] = files | dict.fromkeys(beside, b"unwanted")
    found = inspect_model(hub, SMALL, PLENTY, "float32", 100)
    assert found.size == total(files) and found.parameters == sum(64 + n for n in range(len(names)))
    folder = locate("org/small", silent, hub).path
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == files
    (model,) = installed(hub)[1:]
    assert (model.state, model.problem, verify(model)) == ("ready", "", [])


def test_weights_in_one_file_are_read_before_an_index(server: FakeHub, hub: Hub) -> None:
    server.models["org/small"] = sharded("a.safetensors") | {WHOLE: safetensors()}
    folder = locate("org/small", silent, hub).path
    assert {path.name for path in folder.iterdir()} == {*model_files()}


HEAD = json.dumps({"speculators_model_type": "eagle3", "num_hidden_layers": 1}).encode()
REFUSED: dict[str, tuple[Files, str]] = {
    "a shard is not there": (without("b.safetensors", files=sharded("a.safetensors", "b.safetensors")), "names b"),
    "an index alone": (without("a.safetensors", files=sharded("a.safetensors")), "names a.safetensors, which"),
    "shards without an index": (without(INDEX, files=sharded(*NAMES["usual"])), "Its weights are in several files"),
    "no weights in the index": (sharded() | {INDEX: index()}, "lists no weight files of its folder"),
    "an index of nothing": (sharded() | {INDEX: b'{"weight_map": null}'}, "lists no weight files of its folder"),
    "an index of a list": (sharded() | {INDEX: b"[]"}, "lists no weight files of its folder"),
    "an index that is no JSON": (sharded() | {INDEX: b"{"}, "lists no weight files of its folder"),
    "an index of brackets": (sharded() | {INDEX: b"[" * 100_000}, "lists no weight files of its folder"),
    "an index of too many": (sharded() | {INDEX: index(*(f"{n}.safetensors" for n in range(2000)))}, "lists no"),
    **{
        f"an index of {name!r}": (
            sharded("a.safetensors") | {INDEX: index("a.safetensors", name), str(name): b"x"},
            "lists no weight files of its folder",
        )
        for name in (
            "sub/a.safetensors", "../a.safetensors", "/etc/a.safetensors", "..\\a.safetensors", "C:a.safetensors",
            "a\x00.safetensors", "..", "", "pytorch_model.bin", 5, None, ["a.safetensors"],
        )
    },
    "an index of a name with a space": (
        sharded("a b.safetensors"),
        "The hub's list of the files of org/small is invalid (a file must have a plain name, and",
    ),
    "pickles": (without(WHOLE, **{"pytorch_model.bin": b"x"}), "only pickled weights"),
    "pickles in parts": (without(WHOLE, **{"pytorch_model-1-of-2.bin": b"x"}), "only pickled weights"),
    "a variant": (without(WHOLE, **{"model.fp16.safetensors": b"x"}), "(model.fp16.safetensors)"),
    "weights in a form of their own": (without(WHOLE, **{"consolidated.safetensors": b"x"}), "Mistral's own"),
    "an adapter": ({"adapter_config.json": b"{}", "adapter_model.safetensors": b"x"}, "It is an adapter"),
    "an adapter with a config": (
        without(WHOLE, **{"adapter_config.json": b"{}", "adapter_model.safetensors": b"x"}), "It is an adapter",
    ),
    "a repository of no model": ({"README.md": b"hello"}, "is not a model: it has no config.json"),
    "no tokenizer": (without("tokenizer.json"), "has no tokenizer that can be read"),
    "half of a tokenizer": (without("tokenizer.json", **{"vocab.json": b"{}"}), "has no tokenizer"),
    "an old head": (without("tokenizer.json", WHOLE, **{"pytorch_model.bin": b"x"}), "only pickled weights"),
    "code of its own": (
        without(**{"config.json": b'{"model_type": "unheard_of", "auto_map": {"A": "x.Y"}}'}), "code of its own",
    ),
    "a config that cannot be": (without(**{"config.json": CONFIG.replace(b": 2,", b": 99999999,", 1)}), "value"),
    "a config that is none": (without(**{"config.json": b"<html>"}), "is not valid JSON"),
    "a config without end": (without(**{"config.json": b" " * 3_000_000}), "is too large"),
    "one part of a GGUF": ({"x-00001-of-00002.gguf": b"x"}, "is not a model"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_could_not_be_loaded_is_told_before_its_weights_come(
    server: FakeHub, hub: Hub, case: str
) -> None:
    server.models["org/small"], words = REFUSED[case]
    with pytest.raises(ModelError) as refused:
        locate("org/small", silent, hub)
    told = str(refused.value)
    assert words in told and told.endswith("."), told
    assert told in inspect_model(hub, SMALL, PLENTY, "float32", 100).problems
    assert not [line for line in server.asked if "resolve" in line and ".json" not in line], server.asked
    assert not hub.root.exists() or not list(hub.root.rglob("blobs/*"))


@pytest.mark.parametrize(
    "tokenizer",
    [{"vocab.json", "merges.txt"}, {"tokenizer.model"}, {"spiece.model"}, {"vocab.txt"}, {"tokenizer.json"}],
    ids=lambda names: "-".join(sorted(names)),
)
def test_any_tokenizer_comes_whole(server: FakeHub, hub: Hub, tokenizer: set[str]) -> None:
    server.models["org/small"] = without("tokenizer.json") | dict.fromkeys(tokenizer, b"{}")
    folder = locate("org/small", silent, hub).path
    assert tokenizer <= {path.name for path in folder.iterdir()}


def test_a_head_comes_without_a_tokenizer(server: FakeHub, hub: Hub) -> None:
    server.models["org/head"] = {"config.json": HEAD, WHOLE: safetensors()}
    assert {file.name for file in hub.plan(HubId("org/head")).files} == {"config.json", WHOLE}


def fetch(hub: Hub, plan: DownloadPlan | None = None) -> tuple[Path, list[DownloadMessage]]:
    """What the child process does, in this one."""
    said: list[DownloadMessage] = []
    return download(DownloadRequest(SMALL, plan, hub), said.append), said


def short_plan(hub: Hub) -> DownloadPlan:
    """A plan without the weights."""
    plan = hub.plan(SMALL)
    files = tuple(file for file in plan.files if not file.name.endswith(".safetensors"))
    return DownloadPlan(plan.repo, plan.revision, plan.commit, files)


def test_an_incomplete_model_is_told_and_completed_by_downloading_again(server: FakeHub, hub: Hub) -> None:
    files = server.models["org/small"] = sharded(*NAMES["after the ending"])
    with pytest.raises(ModelBroken, match="org/small lacks some of the files"):
        fetch(hub, short_plan(hub))
    assert [model.state for model in installed(hub)[1:]] == ["incomplete"]
    server.asked.clear()
    folder = locate("org/small", silent, hub).path
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == files
    assert server.gets("tokenizer.json") == server.gets("config.json") == [], "they are here"
    assert [model.state for model in installed(hub)[1:]] == ["ready"]


def test_of_two_revisions_the_complete_one_is_found_by_its_name(hub: Hub) -> None:
    snapshots = hub.root / "models--org--small" / "snapshots"
    write(snapshots / ("a" * 40), {"config.json": CONFIG})
    write(snapshots / ("b" * 40), {**model_files(), "config.json": CONFIG})
    assert find_installed("org/small", hub).revision == "b" * 40
    assert find_installed("org/small@aaa", hub).state == "incomplete"


def test_the_size_of_a_gated_model_in_shards_is_told(server: FakeHub, hub: Hub) -> None:
    server.models["org/small"] = sharded(*NAMES["usual"])
    server.gated.add("org/small")
    found = inspect_model(hub, SMALL, PLENTY, "float32", 100)
    assert found.size >= 4 * (64 + 65) and "accept its terms" in found.problems[0]


@pytest.mark.parametrize("name", [INDEX, "config.json"])
def test_a_small_file_that_came_damaged_is_not_believed(server: FakeHub, hub: Hub, name: str) -> None:
    server.models["org/small"] = sharded("a.safetensors")
    server.lies[name] = index("b.safetensors") if name == INDEX else CONFIG.replace(b"{", b"[", 1)
    with pytest.raises(ModelError, match=rf"The {name} of org/small arrived damaged"):
        hub.plan(SMALL)
