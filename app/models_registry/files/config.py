"""Reads a model's sizes, its sampling temperature and its chat template from its own files.

The files are not trusted: an impossible number is rejected before it is used, and nothing in the files is run.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.errors import ModelBroken
from app.models_registry.files.gguf_checks import gguf_config
from app.models_registry.files.model_files import MORE_TEMPLATES
from app.models_registry.files.transformers_tables import default_values
from app.values.chat_format import main_template
from app.values.config_parts import text_values, unread_parts
from app.values.dataclass_json import parse_json
from app.values.draft_heads import KIND, STATES, USUAL_STATES
from app.values.gguf_header import is_gguf, read_gguf_header
from app.values.model import CONFIG, LARGEST_SIZES, LONGEST_CONFIG, UNKNOWN_CONTEXT
from app.values.packed_checkpoint import CheckpointForm, checkpoint_form

OTHER_NAMES = {
    "num_hidden_layers": (
        "n_layer",
        "num_layers",
        "n_layers",
        "layers_block_type",
        "num_blocks",
        "decoder_layers",
    ),
    "hidden_size": ("n_embd", "d_model", "embedding_dim"),
    "intermediate_size": ("n_inner", "ffn_dim", "decoder_ffn_dim"),
    "num_attention_heads": ("n_head", "n_heads", "num_heads", "attention_heads", "decoder_attention_heads"),
    "num_key_value_heads": ("num_kv_heads", "n_head_kv"),
    "head_dim": ("attention_head_dim",),
    "max_position_embeddings": ("n_positions", "n_ctx", "max_seq_len", "seq_length"),
}
COUNT_KEYS = re.compile(
    r"(^|_)(n|num|number)_(.+_)?(layer|expert|head|block|stage|module)s?($|_)"
    r"|(^|_)(layers|experts|heads|blocks|stages|depths?)$"
)
"""Keys, in any part of config.json, whose values are numbers of layers, experts, heads or other modules."""
MAX_COUNT = 20_000
MAX_LOOPS = 100
RECURRENT_KINDS = ("linear_attention", "mamba", "mamba2", "conv", "recurrent")
WITHOUT_STATE = ("mlp", "moe")
"""Layers of RECURRENT_KINDS keep a recurrent state, and layers of the kinds WITHOUT_STATE keep nothing. All other
kinds attend, and "hybrid" layers do both."""
OTHER_HEADS = (
    ("sliding", ("swa_num_key_value_heads", "swa_head_dim", "swa_head_dim")),
    ("full", ("num_global_key_value_heads", "global_head_dim", "global_head_dim")),
    ("", ("num_key_value_heads", "head_dim", "v_head_dim")),
)
"""(word, keys): for layers whose kind contains the word, the config's keys of the number of key heads, the size of
a key and the size of a value."""
RECURRENT_SIZES = (
    ("linear_num_value_heads", "linear_value_head_dim", "linear_num_key_heads", "linear_key_head_dim"),
    ("linear_num_heads", "linear_head_dim", "linear_num_heads", "linear_head_dim"),
    ("mamba_n_heads", "mamba_d_head", "mamba_n_groups", "mamba_d_state"),
    ("mamba_num_heads", "mamba_head_dim", "n_groups", "ssm_state_size"),
    ("n_mamba_heads", "mamba_headdim", "mamba_ngroups", "mamba_d_state"),
    ("mamba_d_ssm", "", "mamba_n_groups", "mamba_d_state"),
    ("num_heads", "head_dim", "n_groups", "state_size"),
    ("intermediate_size", "", "", "state_size"),
    ("mamba_expand", "hidden_size", "", "mamba_d_state"),
)
"""For each family of recurrent layers: the config's names of the number and size of value heads, then of the number
and size of key heads. "" means a size of 1, or no key heads."""
KERNEL_SIZES = ("linear_conv_kernel_dim", "mamba_d_conv", "conv_kernel", "conv_L_cache", "conv1d_width")
USUAL_KERNEL = 4
WITHOUT_KEYS = ("rwkv", "xlstm")
"""Kinds of models whose config has the sizes of heads, but which keep no keys and values."""
LARGEST_GENERATION_CONFIG = 2_000_000
USUAL_TEMPERATURE, HIGHEST_TEMPERATURE = 0.7, 2.0
"""The temperature of a model that does not name a temperature, and the highest temperature that is accepted."""
TEMPLATE, TOOL_USE = "chat_template.jinja", "tool_use"
TEMPLATE_CONFIGS = ("chat_template.json", "tokenizer_config.json")
LARGEST_TEMPLATE_CONFIG = 20_000_000
"""Maximum bytes of a tokenizer_config.json, which may contain a large vocabulary."""


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """The sizes that decide how much memory a model takes.

    `is_tied`: the head shares the embedding's weight. `is_softcapped`: attention scores are soft-capped. `states`:
    how many numbers of hidden states a draft head keeps for each token; else 0. `note` is a sentence about the
    parts of the model that are not read, or "". `form` is how its weights are quantised, if they are. All
    layers together keep `keys_values` numbers of keys and values for each token, and `state` numbers of recurrent
    states. Their convolutions take `inputs` numbers for each token."""

    model_type: str
    architecture: str
    layers: int
    keys_values: int
    hidden: int
    intermediate: int
    heads: int
    key_heads: int
    head_size: int
    vocabulary: int
    context: int
    is_tied: bool
    is_softcapped: bool = False
    states: int = 0
    note: str = ""
    form: CheckpointForm | None = None
    state: int = 0
    inputs: int = 0

    @property
    def embedding(self) -> int:
        """How many numbers the embedding has."""
        return self.vocabulary * self.hidden

    @property
    def cached(self) -> int:
        """How many numbers are kept for each token: its keys, its values and a draft head's states."""
        return self.keys_values + self.states


