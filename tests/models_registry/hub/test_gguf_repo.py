"""A repository that has only GGUF files: they are listed by size, and one of them is downloaded and deleted."""

from pathlib import Path

import pytest

from app.errors import ModelBroken, ModelError, ModelNotFound
from app.models_registry import (
    Downloads,
    Hub,
    HubId,
    SavedDownloads,
    delete,
    freed_by,
    inspect_model,
    installed,
    locate,
    search,
)
from app.values.model import Memory
from tests.gguf_models import write_gguf
from tests.models_registry.downloads.test_downloads import wait_for
from tests.models_registry.hub_server import FakeHub
from tests.models_registry.model_files import silent

PLENTY = Memory("cpu", 8 << 30, 16 << 30)
REPO = HubId("org/tiny-GGUF")
SMALL, LARGE = "tiny-Q4_K_M.gguf", "tiny-Q8_0.gguf"


@pytest.fixture(scope="session")
def content(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A tiny model as a GGUF file."""
    return write_gguf(tmp_path_factory.mktemp("gguf") / "tiny.gguf").read_bytes()


@pytest.fixture
def files(server: FakeHub, content: bytes) -> dict[str, bytes]:
    """The repository's files on the hub; a test may change them."""
    server.models[REPO.repo] = {
        "README.md": b"x", SMALL: content, LARGE: content + bytes(64), "mmproj-tiny-f16.gguf": b"x",
        "big-Q8_0-00001-of-00002.gguf": b"x", "big-Q8_0-00002-of-00002.gguf": b"x",
    }  # fmt: skip
    return server.models[REPO.repo]


@pytest.mark.usefixtures("files")
def test_its_files_are_listed_by_size_with_what_they_take(hub: Hub) -> None:
    found = inspect_model(hub, REPO, PLENTY, "float32", 100)
    assert ([file.name for file in found.ggufs], found.files, found.problems) == ([SMALL, LARGE], (), ())
    assert found.fit and found.fit.verdict == "fits" and found.context == 256
    assert found.fit.need.weights == 4 * found.parameters


@pytest.mark.usefixtures("files")
def test_one_file_is_inspected_by_its_name_or_its_page(hub: Hub) -> None:
    found = inspect_model(hub, HubId(REPO.repo, "main", SMALL), PLENTY, "float32", 100)
    assert ([file.name for file in found.files], found.ggufs) == ([SMALL], ()) and found.fit


def test_a_repository_with_safetensors_offers_no_files(server: FakeHub, hub: Hub, content: bytes) -> None:
    server.models["org/small"]["tiny-Q8_0.gguf"] = content
    assert inspect_model(hub, HubId("org/small"), PLENTY, "float32", 100).ggufs == ()


@pytest.mark.usefixtures("files")
def test_without_a_file_it_says_which_to_choose(hub: Hub) -> None:
    with pytest.raises(ModelBroken, match=f"has only GGUF files: choose one of them, such as {REPO}:{SMALL}"):
        hub.plan(REPO)
    with pytest.raises(ModelNotFound, match=r"has no file other\.gguf: choose one from the model's page"):
        hub.plan(HubId(REPO.repo, "", "other.gguf"))
    with pytest.raises(ModelBroken, match=r"is one part of a model in several files\. transformers reads"):
        hub.plan(HubId(REPO.repo, "", "big-Q8_0-00001-of-00002.gguf"))


@pytest.mark.parametrize(
    ("broken", "problem"),
    [
        (b"GGUF" + bytes(100), "is damaged on Hugging Face: its version is 0"),
        (b"no model at all", "is damaged on Hugging Face: it is no GGUF file"),
    ],
)
def test_a_damaged_file_is_a_problem_in_words(
    files: dict[str, bytes], hub: Hub, broken: bytes, problem: str
) -> None:
    files[SMALL] = broken
    assert problem in inspect_model(hub, REPO, PLENTY, "float32", 100).problems[0]


def test_another_architecture_is_a_problem_in_words(
    files: dict[str, bytes], hub: Hub, tmp_path: Path
) -> None:
    files[SMALL] = write_gguf(tmp_path / "x.gguf", architecture="llamma9").read_bytes()
    assert (
        "which cannot be read from GGUF files" in inspect_model(hub, REPO, PLENTY, "float32", 1).problems[0]
    )


@pytest.mark.usefixtures("files")
def test_the_chosen_file_alone_is_downloaded_listed_found_and_deleted(
    server: FakeHub, hub: Hub, tmp_path: Path
) -> None:
    wanted = HubId(REPO.repo, "", SMALL)
    downloads = Downloads(hub, SavedDownloads(tmp_path / "downloads"))
    downloads.start(str(wanted))
    wait_for(lambda: downloads.snapshot()[0].state in ("done", "failed"))
    (download,) = downloads.snapshot()
    assert (download.name, download.state, download.note) == (f"{REPO}:{SMALL}", "done", "")
    assert not any(LARGE in line for line in server.asked)
    (model,) = installed(hub)[1:]
    assert (model.name, model.path, model.origin, model.state) == (
        "org/tiny-GGUF/tiny-Q4_K_M", download.folder, "hub-gguf", "ready",
    )  # fmt: skip
    asked = len(server.asked)
    assert locate(str(wanted), silent, hub).path == model.path and len(server.asked) == asked
    assert freed_by(model, hub) == model.size
    assert delete(model, hub) == model.size + 40, "the name of the commit goes, too"
    assert installed(hub)[1:] == [] and not model.path.exists()


@pytest.mark.usefixtures("files")
def test_deleting_one_file_leaves_the_other(hub: Hub) -> None:
    for file in (SMALL, LARGE):
        locate(f"{REPO}:{file}", silent, hub)
    one, other = installed(hub)[1:]
    assert delete(one, hub) == one.size
    assert installed(hub)[1:] == [other] and other.path.stat().st_size == other.size


def test_a_download_of_one_file_is_remembered_over_a_restart(tmp_path: Path) -> None:
    saved = SavedDownloads(tmp_path)
    wanted = HubId("org/" + "n" * 90, "v1", "f" * 120 + ".gguf")
    saved.save(wanted, None)
    assert list(saved.load()) == [(wanted, None)]
    saved.forget(wanted)
    assert list(saved.load()) == []


def test_models_in_either_format_are_found_once_each(server: FakeHub, hub: Hub) -> None:
    server.models |= {"org/tiny": {}, "org/tiny-GGUF": {}}
    assert [hit.repo for hit in search(hub, "tiny")] == ["org/tiny-GGUF", "org/tiny"]
    assert len(server.asked) == 2


@pytest.mark.usefixtures("files")
def test_an_offline_hub_downloads_no_file(hub: Hub) -> None:
    with pytest.raises(ModelError, match="Foresight is set to offline"):
        locate(f"{REPO}:{SMALL}", silent, Hub(hub.endpoint, hub.cache, is_offline=True))
