"""A GGUF file is known by its header: its sizes, and what keeps it from being loaded, in a sentence."""

import re
import shutil
import struct
from dataclasses import replace
from pathlib import Path

import pytest
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

from app.errors import ModelBroken
from app.models_registry.files.config import read_config
from app.models_registry.files.fit_estimate import judge_folder
from app.models_registry.files.gguf_checks import gguf_files
from app.models_registry.files.weights import check_model, read_weights
from app.system.machine import ram
from app.values.gguf_header import BLOCKS, read_gguf_header
from tests.gguf_models import split_gguf, tiny_llama, write_gguf


@pytest.fixture(scope="session")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_gguf(tmp_path_factory.mktemp("gguf") / "tiny.gguf")


@pytest.fixture
def file(pristine: Path, tmp_path: Path) -> Path:
    """A file that the test may break."""
    return Path(shutil.copy(pristine, tmp_path / "tiny.gguf"))


def test_types_take_the_bytes_that_llama_cpp_gives_them() -> None:
    theirs = {int(kind): (kind.name, *GGML_QUANT_SIZES[kind]) for kind in map(GGMLQuantizationType, BLOCKS)}
    assert dict(BLOCKS) == theirs


def test_the_header_tells_the_models_sizes(pristine: Path) -> None:
    check_model(pristine, "tiny")
    shape, weights = read_config(pristine, "tiny"), read_weights(pristine, "tiny")
    assert (shape.layers, shape.hidden, shape.intermediate, shape.vocabulary) == (2, 32, 48, 4096)
    assert (shape.heads, shape.key_heads, shape.head_size, shape.context) == (4, 2, 8, 256)
    assert weights.numbers == sum(one.numel() for one in tiny_llama().parameters())
    assert weights.has_head and not shape.is_tied and weights.layers == 2 and weights.stored == "F32"
    assert read_gguf_header(pristine).size == pristine.stat().st_size


@pytest.mark.parametrize("kind", [number for number, (_, *size) in BLOCKS.items() if size == [32, 18]])
def test_a_file_is_accepted_whatever_the_type_of_its_blocks_is_called(kind: int, tmp_path: Path) -> None:
    """Types such as IQ4_NL were taken for integers of a quantisation that the config does not name."""
    file = write_gguf(tmp_path / "tiny.gguf", kinds=["Q4_0"])
    matrix = rb"(\x02\0\0\0[\x20\x40]\0{7}..\0{6})" + struct.pack("<I", GGMLQuantizationType.Q4_0)
    file.write_bytes(re.sub(matrix, rb"\1" + struct.pack("<I", kind), file.read_bytes(), flags=re.DOTALL))
    check_model(file, "tiny")
    assert read_weights(file, "tiny").stored == BLOCKS[kind][0]


def test_without_a_head_the_embedding_is_tied(file: Path) -> None:
    file.write_bytes(file.read_bytes().replace(b"output.weight", b"outpux.weight"))
    assert read_config(file, "tiny").is_tied and not read_weights(file, "tiny").has_head


def test_memory_is_estimated_with_the_weights_whole_before_they_are_quantised(pristine: Path) -> None:
    numbers = read_weights(pristine, "tiny").numbers
    needs = {
        precision: judge_folder(pristine, "tiny", ram(), precision, 256).need.weights
        for precision in ("float32", "bfloat16", "int4")  # type: ignore[attr-defined]
    }
    assert needs == {"float32": 4 * numbers, "bfloat16": 2 * numbers, "int4": 4 * numbers}
    tight = replace(ram(), free=1)
    assert judge_folder(pristine, "tiny", tight, "float32", 256).verdict == "too big"


@pytest.mark.parametrize("kept", [4, 20, 200, 5_000, -1, -100_000])
def test_a_file_that_was_cut_short_is_damaged(file: Path, kept: int) -> None:
    file.write_bytes(file.read_bytes()[:kept])
    with pytest.raises(
        ModelBroken, match=r"is damaged: .* Download it again with the program that it came from\."
    ):
        check_model(file, "tiny")


def test_a_file_whose_last_weights_are_zeros_is_damaged(file: Path) -> None:
    content = file.read_bytes()
    file.write_bytes(content[:-300_000] + bytes(300_000))
    with pytest.raises(ModelBroken, match=r"is damaged: its last weights are all zeros, as after a download"):
        check_model(file, "tiny")


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04" + bytes(100), b"not a model at all"])
def test_another_kind_of_file_is_no_gguf(file: Path, content: bytes) -> None:
    file.write_bytes(content)
    with pytest.raises(ModelBroken, match=r"is not a GGUF file: choose one that llama\.cpp can read"):
        check_model(file, "tiny")


@pytest.mark.parametrize("place", range(4, 120, 7))
def test_a_garbled_header_is_a_sentence(file: Path, place: int) -> None:
    content = bytearray(file.read_bytes())
    content[place : place + 8] = b"\xff" * 8
    file.write_bytes(content)
    try:
        check_model(file, "tiny")
    except ModelBroken as error:
        assert str(error).endswith(".")


