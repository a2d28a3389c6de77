"""What is on this machine, whoever brought it; what deleting it frees; whether its bytes are right."""

import json
import shutil
from pathlib import Path

import pytest

from app.errors import ModelBroken, ModelError, ModelNotFound
from app.models_registry.downloads.download_queue import Downloads, SavedDownloads
from app.models_registry.downloads.process import download
from app.models_registry.hub.hub import Hub
from app.models_registry.hub.hub_id import HubId
from app.models_registry.installed_models import (
    delete,
    find_installed,
    freed_by,
    has_checksums,
    installed,
    verify,
)
from app.models_registry.locate import locate
from app.values.model import InstalledModel
from tests.gguf_models import write_gguf
from tests.models_registry.downloads.test_download_queue import VALUES
from tests.models_registry.hub_server import COMMIT, FakeHub
from tests.models_registry.model_files import model_files, sharded_files, silent, write
from tests.support.waiting import until

pytestmark = pytest.mark.usefixtures("downloads_here")
CONFIG = (
    b'{"model_type": "llama", "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, '
    b'"vocab_size": 16}'
)


@pytest.fixture
def offline(tmp_path: Path) -> Hub:
    return Hub("http://127.0.0.1:9", tmp_path / "cache", is_offline=True)


def in_cache(hub: Hub, repo: str, files: dict[str, bytes], commit: str = COMMIT) -> Path:
    folder = hub.root / ("models--" + repo.replace("/", "--"))
    (folder / "refs").mkdir(parents=True, exist_ok=True)
    (folder / "refs" / "main").write_text(commit)
    return write(folder / "snapshots" / commit, files)


def others(hub: Hub, *folders: Path) -> dict[str, InstalledModel]:
    return {model.name: model for model in installed(hub, folders) if model.origin != "demo"}


def whole() -> dict[str, bytes]:
    return {**model_files(), "config.json": CONFIG}


def test_the_demo_model_is_always_there(offline: Hub) -> None:
    (demo,) = installed(offline)
    assert (demo.name, demo.state, demo.origin) == ("demo", "ready", "demo") and demo.size > 1_000_000


def test_models_of_the_cache_and_of_own_folders_are_found(offline: Hub, tmp_path: Path) -> None:
    in_cache(offline, "org/one", whole())
    single = write(tmp_path / "single", whole())
    write(tmp_path / "many" / "a", whole())
    write(tmp_path / "many" / "b", whole())
    (tmp_path / "many" / "notes").mkdir()
    found = others(offline, single, tmp_path / "many", tmp_path / "no-such-folder")
    assert {name: model.origin for name, model in found.items()} == {
        "org/one": "hub", "single": "folder", "a": "folder", "b": "folder"
    }  # fmt: skip
    assert all(model.state == "ready" for model in found.values())
    assert found["org/one"].revision == COMMIT
    assert found["org/one"].size == sum(map(len, whole().values()))


def test_those_that_cannot_be_used_say_why(offline: Hub) -> None:
    in_cache(offline, "org/half", {k: v for k, v in sharded_files().items() if "00002-of" not in k})
    in_cache(
        offline, "org/pickled", {"config.json": CONFIG, "tokenizer.json": b"{}", "pytorch_model.bin": b"x"}
    )
    in_cache(offline, "org/cut", {**whole(), "model.safetensors": whole()["model.safetensors"][:-1]})
    code = CONFIG.replace(b"llama", b"unheard_of").replace(b"{", b'{"auto_map": {"AutoModel": "x.Y"}, ', 1)
    in_cache(offline, "org/code", {**whole(), "config.json": code})
    texts = {"config.json": CONFIG, "tokenizer.json": b"{}"}
    in_cache(offline, "org/onnx", {**texts, "model.onnx": b"x"})
    in_cache(
        offline, "org/adapter", {**texts, "adapter_config.json": b"{}", "adapter_model.safetensors": b"x"}
    )
    in_cache(offline, "org/texts", texts)
    deep = in_cache(offline, "org/deep", texts) / "gpu" / "int4"
    write(deep, {"model.onnx": b"x"})
    (offline.root / "models--org--empty").mkdir()
    (offline.root / "models--org--begun" / "blobs").mkdir(parents=True)
    (offline.root / "models--org--begun" / "blobs" / (40 * "a" + ".foresight.incomplete")).write_bytes(
        b"12345"
    )
    said = {name: (model.state, model.problem) for name, model in others(offline).items()}
    assert said["org/half"][0] == "incomplete" and "is missing" in said["org/half"][1]
    assert said["org/pickled"][0] == "unusable" and "only pickled weights" in said["org/pickled"][1]
    assert said["org/cut"][0] == "unusable" and "is damaged" in said["org/cut"][1]
    assert said["org/code"][0] == "unusable" and "Python code of its own" in said["org/code"][1]
    assert (
        said["org/onnx"][0] == said["org/deep"][0] == "unusable" and "format of ONNX" in said["org/deep"][1]
    )
    assert said["org/adapter"][0] == "unusable" and "It is an adapter" in said["org/adapter"][1]
    assert said["org/texts"][0] == "incomplete" and "has no model.safetensors" in said["org/texts"][1]
    assert said["org/empty"][0] == "incomplete" and "has no files" in said["org/empty"][1]
    assert said["org/begun"][0] == "incomplete" and "not finished: resume it" in said["org/begun"][1]
    assert others(offline)["org/begun"].size == 5


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (CONFIG.replace(b'layers": 2', b'layers": 1000000000'), "num_hidden_layers is 1000000000"),
        (CONFIG.replace(b'layers": 2', b'layers": -2'), "num_hidden_layers is -2"),
        (CONFIG.replace(b"16}", b'"../../etc/passwd"}'), "vocab_size is ../../etc/passwd"),
        (CONFIG.replace(b"16}", b'{"a": [1]}}'), "vocab_size is"),
        (b'{"model_type": "llama", "x": ' + 100_000 * b"[" + 100_000 * b"]" + b"}", "is not valid JSON"),
        (b"[]", "not a JSON object"),
    ],
)
def test_a_config_that_cannot_be_true_is_a_sentence(offline: Hub, config: bytes, words: str) -> None:
    in_cache(offline, "org/hostile", {**whole(), "config.json": config})
    model = others(offline)["org/hostile"]
    assert model.state == "unusable"
    assert any(part in model.problem for part in words.split("|")), model.problem