def read_config(folder: Path, name: str) -> ModelConfig:
    """Read the config of the model in this folder or GGUF file. Raises ModelError, OSError."""
    return parse_config(config_of(folder, name), name)


def config_of(folder: Path, name: str) -> bytes:
    """Return the bytes of the folder's config.json, or of a config made from a GGUF file's header.

    Raises ModelError, or OSError if config.json cannot be read."""
    if folder.is_file():
        return json.dumps(gguf_config(folder, name)).encode()
    with (folder / CONFIG).open("rb") as file:
        config = file.read(LONGEST_CONFIG + 1)
    if len(config) > LONGEST_CONFIG:
        raise ModelBroken(f"The config.json of {name} is far too long: choose another model.")
    return config


def check_config(config: bytes, name: str) -> dict[str, int]:
    """Return the sizes in a config.json; 0 for a size that it does not have.

    Raises ModelBroken if the config is invalid or has an impossible value."""
    return _sizes(_text_config(config, name), name)


def _sizes(values: Mapping[str, Any], name: str) -> dict[str, int]:
    sizes = {key: _size(values, key, name) for key in LARGEST_SIZES}
    if "n_recurrent_loops" in values and "mlp" in (values.get("layer_types") or ()):
        sizes["num_hidden_layers"] //= 2  # Dory's attention and MLP are counted and listed as two layers
    return sizes