@pytest.mark.parametrize(
    ("architecture", "kind", "sentence"),
    [
        ("", "", "tiny does not name its architecture: choose another file of the same model"),
        ("llamma9", "", "tiny has the architecture 'llamma9', which this version of Foresight does not"),
        (
            "clip",
            "",
            "tiny holds only the image part of a model: choose the file of the text model beside it",
        ),
        ("llama", "mmproj", "tiny holds only the image part of a model"),
        ("bert", "", r"tiny is an embedding model \(bert\), which writes no text: choose a chat model"),
        ("llama", "adapter", "tiny is an adapter: merge it into its base model first"),
    ],
)
def test_what_is_no_text_model_says_so(tmp_path: Path, architecture: str, kind: str, sentence: str) -> None:
    file = write_gguf(tmp_path / "tiny.gguf", architecture=architecture, general_type=kind)
    with pytest.raises(ModelBroken, match=sentence):
        check_model(file, "tiny")


@pytest.mark.parametrize(("known", "newer"), [(b"default", b"morning"), (b"gpt2", b"gpt9")])
def test_a_vocabulary_of_an_unknown_kind_is_refused_before_it_is_loaded(
    file: Path, known: bytes, newer: bytes
) -> None:
    file.write_bytes(file.read_bytes().replace(known, newer, 1))
    with pytest.raises(ModelBroken, match=rf'does not know \("{newer.decode()}"\): update Foresight'):
        check_model(file, "tiny")


def test_a_model_that_pools_its_vectors_is_an_embedding_model(tmp_path: Path) -> None:
    file = write_gguf(tmp_path / "tiny.gguf", **{"llama.pooling_type": 1})
    with pytest.raises(ModelBroken, match="is an embedding model"):
        check_model(file, "tiny")


def test_a_split_model_is_one_model_and_says_what_is_missing(pristine: Path, tmp_path: Path) -> None:
    parts = split_gguf(pristine, tmp_path, 3)
    assert gguf_files(tmp_path) == parts[:1]
    assert read_gguf_header(parts[1]).numbers == read_gguf_header(pristine).numbers
    assert read_gguf_header(parts[2]).values["llama.block_count"] == 2
    check_model(parts[0], "big")
    assert read_weights(parts[0], "big").numbers == read_weights(pristine, "tiny").numbers
    parts[1].write_bytes(parts[1].read_bytes()[:-100])
    with pytest.raises(
        ModelBroken, match=r"big-00002-of-00003\.gguf is damaged: it has .* bytes and its header"
    ):
        check_model(parts[0], "big")
    parts[1].unlink()
    with pytest.raises(
        ModelBroken,
        match=r"is one of 3 files of a model, and 1 of them is missing: get all of them into this folder \(the "
        r"first that is missing is big-00002-of-00003\.gguf\)\.",
    ):
        check_model(parts[0], "big")


@pytest.mark.parametrize(
    ("place", "bytes_", "sentence"),
    [
        (
            4,
            b"\x04\0\0\0",
            "has version 4 of the format, which this version of Foresight does not know: choose",
        ),
        (4, b"\0\0\0\x03", "is big-endian: choose a little-endian file of the model"),
        (4, b"\x01\0\0\0", "has version 1 of the format, .* choose a newer file"),
        (4, b"\xff\xff\0\0", "is damaged: its version is"),
        (0, b"version https://git-lfs", "only a pointer of Git LFS"),
    ],
)
def test_what_is_newer_or_older_than_known_is_not_called_damaged(
    file: Path, place: int, bytes_: bytes, sentence: str
) -> None:
    content = bytearray(file.read_bytes())
    content[place : place + len(bytes_)] = bytes_
    file.write_bytes(content)
    with pytest.raises(ModelBroken, match=sentence):
        check_model(file, "tiny")


def test_a_type_that_is_not_known_is_told_as_newer(file: Path) -> None:
    content = file.read_bytes()
    name = b"token_embd.weight"
    place = content.index(name) + len(name) + 4 + 2 * 8
    file.write_bytes(content[:place] + (42).to_bytes(4, "little") + content[place + 4 :])
    with pytest.raises(
        ModelBroken,
        match=r"token_embd\.weight is stored as a type that this version of Foresight does not know \(42\): choose",
    ):
        check_model(file, "tiny")


def test_a_part_by_another_name_is_known_by_its_values(tmp_path: Path) -> None:
    file = write_gguf(tmp_path / "part.gguf", **{"split.count": 3})
    with pytest.raises(ModelBroken, match="is one part of a model in several files"):
        check_model(file, "part")


def test_a_count_that_cannot_be_is_refused_at_once(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[8:16] = (2**40).to_bytes(8, "little")
    file.write_bytes(content)
    with pytest.raises(ModelBroken, match="its header is not valid"):
        check_model(file, "tiny")
