"""Searching the hub, and judging a model there before it is downloaded: by a config, or one of its GGUF files."""

import json
from pathlib import Path

import pytest

from app.errors import ModelBroken, ModelError, ModelNotFound
from app.models_registry.downloads.download_queue import Downloads, SavedDownloads
from app.models_registry.hub.hub import Hub
from app.models_registry.hub.hub_id import HubId
from app.models_registry.hub.search import inspect_model, search
from app.models_registry.installed_models import delete, freed_by, hub_name, installed
from app.models_registry.locate import locate
from app.values.model import Memory, SearchHit
from tests.gguf_models import split_gguf, write_gguf
from tests.models_registry.hub_server import COMMIT, FakeHub
from tests.models_registry.model_files import model_files, sharded_files, silent
from tests.models_registry.test_installed_models import CONFIG
from tests.support.waiting import until

pytestmark = pytest.mark.usefixtures("downloads_here")
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
        ({"model.safetensors": b"\xff" * 64}, "is not a safetensors file"),
        ({"model.safetensors": (10).to_bytes(8, "little") + b"not a json"}, "has a damaged header"),
        ({"model.safetensors": (2).to_bytes(8, "little") + b"[]"}, "is invalid"),
        ({"config.json": b"{}"}, "names no model_type"),
        ({"config.json": b'{"model_type": "llama"}'}, "does not contain the model's size"),
        ({"config.json": CONFIG.replace(b": 2,", b": 1000000000,", 1)}, "has an impossible value"),
    ],
)
def test_a_model_that_makes_no_sense_has_a_problem_in_words(
    server: FakeHub, hub: Hub, files: dict[str, bytes], words: str
) -> None:
    server.models["org/small"] = {**whole(), **files}
    (problem,) = inspect_model(hub, SMALL, PLENTY, "float32", 100).problems
    assert words in problem


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


REPO = HubId("org/tiny-GGUF")
Q4, Q8 = "tiny-Q4_K_M.gguf", "tiny-Q8_0.gguf"


