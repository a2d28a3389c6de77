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

from app.engine.cpu_kernels import cpu_kernels
from app.engine.loading.loading import compiler_note, load
from app.engine.loading.weights import placement, read_weights
from app.engine.machine.compiling import Compiled
from app.engine.runner.model_config import context_of
from app.engine.runner.runner import BlockRunner
from app.engine.text.sandbox import Sandbox
from app.errors import AttentionUnavailable, BadOption, ModelBroken, ModelError, ModelUnsafe
from app.models_registry.files.config import chat_template
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


def test_a_whole_model_is_loaded_and_described(folder: ModelFolder) -> None:
    loaded = load(folder, CPU)
    info, own = loaded.info, LlamaConfig.from_pretrained(folder.path)
    assert (info.name, info.revision, info.architecture) == ("tiny", "abc", "LlamaForCausalLM")
    assert (info.context, info.dtype, info.device, info.note("lookahead")) == (256, "float32", "cpu", "")
    assert info.parameters == sum(weight.numel() for weight in LlamaForCausalLM(own).parameters())
    assert loaded.can_draft
    assert isinstance(loaded.runner, BlockRunner)
    assert loaded.eos_ids == {2}


def test_templates_that_only_have_names_are_used(folder: ModelFolder, sandbox: Sandbox) -> None:
    (folder.path / "chat_template.jinja").unlink(missing_ok=True)
    templates = folder.path / "additional_chat_templates"
    templates.mkdir()
    for name in ("rag", "chat"):
        (templates / f"{name}.jinja").write_text(f"{name}: {{{{ messages[0].content }}}}", encoding="utf-8")
    assert load(folder, CPU, sandbox).tokenizer.get_chat_template().startswith("chat")
    assert chat_template(folder.path).startswith("chat")


def test_a_chosen_context_is_a_limit(folder: ModelFolder) -> None:
    own = load(folder, ModelChoice("tiny", "float32", "cpu"))
    shorter, longer = (
        load(folder, ModelChoice("tiny", "float32", "cpu", context=context)) for context in (64, 10_000)
    )
    assert (own.info.context, shorter.info.context, longer.info.context) == (256, 64, 256)


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


Break = Callable[[Path], object]
"""Breaks something in a model's folder."""


def config(**changes: Any) -> Break:
    return lambda folder: edit_config(folder, **changes)


def file(name: str, text: str) -> Break:
    return lambda folder: (folder / name).write_text(text)


def weights(change: Callable[[bytes], bytes]) -> Break:
    def broken(folder: Path) -> None:
        path = folder / "model.safetensors"
        path.write_bytes(change(path.read_bytes()))

    return broken


def without_a_tensor(folder: Path) -> None:
    found = load_file(folder / "model.safetensors")
    del found["model.layers.1.mlp.up_proj.weight"]
    save_file(found, folder / "model.safetensors", metadata={"format": "pt"})


def without_a_tokenizer(folder: Path) -> None:
    for path in folder.glob("tokenizer*"):
        path.unlink()


def with_code(folder: Path) -> None:
    auto_map = {"AutoConfig": "configuration.Own", "AutoModelForCausalLM": "modeling.Own"}
    edit_config(folder, model_type="homemade", auto_map=auto_map)
    (folder / "configuration.py").write_text("raise SystemExit('this code must not run')")


def pickled(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(b"\x80\x04cos\nabort\n(tR.")


UNBUILT = "transformers cannot build the model that the config.json of tiny describes ("
BROKEN: dict[str, tuple[Break, type[ModelError], str]] = {
    "unknown architecture": (config(model_type="nonesuch"), ModelBroken, "nonesuch"),
    "no causal model": (config(model_type="bert"), ModelBroken, ""),
    "heads in words": (config(num_attention_heads="four"), ModelBroken, UNBUILT),
    "no heads": (config(num_attention_heads=0), ModelBroken, UNBUILT),
    "negative size": (config(hidden_size=-1), ModelBroken, ""),
    "unknown activation": (
        config(hidden_act="nonesuch"),
        ModelBroken,
        f"{UNBUILT}hidden_act is 'nonesuch', which it does not know)",
    ),
    "unknown rotation": (
        config(rope_scaling={"type": "nonesuch", "factor": 2.0}, rope_parameters=None),
        ModelBroken,
        f"{UNBUILT}rope_scaling.type is 'nonesuch'",
    ),
    "rotation without a factor": (
        config(rope_parameters={"rope_type": "yarn", "rope_theta": 1e4}),
        ModelBroken,
        f"{UNBUILT}Missing required keys in `rope_parameters` for 'rope_type'='yarn': {{'factor'}}",
    ),
    "unknown kind of layers": (
        config(layer_types=["nonesuch"] * 2),
        ModelBroken,
        "`layer_types` entries must be in",
    ),
    "unknown rotary table": (config(rope_parameters="none"), ModelBroken, UNBUILT),
    "end in words": (config(eos_token_id="end"), ModelBroken, ""),
    "missing package": (
        config(quantization_config={"quant_method": "gptq", "bits": 3}),
        ModelBroken,
        "optimum",
    ),
    "config no JSON": (file("config.json", "{"), ModelBroken, ""),
    "tokenizer no JSON": (file("tokenizer.json", "{"), ModelBroken, ""),
    "tokenizer empty": (file("tokenizer.json", "{}"), ModelBroken, ""),
    "tokenizer a list": (file("tokenizer.json", "[]"), ModelBroken, ""),
    "tokenizer_config no JSON": (file("tokenizer_config.json", "{"), ModelBroken, ""),
    "tokenizer_config a list": (file("tokenizer_config.json", "[]"), ModelBroken, ""),
    "no tokenizer": (without_a_tokenizer, ModelBroken, ""),
    **{
        f"weights cut to {kept}": (weights(lambda whole, kept=kept: whole[:kept]), ModelBroken, "")  # type: ignore[misc]
        for kept in (0, 5, 200, -100)
    },
    "garbled header": (weights(lambda whole: b"\xff" * 64 + whole[64:]), ModelBroken, ""),
    "missing tensor": (
        without_a_tensor,
        ModelBroken,
        "incomplete (missing: 1, the first is model.layers.1.mlp.up_proj.weight)",
    ),
    "wrong shapes": (
        config(intermediate_size=40),
        ModelBroken,
        "do not fit its config.json (of another size: 6, the first is model.layers.0.mlp.down",
    ),
    "own code": (with_code, ModelUnsafe, "needs Python code of its own, which Foresight does not run"),
    "pickled weights": (pickled, ModelError, ""),
}


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
def test_a_broken_folder_is_refused_in_one_line_that_names_the_model(
    folder: ModelFolder, broken: tuple[Break, type[ModelError], str]
) -> None:
    break_folder, error, words = broken
    break_folder(folder.path)
    with pytest.raises(error) as caught:
        load(folder, CPU)
    sentence = str(caught.value)
    assert words in sentence
    assert "tiny" in sentence
    assert sentence.endswith(".")
    assert "\n" not in sentence
    assert len(sentence) < 500


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
