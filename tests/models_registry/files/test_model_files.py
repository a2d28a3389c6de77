"""Every way in which a folder can fail to be a model has its own sentence."""

import json
import math
import re
import struct
from pathlib import Path

import pytest
from safetensors import SafetensorError, safe_open

from app.errors import ModelBroken, ModelError, ModelUnsafe
from app.models_registry.files.model_files import check_folder, is_complete
from tests.models_registry.model_files import model_files, safetensors, sharded_files, write

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"a" * 64 + b"\nsize 1050000\n"


@pytest.mark.parametrize("files", [model_files(), sharded_files()], ids=["whole", "shards"])
def test_a_whole_model_passes(tmp_path: Path, files: dict[str, bytes]) -> None:
    check_folder(write(tmp_path, files))
    assert is_complete(tmp_path)


def test_a_file_written_by_safetensors_itself_passes(tmp_path: Path) -> None:
    numpy = pytest.importorskip("numpy")
    save = pytest.importorskip("safetensors.numpy").save
    weights = save({"a": numpy.ones((3, 4)), "b": numpy.ones(5)}, metadata={"format": "pt"})
    check_folder(write(tmp_path, {**model_files(), "model.safetensors": weights}))


@pytest.mark.parametrize(
    ("without", "extra", "error", "sentence"),
    [
        ("config.json", "", ModelBroken, "is not a model: it has no config.json"),
        ("config.json", "model.gguf", ModelBroken, "GGUF"),
        ("config.json", "adapter_config.json", ModelBroken, "merge it into its base model"),
        ("tokenizer.json", "", ModelBroken, "no tokenizer"),
        ("model.safetensors", "", ModelBroken, "no model.safetensors"),
        ("model.safetensors", "pytorch_model.bin", ModelUnsafe, "only pickled weights"),
        ("model.safetensors", "model.pth", ModelUnsafe, "only pickled weights"),
    ],
)
def test_missing_files_are_named(
    tmp_path: Path, without: str, extra: str, error: type[ModelError], sentence: str
) -> None:
    files = model_files() | ({extra: b"x"} if extra else {})
    del files[without]
    with pytest.raises(error, match=re.escape(sentence)):
        check_folder(write(tmp_path, files))
    assert not is_complete(tmp_path)


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "tokenizer.json"])
def test_a_pointer_of_git_lfs_is_told_as_such(tmp_path: Path, name: str) -> None:
    with pytest.raises(ModelBroken, match=r"only a pointer of Git LFS: run `git lfs pull`"):
        check_folder(write(tmp_path, model_files() | {name: POINTER, "picture.png": POINTER}))


MATRIX = 2**18


def three_tensors(data: bytes) -> bytes:
    """Two matrices and a vector, of which the first bytes are given, and the rest is zeros."""
    header, place = dict[str, object](), 0
    for name, shape in {"a": [64, 1024], "b": [64, 1024], "c": [16]}.items():
        size = 4 * math.prod(shape)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [place, place + size]}
        place += size
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data.ljust(place, b"\0")


@pytest.mark.parametrize("written", [10, MATRIX // 2, MATRIX + 10, MATRIX * 3 // 2])
def test_weights_that_end_with_zeros_are_an_unfinished_download(tmp_path: Path, written: int) -> None:
    files = {**model_files(), "model.safetensors": three_tensors(b"x" * written)}
    with pytest.raises(ModelBroken, match=r"is damaged: its last weights are all zeros, as after a download"):
        check_folder(write(tmp_path, files))


@pytest.mark.parametrize(
    "data",
    [b"x" * 2 * MATRIX, b"x" * (MATRIX * 3 // 2 + 1), b"x" * MATRIX, bytes(2 * MATRIX + 63) + b"x", b""],
    ids=["vector", "padding", "matrix", "beginning", "nothing stored"],
)
def test_zeros_that_a_model_may_have_are_no_damage(tmp_path: Path, data: bytes) -> None:
    check_folder(write(tmp_path, {**model_files(), "model.safetensors": three_tensors(data)}))


@pytest.mark.parametrize("keep", [0, 7, 8, 20, -1, -100])
def test_weights_cut_short_anywhere_are_noticed(tmp_path: Path, keep: int) -> None:
    with pytest.raises(ModelBroken, match=r"is damaged: .* Delete .* and download it again"):
        check_folder(write(tmp_path, model_files() | {"model.safetensors": safetensors()[:keep]}))


@pytest.mark.parametrize(
    "weights",
    [
        safetensors() + b"more",
        b"<html>you have to log in</html>" * 20,
        struct.pack("<Q", 2) + b"{}",
        struct.pack("<Q", 4) + b"null",
        struct.pack("<Q", 14) + b'{"weight": 1} ',
        struct.pack("<Q", 2**63) + b"{}",
    ],
    ids=["longer", "a web page", "no tensors", "not an object", "no offsets", "endless header"],
)
def test_weights_that_are_something_else_are_noticed(tmp_path: Path, weights: bytes) -> None:
    with pytest.raises(ModelBroken, match="is damaged"):
        check_folder(write(tmp_path, model_files() | {"model.safetensors": weights}))


def test_a_header_may_be_as_large_as_safetensors_allows(tmp_path: Path) -> None:
    whole = safetensors()
    size = struct.unpack("<Q", whole[:8])[0]
    for length in (99_000_000, 101_000_000):
        header = whole[8 : 8 + size].ljust(length)
        weights = struct.pack("<Q", length) + header + whole[8 + size :]
        folder = write(tmp_path / str(length), model_files() | {"model.safetensors": weights})
        with safe_open(folder / "model.safetensors", "numpy") if length < 1e8 else pytest.raises(ModelBroken):
            check_folder(folder)
    with pytest.raises(SafetensorError, match="too large"):
        safe_open(folder / "model.safetensors", "numpy").keys()


def test_a_missing_shard_is_named(tmp_path: Path) -> None:
    files = sharded_files()
    del files["model-00002-of-00002.safetensors"]
    with pytest.raises(ModelBroken, match=r"not complete: .*model-00002-of-00002.safetensors is missing"):
        check_folder(write(tmp_path, files))
    assert not is_complete(tmp_path)


@pytest.mark.parametrize("listed", [None, [], {"weight": 3}, {"weight": "../../etc/passwd"}])
def test_an_index_may_only_list_files_of_the_folder(tmp_path: Path, listed: object) -> None:
    index = json.dumps({"weight_map": listed}).encode()
    with pytest.raises(ModelBroken, match="lists no weight files"):
        check_folder(write(tmp_path, sharded_files() | {"model.safetensors.index.json": index}))


@pytest.mark.parametrize("config", [b"", b"{", b"[]", b"\xff\xfe", b"{}"])
def test_a_config_that_makes_no_sense_is_named(tmp_path: Path, config: bytes) -> None:
    with pytest.raises(ModelBroken, match=r"config\.json"):
        check_folder(write(tmp_path, model_files() | {"config.json": config}))
