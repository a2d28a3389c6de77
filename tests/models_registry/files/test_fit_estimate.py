"""The estimate's arithmetic, and the verdicts. How true it is `labs/memory_fit.py` measures."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from transformers import LlamaForCausalLM

from app.engine.graphs.captured_steps import BUCKETS
from app.engine.runner.runner import CUDA_PREFILL_CHUNK
from app.errors import ModelBroken
from app.models_registry.files import fit_estimate
from app.models_registry.files.config import parse_config, read_config
from app.models_registry.files.fit_estimate import (
    CHUNK,
    KEPT_INPUTS,
    LOOKAHEAD_ROWS,
    Estimator,
    fit_on_device,
    judge,
    judge_folder,
)
from app.models_registry.files.weights import Tensor, Weights, check_model, read_weights, tensors
from app.settings import assets_dir
from app.system.machine import memories
from app.values.messages import ModelFolder
from app.values.model import USABLE, Memory, Precision, gigabytes
from tests.engine.tiny import tiny_config, with_tokenizer
from tests.quantised_checkpoints import CONFIGS, write_quantised

GIB = 1 << 30
LLAMA_8B = {
    "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256, "max_position_embeddings": 131072,
}  # fmt: skip


def estimator(device: str = "cuda:0", **changed: object) -> Estimator:
    shape = parse_config(json.dumps(LLAMA_8B | changed).encode(), "org/llama")
    table = (128_256, 4096)
    tensors = (
        Tensor("model.embed_tokens.weight", "BF16", table),
        Tensor("model.layers.weight", "BF16", (1_703_936, 4096)),
        Tensor("model.norm.weight", "BF16", (266_240,)),
        Tensor("lm_head.weight", "BF16", table),
    )
    return Estimator(shape, Weights(tensors), device, packs=True)


def test_an_8b_model_takes_what_its_makers_say() -> None:
    need = estimator().need("bfloat16", 8192)
    assert need.weights == 16_060_522_496
    assert need.cache == (8192 + CHUNK) * 2 * 32 * 8 * 128 * 2
    assert need.total == need.weights + need.cache + need.rows + need.runtime
    assert estimator().need("float32", 8192).weights == 2 * need.weights


def test_a_draft_model_counts_with_its_weights_and_its_cache() -> None:
    alone, draft = estimator("cpu"), estimator("cpu", num_hidden_layers=8)
    both = replace(alone, draft_models=(draft,))
    one, other, together = (each.need("bfloat16", 4096) for each in (alone, draft, both))
    assert together.weights == one.weights + other.weights
    assert together.cache == one.cache + other.cache
    assert (together.runtime, together.rows) == (one.runtime, max(one.rows, other.rows))
    peaks = [each.peak("bfloat16", 4096) for each in (alone, both)]
    assert peaks[1] - peaks[0] >= other.weights + other.cache
    assert both.longest_context("bfloat16", 24 * GIB) < alone.longest_context("bfloat16", 24 * GIB)


def test_quantised_weights_take_what_the_engine_makes_of_them() -> None:
    tables, layers, norms = 2 * 128_256 * 4096, 1_703_936 * 4096, 266_240 * 2
    assert estimator().need("int8", 64).weights == tables + layers + norms + (2 * 128_256 + 1_703_936) * 2
    # Half a byte and a scale and an offset for each 32; embedding and head stay in 8 bits.
    assert estimator().need("int4", 64).weights == tables + 2 * 128_256 * 2 + layers * 5 // 8 + norms


def test_beside_quantised_weights_activations_take_four_bytes_on_a_cpu_and_two_on_a_gpu() -> None:
    for precision in ("int8", "int4"):
        on_cpu, on_gpu = (estimator(device).need(precision, 4096) for device in ("cpu", "cuda:0"))  # type: ignore[arg-type]
        in_float32, in_half = (
            estimator(device).need(width, 4096)  # type: ignore[arg-type]
            for device, width in (("cpu", "float32"), ("cuda:0", "bfloat16"))
        )
        assert (on_cpu.cache, on_cpu.rows) == (in_float32.cache, in_float32.rows)
        assert (on_gpu.cache, on_gpu.rows) == (in_half.cache, in_half.rows)
    tables, layers, norms = 2 * 128_256 * 4096, 1_703_936 * 4096, 266_240 * 4
    assert (
        estimator("cpu").need("int8", 64).weights == tables + layers + norms + (2 * 128_256 + 1_703_936) * 4
    )


def test_a_tied_head_that_is_stored_is_quantised_once() -> None:
    tied = estimator(tie_word_embeddings=True)
    once = estimator().need("int8", 64).weights - tied.need("int8", 64).weights
    assert once == 128_256 * 4096 + 128_256 * 2


@pytest.mark.parametrize(
    ("free", "verdict", "words"),
    [
        (80, "fits", "Fits: it needs about 18 GB, and 86 GB of the memory of cuda:0 are free."),
        (12, "fits with int4", "Fits only with int4: in bfloat16 it needs about 18 GB"),
        (2, "too big", "Too big with 8,192 tokens of context"),
    ],
)
def test_the_verdict_is_in_words(free: int, verdict: str, words: str) -> None:
    fit = judge(estimator(), Memory("cuda:0", free * GIB, 80 * GIB), "bfloat16", 8192)
    assert fit.verdict == verdict and fit.sentence.startswith(words), fit.sentence


def test_the_longest_context_is_the_longest_that_fits() -> None:
    model = estimator()
    free = 24 * GIB
    longest = model.longest_context("bfloat16", free)
    assert 0 < longest < 131_072
    assert model.need("bfloat16", longest).total <= free < model.need("bfloat16", longest + CHUNK).total
    assert model.longest_context("bfloat16", 200 * GIB) == 131_072
    assert model.longest_context("bfloat16", GIB) == 0


def test_a_context_that_is_too_long_says_which_would_fit() -> None:
    fit = judge(estimator(), Memory("cuda:0", 24 * GIB, 24 * GIB), "bfloat16", 10**9)
    assert fit.context == 131_072 and fit.longest_context > 0
    assert f"A context of {fit.longest_context:,} tokens would fit." in fit.sentence


def test_a_tied_head_is_counted_once_however_it_is_stored() -> None:
    without = Weights((Tensor("model", "BF16", (1_000_000_000,)),))
    shape = estimator(tie_word_embeddings=True).shape
    stored = Weights((*without.tensors, Tensor("lm_head.weight", "BF16", (shape.vocabulary, shape.hidden))))
    needs = [Estimator(shape, weights, "cuda:0").need("bfloat16", 1).weights for weights in (without, stored)]
    assert needs == [2_000_000_000, 2_000_000_000]


def test_the_need_grows_with_the_context_and_never_falls() -> None:
    for device in ("cpu", "cuda:0"):
        totals = [estimator(device).need("bfloat16", context).total for context in range(1, 20_000, 333)]
        assert totals == sorted(totals)


def test_on_a_cpu_a_process_shows_the_pages_of_its_file_too() -> None:
    model = estimator("cpu")
    assert model.peak("bfloat16", 64) - model.need("bfloat16", 64).total == pytest.approx(15e9, rel=0.01)
    # Converted, the file is let go of before anything else is needed.
    loading = 4 * model.weights.numbers + model.weights.size
    assert model.peak("float32", 64) - loading == pytest.approx(485e6, rel=0.01)
    assert estimator().peak("bfloat16", 64) == estimator().need("bfloat16", 64).total


@pytest.mark.parametrize("has_sinks", [False, True])
def test_soft_capped_scores_and_sinks_are_written_out_in_float32_on_a_cpu(has_sinks: bool) -> None:
    plain = estimator("cpu")
    weights = Weights((*plain.weights.tensors, Tensor("layers.0.self_attn.sinks", "BF16", (32,))))
    special = (
        replace(plain, weights=weights)
        if has_sinks
        else replace(plain, shape=estimator("cpu", attn_logit_softcapping=50.0).shape)
    )
    context = 8_192
    more = special.need("bfloat16", context).rows - plain.need("bfloat16", context).rows
    scores, masks = 3 * 512 * context * 32 * 4, 512 * context * 4 * 6
    assert more == scores + 512 * context - masks
    on_gpu, plain_on_gpu = (replace(one, device="cuda:0", has_triton=True) for one in (special, plain))
    assert on_gpu.need("bfloat16", context).rows == plain_on_gpu.need("bfloat16", context).rows


def test_a_gpu_reads_a_prompt_in_larger_parts_and_keeps_what_recorded_steps_write() -> None:
    backend = pytest.importorskip("app.engine.attention.triton_backend", reason="triton is not installed")
    sizes = (fit_estimate.GPU_CHUNK, fit_estimate.RECORDED_ROWS, fit_estimate.SCRATCH, fit_estimate.SPAN)
    assert sizes == (CUDA_PREFILL_CHUNK, sum(BUCKETS), backend.SCRATCH, backend.SPAN)
    context, row, logits = 8_192, (4 * 4096 + 3 * 14336) * 2, 128_256 * 2
    ours, torchs = (replace(estimator(), has_triton=is_ours) for is_ours in (True, False))
    # Of 128 rows, attention needs all that it may allocate.
    recorded = 345 * (row + logits) + 128 * logits + (345 << 26) // 128 + (1 << 25)
    assert ours.need("bfloat16", context).rows == 1024 * row + (1 << 26) + recorded
    assert torchs.need("bfloat16", context).rows == 1024 * (row + context * 4 * 6)
    drafted = replace(ours, draft_models=(ours,))
    assert drafted.need("bfloat16", context).rows == 1024 * row + (1 << 26) + 2 * recorded


def test_the_demo_model_fits_from_its_files_alone() -> None:
    memory = Memory("cpu", 4 * GIB, 8 * GIB)
    fit = judge_folder(assets_dir() / "demo-model", "demo", memory, "float32", 4096)
    assert (fit.verdict, fit.context, fit.longest_context) == ("fits", 1024, 1024)
    assert "Its whole context of 1,024 tokens fits." in fit.sentence


def test_a_device_is_judged_by_its_name(tmp_path: Path) -> None:
    demo = ModelFolder(assets_dir() / "demo-model", "demo")
    fit = fit_on_device(demo, "float32", "cpu", 0)
    assert fit and fit.verdict == "fits"
    assert fit_on_device(demo, "float32", "cuda:99", 0) is None, "nobody knows this device"
    assert fit_on_device(ModelFolder(tmp_path, "empty"), "float32", "cpu", 0) is None, "loading says why not"


def test_what_a_card_has_no_room_for_may_stay_in_main_memory() -> None:
    memory = Memory("cuda:0", 12 * GIB, 12 * GIB)
    fit = judge(estimator(), memory, "bfloat16", 4096)
    embedding, in_part = 2 * 128_256 * 4096, replace(estimator(), has_triton=False).need("bfloat16", 4096)
    assert fit.room == int(memory.free * 0.9) - (in_part.total - in_part.weights), "torch's kernels run"
    assert fit.offloaded == fit.need.weights - fit.room + embedding, "room is kept for what is copied"
    assert fit.sentence.endswith(
        "With --offload about 6.94 GB of its weights stay in main memory and are copied to the GPU in each step, "
        "which takes about 0.7 s (at 10 GB a second)."
    )
    drafted = judge(
        replace(estimator(), draft_models=(estimator(num_hidden_layers=8),)), memory, "bfloat16", 4096
    )
    assert drafted.offloaded == 0, "a draft model is on the card, and this one leaves no room there"


@pytest.mark.parametrize(
    ("device", "precision", "gigabytes"),
    [("cuda:0", "bfloat16", 80), ("cuda:0", "bfloat16", 2), ("cuda:0", "int8", 4), ("cpu", "bfloat16", 4)],
    ids=["fits", "has no room even for its embedding", "quantised", "no card"],
)
def test_nothing_stays_there_that_need_not_or_cannot(
    device: str, precision: Precision, gigabytes: int
) -> None:
    memory = Memory(device, gigabytes * GIB, gigabytes * GIB)
    fit = judge(estimator(device), memory, precision, 4096)
    assert fit.offloaded == 0 and "--offload" not in fit.sentence


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (
            {"n_layer": 12, "n_embd": 768, "n_head": 12, "n_positions": 1024, "vocab_size": 50257},
            (12, 768, 12, 64, 1024),
        ),
        ({"text_config": LLAMA_8B, "model_type": "wrapped"}, (32, 4096, 8, 128, 131072)),
        ({"num_hidden_layers": 2, "hidden_size": 64, "vocab_size": 10}, (2, 64, 1, 64, 32768)),
    ],
)
def test_older_and_wrapped_configs_are_read(config: dict[str, object], expected: tuple[int, ...]) -> None:
    shape = parse_config(json.dumps(config).encode(), "org/x")
    assert (shape.layers, shape.hidden, shape.key_heads, shape.head_size, shape.context) == expected


DELTA_NET = {
    **{"linear_num_value_heads": 32, "linear_key_head_dim": 128, "linear_value_head_dim": 128},
    **{"linear_num_key_heads": 16, "linear_conv_kernel_dim": 4},
}
KIMI = {"linear_num_heads": 32, "linear_head_dim": 128}
MAMBA = {"mamba_n_heads": 128, "mamba_d_head": 64, "mamba_d_state": 128, "mamba_n_groups": 1}


@pytest.mark.parametrize(
    ("config", "attending", "state"),
    [
        ({"full_attention_interval": 4, **DELTA_NET}, 8, 24 * (32 * 128 * 128 + 3 * 64 * 128)),
        ({"layer_types": ["linear_attention", "full_attention"] * 16, **DELTA_NET}, 16, 16 * 548_864),
        ({"layer_types": ["linear_attention", "full_attention"] * 16, **KIMI}, 16, 16 * 561_152),
        ({"layer_types": ["conv"] * 22 + ["full_attention"] * 10, "conv_L_cache": 3}, 10, 22 * 2 * 4096),
        ({"attn_layer_indices": [9, 18, 27], **MAMBA}, 3, 29 * (128 * 64 * 128 + 3 * 128 * 66)),
        (MAMBA, 32, 32 * (128 * 64 * 128 + 3 * 128 * 66)),
        (
            {
                "hybrid_override_pattern": "M-M*" * 8,
                "mamba_num_heads": 8,
                "mamba_head_dim": 4,
                "ssm_state_size": 2,
            },
            8,
            16 * (64 + 3 * 32),
        ),
        ({"attn_layer_period": 8, "mamba_d_state": 16}, 4, 0),
        ({"attn_layer_period": 8, "mamba_d_state": 16, "mamba_expand": 2}, 4, 28 * 2 * 4096 * (16 + 3)),
        ({"block_types": ["recurrent", "recurrent", "attention"]}, 10, 0),
        ({"model_type": "rwkv"}, 0, 32 * 5 * 4096),
        ({"model_type": "xlstm", "num_attention_heads": None, "num_heads": 8}, 0, 32 * (2048 * 513 + 8)),
        (
            {"model_type": "minimax", "layer_types": ["linear_attention", "full_attention"] * 16},
            16,
            16 * 32 * 128 * 128,
        ),
        (
            {"model_type": "recurrent_gemma", "block_types": ["recurrent", "attention"], "lru_width": 2560},
            16,
            16 * 2560 * 4,
        ),
        ({"num_heads": 80, "head_dim": 64, "state_size": 128}, 0, 32 * 80 * 64 * (128 + 3)),
        (
            {"num_key_value_heads": [0, 8] * 16, "mamba_d_ssm": 3072, "mamba_d_state": 128},
            16,
            16 * 3072 * (128 + 3),
        ),
        ({"layer_types": ["sliding_attention", "full_attention"] * 16}, 32, 0),
        ({"layer_types": [None, 5, {}], "mamba_d_ssm": -1, "mamba_d_state": "x"}, 3, 0),
    ],
)
def test_recurrent_layers_have_a_state_and_no_keys(
    config: dict[str, object], attending: int, state: int
) -> None:
    shape = parse_config(json.dumps(LLAMA_8B | config).encode(), "org/hybrid")
    assert shape.state == state
    assert shape.cached == 2 * attending * shape.key_heads * shape.head_size


def test_what_recurrent_layers_keep_of_a_steps_rows_counts() -> None:
    config = {"layer_types": ["linear_attention", "full_attention"] * 16, **DELTA_NET}
    hybrid = estimator("cpu", **config)
    assert hybrid.shape.inputs == 16 * 128 * (32 + 2 * 16)
    without = replace(hybrid, shape=replace(hybrid.shape, inputs=0))
    more = hybrid.need("float32", 128).rows - without.need("float32", 128).rows
    assert more == LOOKAHEAD_ROWS * KEPT_INPUTS * hybrid.shape.inputs * 4


KINDS = ["sliding_attention"] * 5 + ["full_attention"]
LATENT = {"kv_lora_rank": 512, "qk_rope_head_dim": 64}


@pytest.mark.parametrize(
    ("config", "numbers"),
    [
        ({"model_type": "deepseek_v3", "num_hidden_layers": 61, **LATENT}, 61 * 576),
        ({"model_type": "longcat_flash", "num_hidden_layers": None, "num_layers": 28, **LATENT}, 56 * 576),
        ({"num_hidden_layers": 61, **LATENT, "index_head_dim": 128}, 61 * (576 + 128)),
        (
            {"layer_types": ["linear_attention", "indexed_attention"] * 16, "kv_lora_rank": 512,
             "index_head_dim": 128, "index_kpool": 16},
            16 * (512 + 257),
        ),
        ({"head_dim": 64, "indexer_kv_heads": 2, "indexer_head_dim": 32}, 32 * (2 * 8 * 64 + 2 * 32)),
        (  # published: attention and MLP are listed as two layers, and the middle of the model is passed twice
            {"layer_types": ["full_attention", "mlp"] * 16, "num_hidden_layers": 32, "n_input_layers": 8,
             "n_output_layers": 8, "head_dim": 128, "n_recurrent_layers": 16, "n_recurrent_loops": 2},
            (4 + 2 * 8 + 4) * 2 * 8 * 128,
        ),
        ({"layer_types": KINDS * 5, "head_dim": 256, "num_kv_shared_layers": 10}, 20 * 2 * 8 * 256),
        (
            {"layer_types": KINDS * 5, "head_dim": 256, "global_head_dim": 512, "num_global_key_value_heads": 2},
            25 * 2 * 8 * 256 + 5 * 2 * 2 * 512,
        ),
        (
            {"layer_types": KINDS * 5, "head_dim": 64, "per_layer_config": {"05": {"head_dim": 512}}},
            29 * 2 * 8 * 64 + 2 * 8 * 512,
        ),
        (  # the sizes of a layer are found by its number among all layers
            {"layer_types": ["linear_attention", "full_attention"] * 16, "head_dim": 64,
             "per_layer_config": {"03": {"head_dim": 512}}},
            15 * 2 * 8 * 64 + 2 * 8 * 512,
        ),
        (
            {"layer_types": ["chunked_attention"] * 32, "head_dim": 64,
             "per_layer_config": {"05": {"head_dim": 512}}},
            31 * 2 * 8 * 64 + 2 * 8 * 512,
        ),
        ({"head_dim": 192, "v_head_dim": 128}, 32 * 8 * (192 + 128)),
        ({"multi_query": True, "num_key_value_heads": None}, 32 * 2 * 128),
        ({"num_kv_shared_layers": -1, "kv_lora_rank": "x", "per_layer_config": {"00": 7}}, 32 * 2 * 8 * 128),
    ],
)  # fmt: skip
def test_the_cache_counts_what_each_layer_keeps(config: dict[str, object], numbers: int) -> None:
    assert parse_config(json.dumps(LLAMA_8B | config).encode(), "org/x").cached == numbers


@pytest.mark.parametrize(
    ("stored", "sizes"),
    [("F32", (-1,)), ("F32", ("x",)), ("F32", (2**60,)), ("F32", (1,) * 9), ("Q4_Z", (1,))],
)
def test_a_tensor_that_cannot_be_is_refused(stored: str, sizes: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="it is"):
        Tensor("t", stored, sizes)


def test_a_newer_type_of_numbers_is_not_told_as_damage() -> None:
    header = {"w": {"dtype": "F6_E3M2", "shape": [4], "data_offsets": [0, 3]}}
    with pytest.raises(ModelBroken, match=r"does not know \(F6_E3M2\): .* update Foresight") as refused:
        list(tensors(header, "tiny"))
    assert "again" not in str(refused.value)
    header["w"]["dtype"] = "F32"
    with pytest.raises(ModelBroken, match="again"):
        list(tensors(header, "tiny"))


def test_a_machine_without_a_gpu_tool_has_no_gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert [memory.device for memory in memories()] == ["cpu"]


@pytest.mark.parametrize("kind", [kind for kind in CONFIGS if not kind.startswith(("fp8", "mxfp4"))])
def test_quantised_checkpoints_count_the_numbers_that_they_stand_for(kind: str, tmp_path: Path) -> None:
    LlamaForCausalLM(tiny_config(hidden=64, intermediate=96)).save_pretrained(tmp_path / "plain")
    with_tokenizer(tmp_path / "plain")
    write_quantised(tmp_path / "plain", kind, tmp_path / "quantised", tmp_path / "twin")
    check_model(tmp_path / "quantised", "org/quantised")
    found, twin = (
        read_weights(folder, "x").of_text(read_config(folder, "x"))
        for folder in (tmp_path / "quantised", tmp_path / "twin")
    )
    assert {one.name: one.numbers for one in found.tensors} == {one.name: one.numbers for one in twin.tensors}
    assert (found.quantisable, found.size < twin.size) == (twin.quantisable, True)


def test_weights_that_stay_packed_take_their_own_bits() -> None:
    dense = estimator("cpu").need("float32", 64).weights
    packed = Weights(
        (*estimator().weights.tensors[::2], Tensor("model.layers.0.weight", "I4", (1_703_936, 4096)))
    )
    on_cpu = replace(estimator("cpu"), weights=packed, keeps=True)
    assert on_cpu.need("float32", 64).weights < dense / 3
    assert on_cpu.need("bfloat16", 64).weights > dense / 3
    assert replace(on_cpu, keeps=False).need("float32", 64).weights > dense / 2
    on_gpu = replace(estimator("cuda"), weights=packed, has_triton=True)
    # On a CPU the embedding is quantised to 8 bits.
    assert on_cpu.need("float32", 64).weights < on_gpu.need("bfloat16", 64).weights < dense / 3
    assert on_gpu.automatic("bfloat16") == "bfloat16"
    assert replace(on_gpu, has_triton=False).need("bfloat16", 64).weights > dense / 4
    experts = Tensor("model.layers.0.mlp.experts.0.weight", "I4", (1_703_936, 4096))
    mixture = replace(on_cpu, weights=Weights((*packed.tensors[:2], experts)))
    assert mixture.need("float32", 64).weights > dense / 2


def test_the_verdict_on_packed_weights_names_their_bits() -> None:
    packed = Weights((Tensor("model.layers.0.weight", "I8", (1_703_936, 4096)),))
    model = replace(estimator("cpu"), weights=packed, keeps=True)
    need, least = (model.need(precision, 8192).total for precision in ("float32", "int4"))
    free = int((need + least) / 2 / USABLE)
    fit = judge(model, Memory("cpu", free, free), "bfloat16", 8192, is_automatic=True)
    assert fit.verdict == "fits with int4"
    assert fit.sentence.startswith("Fits only with int4: in 8.2 bits per weight it needs"), fit


@pytest.mark.parametrize(
    ("name", "stored", "bits"),
    [("blk.0.ffn_up_exps.weight", "Q4_0", 4.5), ("model.layers.0.mlp.experts.down_proj_blocks", "F4", 5.0)],
)
def test_stacked_experts_stay_packed_on_a_cpu_only(name: str, stored: str, bits: float) -> None:
    head = Tensor("model.layers.0.self_attn.o_proj.weight", "BF16", (64, 64))
    weights = Weights((head, Tensor(name, stored, (32, 4096, 4096))))
    assert replace(estimator("cpu"), weights=weights, keeps=True).kept_bits("float32") == bits
    assert replace(estimator("cuda"), weights=weights, has_triton=True).kept_bits("bfloat16") == 0.0


@pytest.mark.parametrize(
    ("stored", "bits"),
    [
        ("Q4_K", 4.625),
        ("Q6_K", 8.5625),
        ("Q2_K", 5.125),
        ("TQ1_0", 4.0625),
        ("IQ3_S", 4.3125),
        ("IQ2_S", 4.625),
    ],
)
def test_a_gpu_keeps_numbers_in_4_or_8_bits(stored: str, bits: float) -> None:
    weights = Weights((Tensor("model.layers.0.weight", stored, (4096, 4096)),))
    on_gpu = replace(estimator("cuda"), weights=weights, has_triton=True)
    assert on_gpu.kept_bits("float16") == bits


def test_what_is_free_but_kept_for_others_is_named_where_only_it_is_missing() -> None:
    need = estimator().need("bfloat16", 8192).total
    tight = judge(estimator(), Memory("cuda", need + 1, need * 2), "bfloat16", 8192)
    assert tight.verdict != "fits"
    assert f"are free, of which a model may use {gigabytes((need + 1) * USABLE)}." in tight.sentence
    assert "may use" not in judge(estimator(), Memory("cuda", need // 2, need), "bfloat16", 8192).sentence
    assert "may use" not in judge(estimator(), Memory("cuda", need * 2, need * 2), "bfloat16", 8192).sentence
    usual = Memory("cpu", 0, need + 1).usual
    assert (
        f"in this machine, of which a model may use {gigabytes(usual.usable)}"
        in judge(estimator(), usual, "bfloat16", 8192).sentence
    )
