"""A GGUF file is loaded as the model that it was made from, in float32 to the bit, and is refused in words."""

import os
from contextlib import closing
from math import prod
from pathlib import Path
from typing import Any

import gguf
import pytest
import torch
from transformers import (
    AutoConfig,
    PreTrainedModel,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from app.engine.loading.loading import LoadedModel, load
from app.engine.loading.weights import read_weights
from app.engine.session.session import Session
from app.engine.text import gguf_folder as gguf_module
from app.engine.text.gguf_folder import KEPT, check_memory, unpacked
from app.engine.text.sandbox import SECONDS, Sandbox
from app.errors import LoadCancelled, ModelBroken, ModelTooLarge
from app.system.machine import ram
from app.values.gguf_header import GgufHeader, GgufTensor
from app.values.messages import Decoding, Finished, ModelChoice, ModelFolder, Options, Piece, Request
from tests.engine.loading.test_gguf_packing import read
from tests.engine.tiny import tiny_config
from tests.gguf_models import tiny_llama, write_gguf
from tests.models_registry.model_files import write
from tests.tiers import some

CPU = ModelChoice("tiny", dtype="float32", device="cpu")
SIZES: dict[str, Any] = {
    "vocab_size": 4096, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 256,
}  # fmt: skip


@pytest.fixture(scope="session")
def places(tmp_path_factory: pytest.TempPathFactory) -> tuple[ModelFolder, Path]:
    """A tiny model's file, and the cache of what was made from it."""
    folder = tmp_path_factory.mktemp("gguf")
    return ModelFolder(write_gguf(folder / "tiny.gguf"), name="tiny"), folder / "cache"


@pytest.fixture(scope="session")
def loaded(places: tuple[ModelFolder, Path]) -> LoadedModel:
    return load(places[0], CPU, None, places[1])


def assert_same_weights(found: PreTrainedModel, model: PreTrainedModel) -> None:
    weights = found.state_dict()
    assert set(weights) == set(model.state_dict())
    for name, weight in model.state_dict().items():
        assert torch.equal(weights[name], weight), name


def test_a_files_weights_tokenizer_and_template_are_the_models_own(
    places: tuple[ModelFolder, Path], loaded: LoadedModel
) -> None:
    model = loaded.runner.model  # type: ignore[attr-defined]
    with unpacked(*places) as whole:
        config = AutoConfig.from_pretrained(whole.path)
        assert_same_weights(read_weights(whole, config, torch.float32, {}), tiny_llama())
    assert loaded.can_draft and loaded.info.name == "tiny" and loaded.info.context == 256
    assert loaded.eos_ids == {0, 2}
    assert not hasattr(model.config, "quantization_config") and not getattr(model, "is_quantized", False)
    words = "The sea is calm tonight, isn't it?"
    assert loaded.decode(loaded.tokenizer(words).input_ids) == words
    assert loaded.tokenizer.chat_template


@pytest.mark.parametrize(
    "model",
    some(
        {
            "qwen2": Qwen2ForCausalLM(Qwen2Config(**SIZES)),
            "qwen3": Qwen3ForCausalLM(Qwen3Config(**SIZES, head_dim=16)),
        },
        "qwen3",
    ),
)
def test_other_architectures_are_read_to_the_bit(model: PreTrainedModel, tmp_path: Path) -> None:
    assert_same_weights(read(write_gguf(tmp_path / "other.gguf", model)), model)


def test_text_is_the_same_with_lookahead_on_and_off(places: tuple[ModelFolder, Path], tmp_path: Path) -> None:
    folder, _ = places
    (tmp_path / "gguf").symlink_to(places[1])
    session = Session(lambda *_: folder, tmp_path)
    texts = []
    for decoder in ("plain", "lookahead"):
        options = Options(decoding=Decoding(decoder=decoder), max_new_tokens=40)  # type: ignore[arg-type]
        events = list(session.events(Request(CPU, "Once upon a time", options)))
        texts.append("".join(event.text for event in events if isinstance(event, Piece)))
        assert isinstance(events[-1], Finished) and events[-1].decoder == decoder
    assert texts[0] == texts[1] != ""


def test_it_is_quantised_as_any_model(places: tuple[ModelFolder, Path]) -> None:
    choice = ModelChoice("tiny", dtype="float32", device="cpu", quantisation="int8")
    assert load(places[0], choice, None, places[1]).info.quantised_share > 0.9


def test_what_is_made_from_a_file_is_kept_until_the_file_changes(
    places: tuple[ModelFolder, Path], loaded: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    del loaded
    monkeypatch.setattr(gguf_module, "_convert", refuse)
    with unpacked(*places) as folder:
        assert folder.gguf == places[0].path and (folder.path / "tokenizer.json").exists()
    before = places[0].path.stat()
    places[0].path.touch()
    with pytest.raises(ModelBroken, match="converted again"), unpacked(*places):
        pass
    os.utime(places[0].path, ns=(before.st_atime_ns, before.st_mtime_ns))  # for the tests that follow


def refuse(*_: object) -> None:
    raise ModelBroken("converted again")


def test_the_cache_does_not_grow(
    places: tuple[ModelFolder, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gguf_module, "_convert", lambda _, target, *__: write(target, {"config.json": b"{}"}))
    for number in range(KEPT + 3):
        (tmp_path / f"{number:032x}").mkdir()
        os.utime(tmp_path / f"{number:032x}", (number, number))
    mine = tmp_path / "my models"
    mine.mkdir()
    os.utime(mine, (0, 0))
    with unpacked(places[0], tmp_path) as folder:
        assert (folder.path / "config.json").exists()
    assert mine.exists() and len(list(tmp_path.iterdir())) == KEPT + 1
    assert (tmp_path / f"{KEPT + 2:032x}").exists() and not (tmp_path / f"{0:032x}").exists()


def test_without_a_cache_nothing_is_left(
    places: tuple[ModelFolder, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gguf_module, "_convert", lambda _, target, *__: write(target, {"config.json": b"{}"}))
    with unpacked(places[0], None) as folder:
        assert (folder.path / "config.json").exists()
    assert not folder.path.exists()


def test_weights_that_do_not_fit_the_memory_are_refused_before_they_are_read(tmp_path: Path) -> None:
    sizes = tiny_config(vocabulary=4096)
    file = tmp_path / "huge.gguf"
    writer = gguf.GGUFWriter(file, "llama")
    rows = ram().total // sizes.hidden_size
    writer.add_tensor_info("token_embd.weight", (rows, 32), torch.zeros(1).numpy().dtype, rows * 128)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    writer.close()
    with pytest.raises(
        ModelTooLarge, match=r"huge takes .* of memory in float32, and .* are free: choose a smaller"
    ):
        check_memory(ModelFolder(file, name="huge"), torch.float32)
    with pytest.raises(ModelTooLarge, match=r"huge takes .* of memory with quantised weights"):
        check_memory(ModelFolder(file, name="huge"), torch.float32, quantises=True)


@pytest.mark.parametrize(
    ("stored", "keeps", "quantises", "bits"),
    [
        ("F16", False, False, {"token_embd": 32, "blk.0.ffn_up": 32, "output_norm": 32}),
        ("F16", False, True, {"token_embd": 8, "blk.0.ffn_up": 8, "output_norm": 32}),
        ("F16", True, True, {"token_embd": 32, "blk.0.ffn_up": 32, "output_norm": 32}),
        ("Q4_0", True, True, {"token_embd": 4.5, "blk.0.ffn_up": 4.5, "output_norm": 32}),
        ("F16", True, True, {"blk.0.ffn_large": 8}),
        ("Q4_0", False, True, {"token_embd": 8, "blk.0.ffn_up": 8, "output_norm": 32}),
    ],
)
def test_memory_is_counted_in_the_form_in_which_weights_are_kept(
    stored: str, keeps: bool, quantises: bool, bits: dict[str, float]
) -> None:
    for name, each in bits.items():
        shape, kind = ((64,), "F32") if "norm" in name else ((2**16 if "large" in name else 64, 32), stored)
        header = GgufHeader({}, (GgufTensor(f"{name}.weight", kind, shape, 0, 0),), 0)
        assert header.bytes_in_memory(4, keeps, quantises=quantises) == prod(shape) * each / 8


@pytest.mark.thorough
def test_a_file_is_loaded_in_the_sandbox(places: tuple[ModelFolder, Path], sandbox: Sandbox) -> None:
    assert load(places[0], CPU, sandbox, places[1]).tokenizer.chat_template


def test_a_model_that_transformers_lacks_is_not_told_as_damage(tmp_path: Path) -> None:
    heads = {"architecture": "lfm2", "lfm2.attention.sliding_window": 8}
    file = write_gguf(tmp_path / "tiny.gguf", **heads)
    with pytest.raises(ModelBroken, match=r"window") as refused, unpacked(ModelFolder(file, "tiny"), None):
        pass
    assert "again" not in str(refused.value)


def test_a_file_is_unpacked_without_torch(
    places: tuple[ModelFolder, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "torch", {"__init__.py": b"raise SystemExit"})
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with (
        closing(Sandbox()) as own,
        unpacked(places[0], tmp_path / "cache", sandbox=own) as folder,
        unpacked(*places) as here,
    ):
        assert files(folder.path) == files(here.path) and "tokenizer.json" in files(here.path)


def files(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def test_a_cancelled_load_leaves_nothing_and_the_next_one_unpacks(
    places: tuple[ModelFolder, Path], tmp_path: Path
) -> None:
    def cancel(*_: object) -> None:
        raise LoadCancelled("Loading was cancelled.")

    with closing(Sandbox()) as own:
        with pytest.raises(LoadCancelled), unpacked(places[0], tmp_path, cancel, own):
            pass
        process = own._models._process
        assert not list(tmp_path.iterdir()) and (process is None or not process.is_running)
        with unpacked(places[0], tmp_path, sandbox=own) as folder:
            assert "tokenizer.json" in files(folder.path)
        assert len(list(tmp_path.iterdir())) == 1


def test_only_an_unpacking_is_interrupted(sandbox: Sandbox) -> None:
    sandbox.fill("hello", (), {})
    process = sandbox._models._process
    assert process
    sandbox._models.interrupt("gguf")
    assert process.is_running


def test_a_file_that_takes_too_long_is_refused_in_words(
    places: tuple[ModelFolder, Path], tmp_path: Path
) -> None:
    with (
        closing(Sandbox({**SECONDS, "gguf": 0.001})) as hasty,
        pytest.raises(
            ModelBroken, match=r"tiny cannot be read \(it takes more than 0\.001 seconds\): choose"
        ),
        unpacked(places[0], tmp_path, sandbox=hasty),
    ):
        pass
    assert not list(tmp_path.iterdir())
