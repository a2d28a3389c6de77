"""A folder becomes a model that can decode, or one sentence that says what is wrong with it."""

import json
import shutil
from collections.abc import Callable
from ctypes import CDLL
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import LlamaConfig, LlamaForCausalLM, MambaConfig

from app.engine.cpu_kernels.loading import cpu_kernels
from app.engine.loading.loading import compiler_note, load
from app.engine.loading.weights import placement, read_weights
from app.engine.machine.compiling import Compiled
from app.engine.runner.model_config import context_of
from app.engine.runner.runner import BlockRunner
from app.errors import AttentionUnavailable, BadOption, ModelBroken, ModelError, ModelUnsafe
from app.values.messages import ModelChoice, ModelFolder
from app.values.model import UNKNOWN_CONTEXT
from tests.engine.architectures import LLAMA
from tests.engine.tiny import DEMO, write_tiny

CPU = ModelChoice("tiny", dtype="float32", device="cpu")


@pytest.fixture(scope="session")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny(tmp_path_factory.mktemp("models") / "tiny").path


@pytest.fixture
def folder(pristine: Path, tmp_path: Path) -> ModelFolder:
    """A tiny model that the test may break."""
    path = Path(shutil.copytree(pristine, tmp_path / "tiny"))
    return ModelFolder(path, name="tiny", label="", revision="abc")


def edit_config(folder: Path, **changes: Any) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | changes))


def edit_weights(folder: Path, change: Callable[[dict[str, torch.Tensor]], object]) -> None:
    weights = load_file(folder / "model.safetensors")
    change(weights)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def test_a_whole_model_is_loaded_and_described(folder: ModelFolder) -> None:
    loaded = load(folder, CPU)
    info = loaded.info
    assert (info.name, info.revision, info.architecture) == ("tiny", "abc", "LlamaForCausalLM")
    assert (info.context, info.dtype, info.device, info.note("lookahead")) == (256, "float32", "cpu", "")
    assert info.parameters == sum(weight.numel() for weight in LlamaForCausalLM(_config(folder)).parameters())
    assert loaded.can_draft
    assert isinstance(loaded.runner, BlockRunner)
    assert loaded.eos_ids == {2}


def test_a_chosen_context_is_a_limit(folder: ModelFolder) -> None:
    own = load(folder, ModelChoice("tiny", "float32", "cpu"))
    shorter, longer = (
        load(folder, ModelChoice("tiny", "float32", "cpu", context=context)) for context in (64, 10_000)
    )
    assert (own.info.context, shorter.info.context, longer.info.context) == (256, 64, 256)


def _config(folder: ModelFolder) -> LlamaConfig:
    return LlamaConfig.from_pretrained(folder.path)


def test_weights_go_straight_to_a_card_where_accelerate_is_installed() -> None:
    card = torch.device("cuda")
    assert placement(card, lambda _name: object()) == {"device_map": {"": card}}
    assert placement(card, lambda _name: None) == {}
    assert placement(torch.device("cpu"), lambda _name: object()) == {}


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="the system does not tell what is mapped")
def test_weights_of_the_same_type_are_mapped_and_not_copied(folder: ModelFolder) -> None:
    model = read_weights(folder, LlamaConfig.from_pretrained(folder.path), torch.float32, {})
    lines = Path("/proc/self/maps").read_text().splitlines()
    ranges = [line.split()[0].split("-") for line in lines if str(folder.path / "model.safetensors") in line]
    places = [weight.data_ptr() for weight in model.parameters()]
    assert all(any(int(low, 16) <= at < int(high, 16) for low, high in ranges) for at in places)


def test_weights_of_8_bits_without_a_compiler_are_told_on_a_cpu_alone() -> None:
    def none() -> Compiled[CDLL]:
        return Compiled(None, "no compiler")

    int8, model = replace(CPU, quantisation="int8"), LLAMA.make()
    assert compiler_note(int8, model, none) == "no compiler"
    assert compiler_note(CPU, model, none) == compiler_note(int8, model.bfloat16(), none) == ""


def test_the_demo_model_is_loaded_by_the_same_code() -> None:
    loaded = load(ModelFolder(DEMO, "demo", "demo"), ModelChoice("demo", "bfloat16", "cpu"))
    assert (loaded.info.label, loaded.info.dtype, loaded.info.context) == ("demo", "bfloat16", 1024)
    assert (loaded.info.attention, loaded.info.note("attention")) == ("sdpa", "")
    assert loaded.can_draft


@pytest.mark.skipif(cpu_kernels() is None, reason="there is no C compiler here")
def test_weights_of_8_bits_take_the_precision_of_our_kernel_unless_another_is_chosen() -> None:
    folder, choice = ModelFolder(DEMO, "demo", "demo"), ModelChoice("demo", device="cpu", quantisation="int8")
    assert load(folder, choice).info.dtype == "float32"
    assert load(folder, replace(choice, dtype="bfloat16")).info.dtype == "bfloat16"


def test_attention_that_cannot_be_had_is_refused_with_a_sentence() -> None:
    with pytest.raises(AttentionUnavailable, match=r"flash cannot be used here: it is not installed"):
        load(ModelFolder(DEMO, "demo", "demo"), ModelChoice("demo", "bfloat16", "cpu", attention="flash"))


