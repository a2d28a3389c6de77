"""The library as the window uses it, against the real client and a small hub."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from app.errors import ModelError, ModelNotFound
from app.models_registry.files.config import parse_config
from app.models_registry.hub.hub import Hub
from app.models_registry.model_library import MOST_LISTED, ModelLibrary
from app.settings import ModelSettings
from app.values.model import Download, InstalledModel, RowPrice
from tests.models_registry.hub_server import FakeHub
from tests.models_registry.model_files import model_files, write
from tests.models_registry.test_installed_models import CONFIG
from tests.support.waiting import until

FILES = {**model_files(500_000), "config.json": CONFIG}
ONLINE = ModelSettings()


@pytest.fixture
def library(server: FakeHub, hub: Hub, tmp_path: Path) -> ModelLibrary:
    server.models["org/small"] = FILES
    return ModelLibrary(tmp_path / "data", ONLINE, hub)


def state(library: ModelLibrary) -> str:
    return " ".join(download.state for download in library.downloads.snapshot())


def others(library: ModelLibrary) -> list[InstalledModel]:
    return [model for model in library.installed() if model.origin != "demo"]


def test_a_model_is_found_judged_fetched_and_deleted(library: ModelLibrary, server: FakeHub) -> None:
    assert [hit.repo for hit in library.search("small")] == ["org/small"]
    name = library.hub_id(f"{server.endpoint}/org/small")
    memory = library.memory()
    looked = library.inspect_model(name, memory, "bfloat16", 64)
    assert looked.fit is not None and looked.fit.peak >= looked.fit.need.total
    assert library.hub.page(name) == f"{server.endpoint}/org/small"
    library.downloads.start(name)
    until(lambda: state(library) == "done")
    (model,) = others(library)
    fit = library.judge(model, memory, "bfloat16", 64)
    assert (model.state, fit.need.weights) == ("ready", looked.fit.need.weights)
    library.downloads.dismiss(name)
    assert 0 < library.freed_by(model) <= library.delete(model)
    assert (others(library), library.downloads.snapshot()) == ([], ())


def test_offline_ends_all_traffic_and_makes_no_request(library: ModelLibrary, server: FakeHub) -> None:
    server.pace = 500_000
    library.downloads.start("org/small")
    until(lambda: any(download.done for download in library.downloads.snapshot()))
    library.use(replace(ONLINE, is_offline=True))
    asked = len(server.asked)
    assert (state(library), library.hub.is_offline) == ("paused", True)
    for action in (library.search, library.downloads.resume, library.downloads.start, library.hub.log_in):
        with pytest.raises(ModelError, match="set to offline"):
            action("org/small")
    assert len(server.asked) == asked
    library.use(ONLINE)
    assert library.search("small")


def test_folders_of_the_person_are_listed_where_they_lie(library: ModelLibrary, tmp_path: Path) -> None:
    write(tmp_path / "mine" / "a", FILES)
    library.use(ModelSettings(folders=(str(tmp_path / "mine"),)))
    (model,) = others(library)
    assert (model.name, model.origin, library.freed_by(model)) == ("a", "folder", 0)


def test_a_token_that_the_hub_does_not_know_is_not_kept(
    library: ModelLibrary, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(ModelError):
        library.hub.log_in("hf_bad")
    assert not library.hub.is_logged_in()
    with caplog.at_level("WARNING"):
        library.hub.log_out()
    assert caplog.messages == []


def test_a_token_of_the_environment_is_named_when_the_saved_ones_are_deleted(
    library: ModelLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_of_the_environment")
    with pytest.raises(ModelError, match=r"^The saved tokens are deleted, .*unset HF_TOKEN"):
        library.hub.log_out()


def test_the_catalogue_is_judged_for_the_memory(library: ModelLibrary) -> None:
    memory = replace(library.memory(), free=4 << 30, total=8 << 30)
    verdicts = {one.fit.verdict for one in library.recommended(memory, "bfloat16", 4096)}
    assert verdicts == {"fits", "fits with int4", "too big"}


def test_what_is_no_hub_id_is_a_sentence(library: ModelLibrary) -> None:
    assert library.hub_id("two words") == ""
    with pytest.raises(ModelNotFound, match="two words is not a model id"):
        library.downloads.start("two words")
    assert library.downloads.snapshot() == tuple[Download, ...]()


def test_the_price_of_a_row_is_known_of_models_that_are_here_alone(
    library: ModelLibrary, server: FakeHub, tmp_path: Path
) -> None:
    shape = parse_config(CONFIG, "org/small")
    whole = RowPrice(logits=shape.vocabulary * (4 + 4), cache=shape.cached * 4)
    half = RowPrice(logits=shape.vocabulary * (2 + 4), cache=shape.cached * 2)
    folder = write(tmp_path / "mine", FILES)
    assert library.row_price("org/small", "float32") is None
    assert library.row_price("no model at all", "float32") is None
    assert server.asked == []
    assert library.row_price(str(folder), "float32") == whole
    assert library.row_price(str(folder), "bfloat16") == half
    library.downloads.start("org/small")
    until(lambda: state(library) == "done")
    assert library.row_price("org/small", "float32") == whole
    demo = library.row_price("demo", "float32")
    assert demo is not None and demo.logits == 4096 * 8
    library.downloads.close()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    for name in ("Music", "models", ".hidden", "Qwen"):
        (tmp_path / name).mkdir()
    (tmp_path / "Qwen" / "config.json").write_text("{}")
    for name in ("b.gguf", "mmproj-b.gguf", "c-00001-of-00002.gguf", "c-00002-of-00002.gguf", "notes.txt"):
        (tmp_path / name).touch()
    return tmp_path


def test_models_come_first_then_folders_and_nothing_else(home: Path) -> None:
    found = ModelLibrary.list_folder(home)
    assert [one.name for one in found.models] == ["Qwen", "b.gguf", "c-00001-of-00002.gguf"]
    assert [one.name for one in found.folders] == ["models", "Music"]
    assert (found.folder, found.parent) == (home, home.parent)
    assert ModelLibrary.list_folder(Path(home.anchor)).parent is None


def test_a_folder_of_thousands_is_cut(tmp_path: Path) -> None:
    for number in range(MOST_LISTED + 5):
        (tmp_path / str(number)).mkdir()
    assert len(ModelLibrary.list_folder(tmp_path).folders) == MOST_LISTED


def test_a_folder_that_is_gone_is_told(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFound, match=r"can't be opened .*Choose another folder"):
        ModelLibrary.list_folder(tmp_path / "none")


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may look into every folder")
def test_a_folder_that_must_not_be_looked_into_is_listed(home: Path) -> None:
    (home / "models").chmod(0)
    assert home / "models" in ModelLibrary.list_folder(home).folders
    with pytest.raises(ModelNotFound, match="Permission denied"):
        ModelLibrary.list_folder(home / "models")