def test_deleting_a_model_frees_what_was_said(server: FakeHub, hub: Hub) -> None:
    server.models["org/small"] = whole()
    download(hub, HubId("org/small"), silent)
    in_cache(hub, "org/other", whole())
    model = others(hub)["org/small"]
    frees = freed_by(model)
    assert frees == model.size == sum(map(len, whole().values()))
    assert delete(model) >= frees
    assert set(others(hub)) == {"org/other"}
    assert not (hub.root / "models--org--small").exists()


def test_deleting_one_revision_keeps_what_another_shares(server: FakeHub, hub: Hub) -> None:
    server.models["org/small"] = whole()
    folder = download(hub, HubId("org/small"), silent)
    copy = folder.parent / ("d" * 40)
    copy.mkdir()
    for path in folder.iterdir():
        (copy / path.name).symlink_to(path.readlink())
    first = next(model for model in installed(hub) if model.revision == COMMIT)
    assert freed_by(first) == 0
    delete(first)
    assert [model.revision for model in installed(hub) if model.origin == "hub"] == ["d" * 40]
    assert {path.name: path.read_bytes() for path in copy.iterdir()} == whole()


def test_a_sentence_model_is_checked_and_deleted_whole(server: FakeHub, hub: Hub) -> None:
    pooling = {"modules.json": b"[]", "1_Pooling/config.json": b'{"pooling_mode": "cls"}'}
    server.models["org/small"] = {**whole(), **pooling}
    folder = download(hub, HubId("org/small"), silent)
    (folder / "config.json.gone").symlink_to("../../blobs/gone")  # the hub's client passes over it now
    model = others(hub)["org/small"]
    blob = (folder / "1_Pooling" / "config.json").resolve()
    blob.write_bytes(b"[]")
    (problem,) = verify(model)
    assert problem.startswith("1_Pooling/config.json is damaged") and str(blob) in problem
    delete(model)
    assert others(hub) == {} and not blob.exists()


def test_half_a_download_can_be_deleted(server: FakeHub, hub: Hub, tmp_path: Path) -> None:
    server.models["org/small"] = model_files(VALUES)
    server.pace = 5e6
    downloads = Downloads(hub, SavedDownloads(tmp_path / "downloads"))
    downloads.start("org/small")
    until(lambda: downloads.snapshot()[0].done > 100_000)
    downloads.close()
    model = others(hub)["org/small"]
    assert model.state == "incomplete" and freed_by(model) == model.size > 100_000
    assert delete(model) == model.size
    assert others(hub) == {}


def test_a_broken_repository_can_be_deleted(offline: Hub) -> None:
    folder = in_cache(offline, "org/half", sharded_files())
    (folder / "model-00001-of-00002.safetensors").unlink()
    (folder / "model-00001-of-00002.safetensors").symlink_to("../../blobs/gone")
    delete(others(offline)["org/half"])
    assert others(offline) == {}


def test_nothing_is_deleted_in_folders_of_the_persons(offline: Hub, tmp_path: Path) -> None:
    folder = write(tmp_path / "mine", whole())
    with pytest.raises(ModelError, match="in a folder of yours, and Foresight deletes nothing there"):
        delete(others(offline, folder)["mine"])
    with pytest.raises(ModelError, match="ships with the app and stays"):
        delete(installed(offline)[0])
    assert (folder / "config.json").exists()


def test_bytes_are_compared_with_their_checksums(server: FakeHub, hub: Hub) -> None:
    server.models["org/small"] = {**whole(), **{"model.safetensors": model_files(9_000)["model.safetensors"]}}
    folder = download(hub, HubId("org/small"), silent)
    model = others(hub)["org/small"]
    assert has_checksums(model) and verify(model) == []
    blob = (folder / "model.safetensors").resolve()
    content = bytearray(blob.read_bytes())
    content[-1] ^= 1
    blob.write_bytes(content)
    (problem,) = verify(model)
    assert problem.startswith("model.safetensors is damaged (its checksum is wrong): delete ")


def test_a_folder_without_checksums_is_looked_at_all_the_same(offline: Hub, tmp_path: Path) -> None:
    folder = write(tmp_path / "mine", whole())
    model = others(offline, folder)["mine"]
    assert not has_checksums(model) and verify(model) == []
    (folder / "model.safetensors").write_bytes(b"cut")
    with pytest.raises(ModelBroken, match="is damaged"):
        verify(model)


def test_an_installed_model_is_found_by_name_and_revision(offline: Hub) -> None:
    in_cache(offline, "org/one", whole())
    assert find_installed("org/one", offline).name == "org/one"
    assert find_installed(f"org/one@{COMMIT[:8]}", offline).revision == COMMIT
    for name in ("org/two", "org/one@beef"):
        with pytest.raises(ModelNotFound, match="is not installed"):
            find_installed(name, offline)


DIGEST = "ab" * 32


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_gguf(tmp_path_factory.mktemp("gguf") / "tiny.gguf")


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
        delete(model)
    assert freed_by(model) == 0 and file.exists()
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
