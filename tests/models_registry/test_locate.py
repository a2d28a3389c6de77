"""What a person may type for a model, and what each mistake is answered with."""

from pathlib import Path

import pytest

from app.errors import ModelBroken, ModelNotFound
from app.models_registry.hub.hub import Hub
from app.models_registry.locate import folder_here, locate, locate_path
from app.settings import assets_dir
from tests.gguf_models import write_gguf
from tests.models_registry.model_files import model_files, silent, write

NOWHERE = Hub(endpoint="http://127.0.0.1:9", cache=Path("no-such-cache"))
"""A hub that would be noticed if it were asked: it refuses every connection."""


def test_demo_is_the_model_that_ships() -> None:
    found = locate("demo", silent, NOWHERE)
    assert (found.path, found.name, found.label) == (assets_dir() / "demo-model", "demo", "demo")


@pytest.mark.parametrize("typed", ["", "  "])
def test_an_empty_path_is_asked_for(typed: str) -> None:
    with pytest.raises(ModelNotFound, match=r"^Enter the path of a model's folder or of a GGUF file\.$"):
        locate_path(typed)


def test_a_folder_is_found_by_its_path(tmp_path: Path) -> None:
    folder = write(tmp_path / "mine", model_files())
    found = locate(f"  {folder} ", silent, NOWHERE)
    assert (found.path, found.name, found.label, found.revision) == (folder, "mine", "", "")


def test_a_folder_is_found_below_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    folder = write(tmp_path / "models" / "mine", model_files())
    assert locate("~/models/mine", silent, NOWHERE).path == folder


def test_a_folder_here_goes_before_a_hub_id_of_the_same_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = write(tmp_path / "org" / "name", model_files())
    assert locate("org/name", silent, NOWHERE).path == folder


@pytest.mark.parametrize(
    "path",
    [
        "~/no-such-model", "~nobody-of-this-name/x", "./no-such-model", "../no/such", "/no/such/model",
        "models/no/such", r"C:\models\none", r"models\none", "C:/models/none",
        "/" + 5000 * "x",
    ],
)  # fmt: skip
def test_a_mistyped_path_is_not_asked_of_the_hub(path: str) -> None:
    with pytest.raises(ModelNotFound, match="does not exist: check the path"):
        locate(path, silent, NOWHERE)


@pytest.mark.parametrize("name", ["dmeo", "org/", "a b/c", "org/name@", "@main", "https:"])
def test_a_name_that_can_be_nothing_says_what_names_there_are(name: str) -> None:
    with pytest.raises(ModelNotFound, match="enter a folder, an id such as org/name, or 'demo'"):
        locate(name, silent, NOWHERE)


@pytest.mark.parametrize("name", ["org/a..b", "org/a--b", "-org/name", "org/name.git", "org/" + 100 * "x"])
def test_a_name_that_the_hub_cannot_have_is_not_asked_of_it(name: str) -> None:
    with pytest.raises(ModelNotFound, match="is not a model id: enter a folder, or an id such as org/name"):
        locate(name, silent, NOWHERE)


@pytest.mark.parametrize(
    "address", ["https://hub.example/org/name", "https://huggingface.co/datasets/org/name"]
)
def test_an_address_that_is_no_models_page_says_to_give_the_id(address: str) -> None:
    with pytest.raises(ModelNotFound, match="enter its id, such as org/name"):
        locate(address, silent, NOWHERE)


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    write(tmp_path, model_files())
    with pytest.raises(ModelBroken, match="choose the folder"):
        locate(str(tmp_path / "model.safetensors"), silent, NOWHERE)


def test_a_gguf_file_is_a_model_by_its_path_or_by_its_folder(tmp_path: Path) -> None:
    (tmp_path / "smol").mkdir()
    file = write_gguf(tmp_path / "smol" / "smol.Q4.gguf")
    (file.parent / "mmproj-smol.gguf").write_bytes(b"GGUF")
    for name in (str(file), str(file.parent)):
        found = locate(name, silent, NOWHERE)
        assert (found.path, found.name, found.gguf) == (file, "smol.Q4", None)
    write_gguf(file.with_name("smol.Q8.gguf"))
    with pytest.raises(ModelBroken, match="It has GGUF files: choose one of them by its path"):
        locate(str(file.parent), silent, NOWHERE)
    with pytest.raises(ModelNotFound, match=r"The file .*none.gguf does not exist: check the path"):
        locate(str(tmp_path / "none.gguf"), silent, NOWHERE)


def test_what_is_here_is_found_without_the_hub(tmp_path: Path) -> None:
    folder = write(tmp_path / "mine", model_files())
    found = folder_here(f" {folder}", NOWHERE)
    assert found and (found.path, found.name, found.revision) == (folder, str(folder), "")
    assert folder_here("org/not-here", NOWHERE) is None
    assert folder_here("no model at all", NOWHERE) is None


def test_a_model_in_the_hubs_cache_has_its_revision(tmp_path: Path) -> None:
    snapshot = tmp_path / "models--org--small" / "snapshots" / ("a" * 40)
    write(snapshot, model_files())
    ref = tmp_path / "models--org--small" / "refs" / "main"
    ref.parent.mkdir(parents=True)
    ref.write_text("a" * 40)
    found = folder_here("org/small", Hub(endpoint="http://127.0.0.1:9", cache=tmp_path))
    assert found and (found.path, found.name, found.revision) == (snapshot, "org/small", "a" * 40)