def test_every_id_that_ends_a_reply_is_found(folder: ModelFolder) -> None:
    edit_config(folder.path, eos_token_id=[2, 7])
    (folder.path / "generation_config.json").write_text(json.dumps({"eos_token_id": [2, 11]}))
    assert load(folder, CPU).eos_ids == {2, 7, 11}


def test_decoding_leaves_special_tokens_out(folder: ModelFolder) -> None:
    loaded = load(folder, CPU)
    ids = [*loaded.tokenizer("Hello there", add_special_tokens=False).input_ids, 2]
    assert loaded.decode(ids) == "Hello there"


def test_an_architecture_that_transformers_does_not_know_is_named(folder: ModelFolder) -> None:
    edit_config(folder.path, model_type="nonesuch")
    assert "nonesuch" in refusal(folder, ModelBroken)


def test_a_model_with_code_of_its_own_is_unsafe(folder: ModelFolder) -> None:
    edit_config(
        folder.path,
        model_type="homemade",
        auto_map={"AutoConfig": "configuration.Own", "AutoModelForCausalLM": "modeling.Own"},
    )
    (folder.path / "configuration.py").write_text("raise SystemExit('this code must not run')")
    assert "needs Python code of its own, which Foresight does not run" in refusal(folder, ModelUnsafe)


def test_a_config_that_is_no_json_is_refused(folder: ModelFolder) -> None:
    (folder.path / "config.json").write_text("{")
    refusal(folder, ModelBroken)


@pytest.mark.parametrize("kept", [0, 5, 200, -100])
def test_weights_that_were_cut_short_are_refused(folder: ModelFolder, kept: int) -> None:
    path = folder.path / "model.safetensors"
    path.write_bytes(path.read_bytes()[:kept])
    refusal(folder, ModelBroken)


def test_weights_with_a_garbled_header_are_refused(folder: ModelFolder) -> None:
    path = folder.path / "model.safetensors"
    path.write_bytes(b"\xff" * 64 + path.read_bytes()[64:])
    refusal(folder, ModelBroken)


def test_missing_tensors_are_counted_and_the_first_is_named(folder: ModelFolder) -> None:
    edit_weights(folder.path, lambda weights: weights.pop("model.layers.1.mlp.up_proj.weight"))
    sentence = refusal(folder, ModelBroken)
    assert "incomplete (missing: 1, the first is model.layers.1.mlp.up_proj.weight)" in sentence


def test_tensors_of_the_wrong_shape_are_refused(folder: ModelFolder) -> None:
    edit_config(folder.path, intermediate_size=40)
    sentence = refusal(folder, ModelBroken)
    assert "do not fit its config.json (of another size: 6, the first is model.layers.0.mlp.down" in sentence


def test_a_folder_without_a_tokenizer_is_refused(folder: ModelFolder) -> None:
    for file in folder.path.glob("tokenizer*"):
        file.unlink()
    refusal(folder, ModelBroken)


def test_pickled_weights_are_never_opened(folder: ModelFolder) -> None:
    (folder.path / "model.safetensors").unlink()
    (folder.path / "pytorch_model.bin").write_bytes(b"\x80\x04cos\nabort\n(tR.")
    refusal(folder, ModelError)


@pytest.mark.parametrize(
    "changes",
    [
        {"num_attention_heads": "four"},
        {"num_attention_heads": 0},
        {"hidden_size": -1},
        {"hidden_act": "nonesuch"},
        {"rope_parameters": "none"},
        {"eos_token_id": "end"},
        {"model_type": "bert"},
    ],
    ids=str,
)
def test_an_impossible_config_is_refused(folder: ModelFolder, changes: dict[str, Any]) -> None:
    edit_config(folder.path, **changes)
    refusal(folder, ModelBroken)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("tokenizer.json", "{"),
        ("tokenizer.json", "{}"),
        ("tokenizer.json", "[]"),
        ("tokenizer_config.json", "{"),
        ("tokenizer_config.json", "[]"),
    ],
)
def test_a_garbled_tokenizer_is_refused(folder: ModelFolder, name: str, text: str) -> None:
    (folder.path / name).write_text(text)
    refusal(folder, ModelBroken)


def test_weights_that_need_a_package_that_is_not_there_name_it(folder: ModelFolder) -> None:
    edit_config(folder.path, quantization_config={"quant_method": "gptq", "bits": 4})
    assert "optimum" in refusal(folder, ModelBroken)


def refusal(folder: ModelFolder, error: type[ModelError]) -> str:
    """The one line with which a folder is refused: it names the model and says what to do."""
    with pytest.raises(error) as caught:
        load(folder, CPU)
    sentence = str(caught.value)
    assert "tiny" in sentence
    assert sentence.endswith(".")
    assert "\n" not in sentence
    assert len(sentence) < 500
    return sentence


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a CUDA device")
def test_a_device_that_is_not_there_is_no_fault_of_the_model(folder: ModelFolder) -> None:
    with pytest.raises(BadOption, match="No CUDA device"):
        load(folder, ModelChoice("tiny", device="cuda"))


def test_a_stretched_rotary_table_stretches_the_context() -> None:
    dynamic = {"rope_type": "dynamic", "factor": 4.0, "rope_theta": 10_000.0}
    assert context_of(LlamaConfig(max_position_embeddings=100, rope_parameters=dynamic)) == 400
    assert context_of(LlamaConfig(max_position_embeddings=100)) == 100


def test_a_model_without_positions_gets_a_long_context() -> None:
    assert context_of(MambaConfig()) == UNKNOWN_CONTEXT
