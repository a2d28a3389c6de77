"""What quantised weights weigh is known from names and shapes alone."""

import pytest

from app.values.quantisation_sizes import GROUP, Quantisation, bits_of, model_bytes, weight_bytes

LLAMA_8B = {
    "model.embed_tokens.weight": (128_256, 4096),
    "lm_head.weight": (128_256, 4096),
    **{
        f"model.layers.{layer}.{name}.weight": shape
        for layer in range(32)
        for name, shape in {
            "self_attn.q_proj": (4096, 4096),
            "self_attn.k_proj": (1024, 4096),
            "self_attn.v_proj": (1024, 4096),
            "self_attn.o_proj": (4096, 4096),
            "mlp.gate_proj": (14_336, 4096),
            "mlp.up_proj": (14_336, 4096),
            "mlp.down_proj": (4096, 14_336),
            "input_layernorm": (4096,),
        }.items()
    },
}


@pytest.mark.parametrize(
    ("quantisation", "in_features", "is_table", "bits"),
    [
        ("none", 4096, False, 0),
        ("int8", 4096, False, 8),
        ("int8", 172, True, 8),
        ("int4", 4096, False, 4),
        ("int4", 4096, True, 8),
        ("int4", 172, False, 8),
    ],
)
def test_tables_and_rows_that_do_not_divide_take_eight_bits(
    quantisation: Quantisation, in_features: int, is_table: bool, bits: int
) -> None:
    assert bits_of(quantisation, in_features, is_table) == bits


def test_a_weight_takes_its_numbers_and_what_its_groups_share() -> None:
    shape = (10, 2 * GROUP)
    assert weight_bytes(shape, 2, 0) == 10 * 64 * 2
    assert weight_bytes(shape, 2, 8) == 10 * 64 + 10 * 2
    assert weight_bytes(shape, 2, 4) == 10 * 32 + 10 * 2 * 2 * 2
    assert weight_bytes(shape, 4, 4) == 10 * 32 + 10 * 2 * 2 * 4


@pytest.mark.parametrize(("quantisation", "gigabytes"), [("none", 16.1), ("int8", 8.0), ("int4", 5.4)])
def test_a_model_of_8b_fits_smaller_cards(quantisation: Quantisation, gigabytes: float) -> None:
    assert round(model_bytes(LLAMA_8B, 2, quantisation) / 1e9, 1) == gigabytes


@pytest.mark.parametrize(
    ("name", "is_quantised"),
    {
        "model.layers.0.mlp.experts.3.gate_proj.weight": False,
        "model.layers.0.block_sparse_moe.experts.0.w1.weight": False,
        "model.layers.0.mlp.shared_experts.gate_proj.weight": True,
        "model.layers.0.mlp.shared_expert.up_proj.weight": True,
        "model.layers.0.mlp.gate.weight": True,
    }.items(),
)
def test_experts_that_a_checkpoint_stores_one_by_one_are_not_quantised(name: str, is_quantised: bool) -> None:
    sizes = [model_bytes({name: (64, 64)}, 2, quantisation) for quantisation in ("none", "int8")]
    assert (sizes[0] > sizes[1]) == is_quantised


def test_positions_biases_and_stacked_experts_stay_as_they_are() -> None:
    shapes = {"transformer.wpe.weight": (1024, 64), "mlp.bias": (64,), "experts.gate_up_proj": (8, 64, 64)}
    assert (
        model_bytes(shapes, 2, "int4") == model_bytes(shapes, 2, "none") == 2 * (1024 * 64 + 64 + 8 * 64 * 64)
    )