def parse_config(config: bytes, name: str) -> ModelConfig:
    """Parse a config.json; `name` is the model's name for error messages. Raises ModelError."""
    values = _text_config(config, name)
    sizes = _sizes(values, name)
    if unread_parts(values):  # a text part leaves out the defaults that transformers assumes
        usual = _sizes(default_values(str(values.get("model_type", ""))), name)
        sizes = {key: size or usual[key] for key, size in sizes.items()}
    heads, hidden = sizes["num_attention_heads"] or 1, sizes["hidden_size"]
    if not hidden or not sizes["num_hidden_layers"] or not sizes["vocab_size"]:
        raise ModelBroken(
            f"The config.json of {name} does not contain the model's size: choose a text model that "
            "transformers knows."
        )
    architectures = values.get("architectures")
    first = architectures[0] if isinstance(architectures, list) and architectures else ""
    # In some models all heads share one key.
    is_shared = values.get("multi_query") and not values.get("new_decoder_architecture")
    sizes["num_key_value_heads"] = 1 if is_shared else sizes["num_key_value_heads"] or heads
    sizes["head_dim"] = sizes["head_dim"] or max(1, hidden // heads)
    attending, recurrent = _layers_by_kind(values, sizes["num_hidden_layers"])
    state, inputs = (recurrent * size for size in _recurrent_sizes(values))
    kernel = next(filter(None, (_count(values, key) for key in KERNEL_SIZES)), USUAL_KERNEL)
    return ModelConfig(
        model_type=str(values.get("model_type", "")),
        architecture=first[:80] if isinstance(first, str) else "",
        layers=sizes["num_hidden_layers"],
        keys_values=sum(_keys_and_values(values, layer, kind, sizes) for layer, kind in attending),
        hidden=hidden,
        intermediate=sizes["intermediate_size"] or 4 * hidden,
        heads=heads,
        key_heads=sizes["num_key_value_heads"],
        head_size=sizes["head_dim"],
        vocabulary=sizes["vocab_size"],
        context=sizes["max_position_embeddings"] or UNKNOWN_CONTEXT,
        is_tied=bool(values.get("tie_word_embeddings", False)),
        is_softcapped=bool(values.get("attn_logit_softcapping")),
        states=_states(values, hidden),
        note=unread_parts(values),
        form=checkpoint_form(values),
        state=state + inputs * (kernel - 1),
        inputs=inputs,
    )


def _states(values: Mapping[str, Any], hidden: int) -> int:
    """Return how many numbers of hidden states are kept for each token, if this is a draft head; else 0."""
    if KIND in values:
        return (USUAL_STATES + 1) * hidden  # plus one for the head's own layer
    width = values.get(STATES)
    return width if isinstance(width, int) else 0


def _layers_by_kind(values: Mapping[str, Any], layers: int) -> tuple[list[tuple[int, str]], int]:
    """List the layers that keep keys and values, each with its kind ("" if unknown), and count the layers that keep
    a recurrent state. Some layers keep both. Layers that use the keys of an earlier layer are not listed."""
    if STATES in values:
        return [], 0  # a Gemma 4 assistant attends to its target's keys and values
    kinds = values.get("layer_types") or values.get("layers_block_type") or values.get("block_types")
    if isinstance(kinds, list) and kinds:
        if "recurrent" in kinds:  # RecurrentGemma lists a pattern
            kinds = [kinds[layer % len(kinds)] for layer in range(layers)]
        recurrent = sum(kind in RECURRENT_KINDS for kind in kinds)
        kept = (
            (layer, kind) for layer, kind in enumerate(kinds) if kind not in RECURRENT_KINDS + WITHOUT_STATE
        )
        attending = [(layer, str(kind)) for layer, kind in kept]
        attending = attending[: max(0, len(attending) - _count(values, "num_kv_shared_layers"))]
        attending += _repeated(values, attending, len(kinds) // layers)
        return attending, recurrent + kinds.count("hybrid")
    attends, recurrent = _counted(values, layers)
    return [(layer, "") for layer in range(attends)], recurrent


def _repeated(
    values: Mapping[str, Any], attending: list[tuple[int, str]], listed: int
) -> list[tuple[int, str]]:
    """List the layers that a model passes several times (Dory's loops), once for each further pass; [] if only the
    last pass keeps its keys.

    `listed` is the number of entries for a layer: 2 if its attention and its MLP are listed separately."""
    loops = _count(values, "n_recurrent_loops")
    if loops < 2 or values.get("recurrent_kv_cache_mode") == "last_loop":
        return []
    first, last = (_count(values, key) // max(1, listed) for key in ("n_input_layers", "n_output_layers"))
    return attending[first : len(attending) - last] * (min(loops, MAX_LOOPS) - 1)


def _counted(values: Mapping[str, Any], layers: int) -> tuple[int, int]:
    """Count the layers with keys and values, and those with a recurrent state, if the config lists no kinds."""
    pattern, indices = values.get("hybrid_override_pattern"), values.get("attn_layer_indices")
    key_heads = values.get("num_key_value_heads")
    interval = values.get("full_attention_interval") or values.get("attn_layer_period")
    if isinstance(pattern, str):
        return pattern.count("*"), pattern.count("M")
    if isinstance(indices, list):
        return len(indices), max(layers - len(indices), 0)
    if isinstance(key_heads, list) and 0 in key_heads:
        return sum(heads != 0 for heads in key_heads), key_heads.count(0)
    if isinstance(interval, int) and interval > 1:
        return layers // interval, layers - layers // interval
    if values.get("model_type") in WITHOUT_KEYS:
        return 0, layers
    if not _recurrent_sizes(values)[0]:
        return layers * (2 if values.get("model_type") == "longcat_flash" else 1), 0
    is_pure = not _first(values, "num_attention_heads") or "state_size" in values
    return (0 if is_pure else layers), layers


def _keys_and_values(values: Mapping[str, Any], layer: int, kind: str, sizes: Mapping[str, int]) -> int:
    """Count the numbers of a token's keys and values in a layer of this kind.

    Compressed keys and values (MLA) are one latent vector, and the rotated part of a key. A layer that selects
    the tokens to which it attends keeps one more key. If these keys are pooled, it keeps gates and a mark, too."""
    if latent := _count(values, "kv_lora_rank"):
        selecting = _count(values, "index_head_dim")
        pooling = selecting + 1 if "index_kpool" in values else 0
        return latent + _count(values, "qk_rope_head_dim") + selecting + pooling
    named = next(keys for word, keys in OTHER_HEADS if word in kind)
    usual, own = ("num_key_value_heads", "head_dim", "head_dim"), _own_sizes(values, layer)
    heads, key, value = (
        own.get(one) or _count(values, other) or sizes[one] for one, other in zip(usual, named, strict=True)
    )
    return heads * (key + value) + _count(values, "indexer_kv_heads") * _count(values, "indexer_head_dim")


def _own_sizes(values: Mapping[str, Any], layer: int) -> dict[str, int]:
    """Return the sizes that a config gives for this layer alone; transformers numbers layers as "05"."""
    found = values.get("per_layer_config")
    own = found.get(f"{layer:02}") if isinstance(found, dict) else None
    keys = ("num_key_value_heads", "head_dim")
    return {key: size for key in keys if isinstance(own, dict) and (size := _count(own, key))}


def _count(values: Mapping[str, Any], key: str) -> int:
    """Return the value of this key if it is a possible count or size, else 0."""
    found = values.get(key)
    return found if isinstance(found, int) and 0 < found <= MAX_COUNT else 0


def _recurrent_sizes(values: Mapping[str, Any]) -> tuple[int, int]:
    """Return the size of a recurrent layer's state, and the size of a token's inputs to the layer's convolution.

    Both are counts of numbers, and are 0 if the layer has no such part."""
    if "conv_L_cache" in values:
        return 0, _count(values, "hidden_size")
    for heads, value, key_heads, key in RECURRENT_SIZES:
        width = _count(values, heads) * (_count(values, value) if value else 1)
        if state := width * _count(values, key):
            return state, width + 2 * _count(values, key_heads) * _count(values, key)
    return _unnamed_sizes(values)


def _unnamed_sizes(values: Mapping[str, Any]) -> tuple[int, int]:
    """Return what `_recurrent_sizes` returns, for models whose config has no keys for the state's sizes."""
    hidden, heads = (_size(values, key, "") for key in ("hidden_size", "num_attention_heads"))
    heads = heads or 1
    width = _count(values, "lru_width") or hidden
    match values.get("model_type"):
        case "rwkv":
            return 5 * hidden, 0
        case "xlstm":  # the usual factors: a key has half the size of a value
            return hidden * (hidden // heads + 1) // 2 + heads, 0
        case "minimax":
            return heads * (_count(values, "head_dim") or hidden // heads) ** 2, 0
        case "recurrent_gemma":
            return width, width
    return 0, 0


def _text_config(config: bytes, name: str) -> Mapping[str, Any]:
    whole = config_values(config, name)
    _require_few(whole, name)
    return text_values(whole)


def config_values(config: bytes, name: str) -> dict[str, Any]:
    """Return all values of a config.json. Raises ModelBroken if it is not a JSON object."""
    try:
        whole = parse_json(config)
    except ValueError as error:
        raise ModelBroken(
            f"The config.json of {name} is not valid JSON: get the model's own config.json again."
        ) from error
    if not isinstance(whole, dict):
        raise ModelBroken(
            f"The config.json of {name} is not a JSON object: get the model's own config.json again."
        )
    return whole


def _require_few(config: Mapping[str, Any], name: str) -> None:
    """Raise ModelBroken if any part of the config counts more than MAX_COUNT layers, heads or the like."""
    parts: list[Any] = [config]
    while parts:
        part = parts.pop()
        if isinstance(part, list):
            parts += part
        if isinstance(part, dict):
            parts += part.values()
            for key, value in part.items():
                if isinstance(value, int | float) and COUNT_KEYS.search(key) and not value <= MAX_COUNT:
                    raise _impossible(key, value, name)


def _size(values: Mapping[str, Any], key: str, name: str) -> int:
    """Return the size with this key, or the largest if layers differ; 0 if there is none. Raises ModelBroken.

    If the value is a list of the layers' kinds, the size is the list's length."""
    found = _first(values, key)
    if isinstance(found, list):
        found = max((one for one in found if isinstance(one, int)), default=len(found))
    if isinstance(found, float) and found.is_integer():
        found = int(found)
    if isinstance(found, bool) or not isinstance(found, int) or not 0 <= found <= LARGEST_SIZES[key]:
        raise _impossible(key, found, name)
    return found


def _first(values: Mapping[str, Any], key: str) -> Any:
    # A decoder taken from an encoder-decoder model may differ from the encoder, whose sizes have the usual names.
    names = sorted((key, *OTHER_NAMES.get(key, ())), key=lambda one: not one.startswith("decoder_"))
    return next((values[one] for one in names if values.get(one) is not None), 0)


def _impossible(key: str, value: object, name: str) -> ModelBroken:
    return ModelBroken(
        f"The config.json of {name} has an impossible value ({key[:40]} is {str(value)[:40]}): choose another "
        "model."
    )


def own_temperature(folder: Path) -> float:
    """Return the temperature in a folder's generation_config.json; 0 if the file turns off sampling.

    Without such a file or a possible temperature, returns USUAL_TEMPERATURE."""
    file = folder / "generation_config.json"
    try:
        is_here = file.is_file() and file.stat().st_size <= LARGEST_GENERATION_CONFIG
        config = parse_json(file.read_text(encoding="utf-8")) if is_here else None
    except (OSError, ValueError):
        config = None
    if not isinstance(config, dict):
        return USUAL_TEMPERATURE
    if config.get("do_sample") is False:
        return 0.0
    asked = config.get("temperature")
    if isinstance(asked, bool) or not isinstance(asked, int | float) or not 0 <= asked <= HIGHEST_TEMPERATURE:
        return USUAL_TEMPERATURE
    return float(asked)


def chat_template(path: Path) -> str:
    """Return the chat template of the model in this folder or GGUF file.

    If a folder has several templates, returns the template for tools. If a GGUF file has several, returns the
    default. Returns "" if there is none, or if the files cannot be read."""
    try:
        if path.is_file():
            values = read_gguf_header(path).values if is_gguf(path) else {}
            name = "tokenizer.chat_template"
            others = {
                key.removeprefix(f"{name}."): one for key, one in values.items() if key.startswith(f"{name}.")
            }
            return _text(values.get(name) or main_template(others))
        files = [path / TEMPLATE, *sorted((path / MORE_TEMPLATES).glob("*.jinja"))]
        if named := {
            "default" if file.name == TEMPLATE else file.stem: file for file in files if file.is_file()
        }:
            return str((named.get(TOOL_USE) or main_template(named)).read_text(encoding="utf-8"))
        return next(filter(None, (_template_in(path / name) for name in TEMPLATE_CONFIGS)), "")
    except (OSError, ValueError):
        return ""


def _template_in(file: Path) -> str:
    if not file.is_file() or file.stat().st_size > LARGEST_TEMPLATE_CONFIG:
        return ""
    config = parse_json(file.read_bytes())
    given = config.get("chat_template") if isinstance(config, dict) else None
    if isinstance(given, list):
        named = {str(one.get("name")): one.get("template") for one in given if isinstance(one, dict)}
        given = named.get(TOOL_USE) or main_template(named)
    return _text(given)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