@pytest.fixture(scope="session")
def content(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A tiny model as a GGUF file."""
    return write_gguf(tmp_path_factory.mktemp("gguf") / "tiny.gguf").read_bytes()


@pytest.fixture
def files(server: FakeHub, content: bytes) -> dict[str, bytes]:
    """The repository's files on the hub; a test may change them."""
    server.models[REPO.repo] = {
        "README.md": b"x", Q4: content, Q8: content + bytes(64), "mmproj-tiny-f16.gguf": b"x",
        "half-00001-of-00002.gguf": b"x",
    }  # fmt: skip
    return server.models[REPO.repo]


@pytest.mark.usefixtures("files")
def test_its_files_are_listed_by_size_with_what_they_take(hub: Hub) -> None:
    found = inspect_model(hub, REPO, PLENTY, "float32", 100)
    assert ([file.name for file in found.ggufs], found.files, found.problems) == ([Q4, Q8], (), ())
    assert found.fit and found.fit.verdict == "fits" and found.context == 256
    assert found.fit.need.weights == 4 * found.parameters


@pytest.mark.usefixtures("files")
def test_one_file_is_inspected_by_its_name_or_its_page(hub: Hub) -> None:
    found = inspect_model(hub, HubId(REPO.repo, "main", Q4), PLENTY, "float32", 100)
    assert ([file.name for file in found.files], found.ggufs) == ([Q4], ()) and found.fit


def test_a_repository_with_safetensors_offers_no_files(server: FakeHub, hub: Hub, content: bytes) -> None:
    server.models["org/small"]["tiny-Q8_0.gguf"] = content
    assert inspect_model(hub, HubId("org/small"), PLENTY, "float32", 100).ggufs == ()


@pytest.mark.usefixtures("files")
def test_without_a_file_it_says_which_to_choose(hub: Hub) -> None:
    with pytest.raises(ModelBroken, match=f"has only GGUF files: choose one of them, such as {REPO}:{Q4}"):
        hub.plan(REPO)
    with pytest.raises(ModelNotFound, match=r"has no file other\.gguf: choose one from the model's page"):
        hub.plan(HubId(REPO.repo, "", "other.gguf"))
    with pytest.raises(ModelNotFound, match=r"has no file half-00002-of-00002\.gguf: choose one"):
        hub.plan(HubId(REPO.repo, "", "half-00001-of-00002.gguf"))


@pytest.mark.parametrize(
    ("broken", "problem"),
    [
        (b"GGUF" + bytes(100), "is damaged on Hugging Face: its version is 0"),
        (b"no model at all", "is damaged on Hugging Face: it is not a GGUF file"),
    ],
)
def test_a_damaged_file_is_a_problem_in_words(
    files: dict[str, bytes], hub: Hub, broken: bytes, problem: str
) -> None:
    files[Q4] = files[Q8] = broken
    assert problem in inspect_model(hub, REPO, PLENTY, "float32", 100).problems[0]


def test_another_architecture_is_a_problem_in_words(
    files: dict[str, bytes], hub: Hub, tmp_path: Path
) -> None:
    files[Q8] = write_gguf(tmp_path / "x.gguf", architecture="llamma9").read_bytes()
    assert "does not know in GGUF files" in inspect_model(hub, REPO, PLENTY, "float32", 1).problems[0]


@pytest.mark.usefixtures("files")
def test_the_chosen_file_alone_is_downloaded_listed_found_and_deleted(
    server: FakeHub, hub: Hub, tmp_path: Path
) -> None:
    wanted = HubId(REPO.repo, "", Q4)
    downloads = Downloads(hub, SavedDownloads(tmp_path / "downloads"))
    downloads.start(str(wanted))
    until(lambda: downloads.snapshot()[0].state in ("done", "failed"))
    (download,) = downloads.snapshot()
    assert (download.name, download.state, download.note) == (f"{REPO}:{Q4}", "done", "")
    assert not any(Q8 in line for line in server.asked)
    (model,) = installed(hub)[1:]
    assert (model.name, model.path, model.origin, model.state) == (
        "org/tiny-GGUF/tiny-Q4_K_M", download.folder, "hub-gguf", "ready",
    )  # fmt: skip
    asked = len(server.asked)
    assert locate(str(wanted), silent, hub).path == model.path and len(server.asked) == asked
    assert freed_by(model) == model.size
    assert delete(model) == model.size + 40, "the name of the commit goes, too"
    assert installed(hub)[1:] == [] and not model.path.exists()


@pytest.mark.usefixtures("files")
def test_deleting_one_file_leaves_the_other(hub: Hub) -> None:
    for file in (Q4, Q8):
        locate(f"{REPO}:{file}", silent, hub)
    one, other = installed(hub)[1:]
    assert delete(one) == one.size
    assert installed(hub)[1:] == [other] and other.path.stat().st_size == other.size


BIG = "Q8_0/big-00001-of-00003.gguf"


@pytest.fixture
def parts(server: FakeHub, tmp_path: Path) -> dict[str, bytes]:
    """The files of a repository with a model in three files."""
    whole = write_gguf(tmp_path / "tiny.gguf")
    paths = split_gguf(whole, tmp_path, 3)
    server.models[REPO.repo] = {f"Q8_0/{path.name}": path.read_bytes() for path in paths}
    return server.models[REPO.repo]


def test_a_model_in_several_files_is_one_model_with_their_sizes(hub: Hub, parts: dict[str, bytes]) -> None:
    size = sum(map(len, parts.values()))
    found = inspect_model(hub, REPO, PLENTY, "float32", 100)
    assert [(file.name, file.size) for file in found.ggufs] == [(BIG, size)] and found.problems == ()
    with pytest.raises(ModelBroken, match=f"choose one of them, such as {REPO}:{BIG}"):
        hub.plan(REPO)
    chosen = inspect_model(hub, HubId(REPO.repo, "", BIG), PLENTY, "float32", 100)
    assert chosen.size == size and len(chosen.files) == 3
    assert chosen.parameters == found.parameters and found.fit
    assert found.fit.need.weights == 4 * found.parameters, "the tensors of all files are counted"


def test_a_missing_part_is_fetched_and_the_others_are_not(
    server: FakeHub, hub: Hub, parts: dict[str, bytes]
) -> None:
    wanted = f"{REPO}:{BIG}"
    path = locate(wanted, silent, hub).path
    (model,) = installed(hub)[1:]
    assert (model.path, model.state, model.size) == (path, "ready", sum(map(len, parts.values())))
    lost = path.with_name("big-00002-of-00003.gguf")
    lost.resolve().unlink()
    (model,) = installed(hub)[1:]
    assert model.state == "incomplete" and hub_name(model) == wanted
    server.asked.clear()
    assert locate(hub_name(model), silent, hub).path == path
    fetched = {name for name in parts if any("resolve" in line and name in line for line in server.asked)}
    assert fetched == {f"Q8_0/{lost.name}"}
    assert freed_by(installed(hub)[1]) == sum(map(len, parts.values()))
    assert delete(installed(hub)[1]) and installed(hub)[1:] == []


def test_models_in_either_format_are_found_once_each(server: FakeHub, hub: Hub) -> None:
    server.models |= {"org/tiny": {}, "org/tiny-GGUF": {}}
    assert [hit.repo for hit in search(hub, "tiny")] == ["org/tiny-GGUF", "org/tiny"]
    assert len(server.asked) == 2
