"""How large a config.json may be, and the sizes that it tells of. It comes from strangers and is not trusted."""

CONFIG = "config.json"
LONGEST_CONFIG = 2_000_000
"""Bytes of the largest accepted config.json."""
LARGEST_SIZES = {
    "num_hidden_layers": 2_000,
    "hidden_size": 200_000,
    "intermediate_size": 2_000_000,
    "num_attention_heads": 10_000,
    "num_key_value_heads": 10_000,
    "head_dim": 20_000,
    "vocab_size": 20_000_000,
    "max_position_embeddings": 100_000_000,
}
"""The largest accepted values, far above those of any model."""
