"""Models of LM Studio, Ollama, llama.cpp and of the hub's cache in GGUF files are found, and stay untouched."""

import json
import shutil
from pathlib import Path

import pytest

from app.errors import ModelError
from app.models_registry import Hub, delete, freed_by, installed, locate, verify
from app.models_registry.installed_models import has_checksums
from app.values.model import InstalledModel
from tests.gguf_models import write_gguf
from tests.models_registry.hub_server import COMMIT
from tests.models_registry.model_files import silent

DIGEST = "ab" * 32


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_gguf(tmp_path_factory.mktemp("gguf") / "tiny.gguf")


@pytest.fixture
def offline(tmp_path: Path) -> Hub:
    return Hub("http://127.0.0.1:9", tmp_path / "cache", is_offline=True)


def put(tiny: Path, target: Path) -> Path:
    target.parent.mkdir(parents=True, exist_ok=True)
    return Path(shutil.copy(tiny, target))


def ollama_store(folder: Path, tiny: Path, name: str, layers: object = None, digest: str = DIGEST) -> Path:
    manifest = folder / "manifests" / name
    manifest.parent.mkdir(parents=True, exist_ok=True)
    model = {"mediaType": "application/vnd.ollama.image.model", "digest": f"sha256:{digest}"}
    manifest.write_text(
        json.dumps(
            {"layers": [{"mediaType": "x", "digest": "sha256:0"}, model]} if layers is None else layers
        )
    )
    return put(tiny, folder / "blobs" / f"sha256-{digest}")


def others(hub: Hub, *folders: Path) -> dict[str, InstalledModel]:
    return {model.name: model for model in installed(hub, folders) if model.origin != "demo"}


def test_files_of_other_programs_are_listed_with_their_origin(home: Path, tiny: Path, offline: Hub) -> None:
    studio = put(tiny, home / ".lmstudio" / "models" / "org" / "model-GGUF" / "model.Q4_K_M.gguf")
    put(tiny, studio.with_name("mmproj-model.gguf"))
    old = put(tiny, home / ".cache" / "lm-studio" / "models" / "org" / "old" / "old.gguf")
    cached = put(tiny, home / ".cache" / "llama.cpp" / "org_repo_file.gguf")
    mac = put(tiny, home / "Library" / "Caches" / "llama.cpp" / "mac.gguf")
    blob = ollama_store(home / ".ollama" / "models", tiny, "registry.ollama.ai/library/llama3.2/3b")
    ollama_store(home / ".ollama" / "models", tiny, "registry.ollama.ai/library/llama3.2/latest")
    second = ollama_store(home / ".ollama" / "models", tiny, "hf.co/org/repo-GGUF/Q4_K_M", digest="cd" * 32)
    snapshot = offline.root / "models--org--repo" / "snapshots" / COMMIT
    hub_file = put(tiny, snapshot / "repo.Q8_0.gguf")
    found = others(offline)
    assert {name: (model.origin, model.path) for name, model in found.items()} == {
        "model.Q4_K_M": ("lm-studio", studio),
        "old": ("lm-studio", old),
        "org_repo_file": ("llama.cpp", cached),
        "mac": ("llama.cpp", mac),
        "llama3.2:3b": ("ollama", blob),
        "hf.co/org/repo-GGUF:Q4_K_M": ("ollama", second),
        "org/repo/repo.Q8_0": ("hub-gguf", hub_file),
    }
    assert all(model.state == "ready" and model.size == tiny.stat().st_size for model in found.values())
    assert locate(str(blob), silent, offline).name == "llama3.2:3b"
    assert locate(str(hub_file), silent, offline).name == "org/repo/repo.Q8_0"


def test_nothing_of_theirs_is_deleted(home: Path, tiny: Path, offline: Hub) -> None:
    file = put(tiny, home / ".cache" / "llama.cpp" / "a.gguf")
    model = others(offline)["a"]
    with pytest.raises(ModelError, match="belongs to another program, and Foresight does not delete it"):
        delete(model, offline)
    assert freed_by(model, offline) == 0 and file.exists()
    assert verify(model) == [] and not has_checksums(model)


def test_a_file_in_a_folder_of_the_persons_is_listed_once(home: Path, tiny: Path, offline: Hub) -> None:
    folder = home / ".lmstudio" / "models"
    put(tiny, folder / "org" / "model" / "a.gguf")
    found = [model for model in installed(offline, [folder]) if model.origin != "demo"]
    assert [(model.name, model.origin) for model in found] == [("a", "folder")]


def test_what_cannot_be_loaded_says_why(home: Path, tiny: Path, offline: Hub) -> None:
    cut = put(tiny, home / ".cache" / "llama.cpp" / "cut.gguf")
    cut.write_bytes(cut.read_bytes()[:-5])
    store = home / ".ollama" / "models"
    ollama_store(store, tiny, "registry.ollama.ai/library/gone/latest").unlink()
    found = others(offline)
    assert found["cut"].state == "unusable" and "is damaged" in found["cut"].problem
    assert found["gone:latest"].state != "ready" and found["gone:latest"].problem


@pytest.mark.parametrize(
    "manifest", [[], {"layers": 3}, {"layers": []}, {"layers": [{"mediaType": "x"}]},
                 {"layers": [{"mediaType": "application/vnd.ollama.image.model", "digest": "sha256:../../x"}]}],
)  # fmt: skip
def test_a_manifest_that_makes_no_sense_is_no_model(
    home: Path, tiny: Path, offline: Hub, manifest: object
) -> None:
    ollama_store(home / ".ollama" / "models", tiny, "registry.ollama.ai/library/odd/latest", manifest)
    assert others(offline) == {}
