"""A GGUF file's matrices stay packed on a CPU: the file's own numbers, and the same text on and off."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoConfig, LlamaForCausalLM, PreTrainedModel

from app.engine.cpu_kernels import packed_kernels
from app.engine.decoders.lookahead_decoder import make_lookahead
from app.engine.layers.packed_layers import Pack, PackedEmbedding, PackedExperts, PackedLinear, dense
from app.engine.layers.packed_weight import CpuPacker
from app.engine.layers.quantisation import quantised
from app.engine.loading.loading import load
from app.engine.loading.weights import read_weights
from app.engine.measuring.step_timing import ANY_ROWS, profile_steps
from app.engine.runner.runner import BlockRunner
from app.engine.text.gguf_config import config_of
from app.engine.text.prompt import encode
from app.values.gguf_header import read_gguf_header
from app.values.messages import Decoding, ModelChoice, ModelFolder
from tests.engine.attention.cases import DEVICE
from tests.engine.loading.test_gguf_weights import CASES, VALUES, random_model
from tests.engine.replies import GREEDY, says_plainly, write
from tests.engine.tiny import tiny_config
from tests.gguf_models import DEMO, tiny_llama, write_gguf, write_tensors

pytestmark = pytest.mark.skipif(packed_kernels() is None, reason="there is no C compiler here")


def read(file: Path, pack: Pack | None = None) -> PreTrainedModel:
    config_of(read_gguf_header(file)).save_pretrained(file.parent)
    config = AutoConfig.from_pretrained(file.parent)
    return read_weights(
        ModelFolder(file.parent, "tiny", gguf=file), config, torch.float32, {}, pack=pack
    ).eval()


def with_experts(name: str, stored: str, folder: Path) -> list[tuple[Path, Pack | None]]:
    """The same file twice, to be read without and with packed weights."""
    architecture, kind, config, values, store = CASES[name]
    tensors = store(random_model(kind, {**config, **STACKS[name]}).state_dict())
    values = {**VALUES, **values, "expert_feed_forward_length": 32}
    file = write_tensors(folder / "x.gguf", architecture, values, tensors, stored)
    return [(file, None), (file, CpuPacker())]


@pytest.mark.parametrize("name", CASES)
def test_kept_weights_are_those_that_a_dense_reading_finds(name: str, tmp_path: Path) -> None:
    architecture, kind, config, values, store = CASES[name]
    tensors = store(random_model(kind, config).state_dict())
    file = write_tensors(tmp_path / "x.gguf", architecture, {**VALUES, **values}, tensors, "Q4_1")
    dense, kept = read(file), read(file, CpuPacker())
    layers = {path: layer for path, layer in kept.named_modules() if isinstance(layer, PackedLinear)}
    for path, layer in layers.items():
        linear = dense.get_submodule(path)
        assert torch.equal(layer.weight, linear.weight)
        assert (layer.bias is None and linear.bias is None) or torch.equal(layer.bias, linear.bias)
    ids = torch.arange(3, 67)[None] % 96
    with torch.no_grad():
        wanted, found = dense(ids).logits, kept(ids).logits
    assert (found - wanted).norm() <= 0.2 * wanted.norm()


STACKS = {
    "experts": {"moe_intermediate_size": 32}, "turns": {"intermediate_size": 32},
    "latent": {"moe_intermediate_size": 32},
}  # fmt: skip


@pytest.mark.parametrize("name", STACKS)
@pytest.mark.parametrize("stored", ["Q4_0", "Q8_0", "MXFP4"])
def test_experts_stay_packed_with_the_files_numbers(name: str, stored: str, tmp_path: Path) -> None:
    dense_model, kept = (read(one, pack) for one, pack in with_experts(name, stored, tmp_path))
    layers = {path: one for path, one in kept.named_modules() if isinstance(one, PackedExperts)}
    assert layers
    for path, layer in layers.items():
        experts: Any = dense_model.get_submodule(path)
        for packed, matrix in zip(
            layer.packed.values(), (experts.gate_up_proj, experts.down_proj), strict=True
        ):
            rows = matrix.transpose(1, 2) if experts.is_transposed else matrix
            assert torch.equal(dense(packed), rows.reshape(packed.shape))
    ids = torch.arange(3, 67)[None] % 96
    with torch.no_grad():
        wanted, found = dense_model(ids).logits, kept(ids).logits
    assert (found - wanted).norm() <= 0.1 * wanted.norm()


@pytest.mark.parametrize("name", STACKS)
def test_a_rows_experts_do_not_depend_on_its_neighbours(name: str, tmp_path: Path) -> None:
    (_, (file, pack)) = with_experts(name, "Q4_0", tmp_path)
    layer = next(one for one in read(file, pack).modules() if isinstance(one, PackedExperts))
    source = torch.Generator().manual_seed(0)
    states = torch.randn((24, 32), generator=source)
    chosen = torch.stack([torch.randperm(4, generator=source)[:2] for _ in states])
    shares = torch.rand((24, 2), generator=source)
    with torch.no_grad():
        together = layer(states, chosen, shares)
        alone = [layer(states[i : i + 1], chosen[i : i + 1], shares[i : i + 1]) for i in range(len(states))]
    assert torch.equal(together, torch.cat(alone))


@pytest.mark.parametrize(("name", "is_native"), [("experts", True), ("turns", False)])
def test_a_mixture_writes_the_same_text_in_steps_of_all_sizes_if_its_attention_is_ours(
    name: str, is_native: bool, tmp_path: Path
) -> None:
    architecture, kind, config, values, store = CASES[name]
    vocabulary = json.loads((DEMO / "config.json").read_text())["vocab_size"]
    tensors = store(random_model(kind, {**config, **STACKS[name], "vocab_size": vocabulary}).state_dict())
    values = {**VALUES, **values, "expert_feed_forward_length": 32, "context_length": 512}
    file = write_tensors(tmp_path / "x.gguf", architecture, values, tensors, "Q4_0", has_tokenizer=True)
    loaded = load(ModelFolder(file, "tiny"), ModelChoice("tiny", device="cpu"))
    runner = loaded.runner
    assert isinstance(runner, BlockRunner) and runner.attention.name == "native"
    is_any = profile_steps(runner, lambda _done, _total: None).bucket_sets == (ANY_ROWS,)
    assert is_any == is_native
    prompt = encode(loaded.tokenizer, "How do I list the files of a folder?", loaded.info.context)
    expected = says_plainly(runner, prompt, GREEDY, limit=24).tokens
    for rows in (5, 40):
        runner.forget()
        ahead = make_lookahead(Decoding("auto", rows=rows))
        assert write(runner, prompt, ahead, GREEDY, limit=24).tokens == expected


def test_a_tied_head_and_the_embedding_are_one_packed_weight(tmp_path: Path) -> None:
    architecture, kind, config, values, store = CASES["minus one"]
    tensors = store(random_model(kind, config).state_dict())
    file = write_tensors(tmp_path / "x.gguf", architecture, {**VALUES, **values}, tensors, "Q8_0")
    kept = read(file, CpuPacker())
    table, head = kept.get_input_embeddings(), kept.get_output_embeddings()
    assert isinstance(table, PackedEmbedding) and isinstance(head, PackedLinear)
    assert table.packed is head.packed


@pytest.mark.parametrize("kind", ["F16", "BF16", "F32"])
def test_a_large_embedding_of_floats_is_quantised_unless_none_is_chosen(kind: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = LlamaForCausalLM(tiny_config(hidden=512))
    file = write_gguf(tmp_path / "tiny.gguf", model, kinds=[kind, "Q4_0"])
    folder, cache = ModelFolder(file, "tiny"), tmp_path / "cache"
    loaded, floats = (
        load(folder, ModelChoice("tiny", device="cpu", quantisation=chosen), cache=cache)
        for chosen in ("auto", "none")
    )
    table, dense_table = (one.runner.model.get_input_embeddings() for one in (loaded, floats))  # type: ignore[attr-defined]
    assert isinstance(table, PackedEmbedding) and isinstance(dense_table, torch.nn.Embedding)
    assert torch.equal(dense(table.packed), quantised(dense_table.weight, 8, torch.device("cpu")).dense())
    assert loaded.info.note("quantised") and not floats.info.note("quantised")
    assert floats.info.kept_bits == 4.5 and loaded.info.kept_bits > 4.5
    prompt = encode(loaded.tokenizer, "How do I list the files of a folder?", loaded.info.context)
    expected = says_plainly(loaded.runner, prompt, GREEDY, limit=24).tokens
    loaded.runner.forget()
    ahead = make_lookahead(Decoding("auto", rows=20))
    assert write(loaded.runner, prompt, ahead, GREEDY, limit=24).tokens == expected


@pytest.mark.parametrize("kind", ["Q4_1", "Q8_0"])
def test_weights_that_stay_packed_on_a_gpu_are_those_of_a_dense_reading(kind: str, tmp_path: Path) -> None:
    pytest.importorskip("triton", reason="triton is not installed")
    from app.engine.layers.packed_weight_triton import pack_for_gpu

    architecture, model, config, values, store = CASES["minus one"]
    tensors = store(random_model(model, config).state_dict())
    file = write_tensors(tmp_path / "x.gguf", architecture, {**VALUES, **values}, tensors, kind)
    dense, kept = read(file), read(file, partial(pack_for_gpu, device=DEVICE)).to(DEVICE)
    assert any(isinstance(layer, PackedLinear) for layer in kept.modules())
    ids = torch.arange(3, 8)[None]
    with torch.no_grad():
        wanted, found = dense(ids).logits, kept(ids.to(DEVICE)).logits.cpu()
    assert (found - wanted).norm() <= 1e-5 * wanted.norm()


def test_the_text_is_the_same_with_lookahead_and_a_chosen_precision_dequantises(tmp_path: Path) -> None:
    kinds = ["Q4_0", "Q5_1", "Q8_0", "MXFP4"]
    file = write_gguf(tmp_path / "tiny.gguf", tiny_llama(layers=len(kinds)), kinds=kinds)
    folder, cache = ModelFolder(file, "tiny"), tmp_path / "cache"
    loaded = load(folder, ModelChoice("tiny", device="cpu"), cache=cache)
    assert 4 < loaded.info.kept_bits < 9 and "bits per weight" in loaded.info.weights
    assert loaded.info.dtype == "float32" and loaded.info.attention == "native"
    prompt = encode(loaded.tokenizer, "How do I list the files of a folder?", loaded.info.context)
    expected = says_plainly(loaded.runner, prompt, GREEDY, limit=24).tokens
    for rows in (5, 40):
        loaded.runner.forget()
        ahead = make_lookahead(Decoding("auto", rows=rows))
        assert write(loaded.runner, prompt, ahead, GREEDY, limit=24).tokens == expected
    chosen = load(folder, ModelChoice("tiny", "bfloat16", "cpu"), cache=cache)
    assert chosen.info.kept_bits == 0 and chosen.info.dtype == "bfloat16"
