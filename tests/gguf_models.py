"""Tiny random models as GGUF files, written by llama.cpp's own package, with the demo model's tokenizer."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gguf
import torch
from gguf.quants import quantize
from transformers import LlamaForCausalLM, PreTrainedModel

from app.settings import assets_dir
from tests.engine.tiny import tiny_config

DEMO = assets_dir() / "demo-model"


def tiny_llama(context: int = 256, layers: int = 2) -> LlamaForCausalLM:
    """A random Llama with the demo model's vocabulary."""
    torch.manual_seed(0)
    config = tiny_config(context=context)
    config.num_hidden_layers = layers
    model = LlamaForCausalLM(config)
    for parameter in model.parameters():
        parameter.data *= 3.0
    return model


def write_gguf(path: Path, model: PreTrainedModel | None = None, **more: Any) -> Path:
    """The file of a model; `more` are values under its architecture, or instead of "general.type".

    `kinds` are the kinds of the layers' matrices, in turn; the embedding has the first one."""
    model = model or tiny_llama()
    arch, kinds = str(model.config.model_type), more.pop("kinds", ["F32"])
    writer = gguf.GGUFWriter(path, more.pop("architecture", arch))
    if general_type := more.pop("general_type", ""):
        writer.add_type(general_type)
    _add_sizes(writer, model)
    for key, value in more.items():
        writer.add_uint32(key, value)
    _add_tokenizer(writer)
    names = gguf.get_tensor_name_map(_arch(arch), model.config.num_hidden_layers)
    for name, weight in model.state_dict().items():
        stem, _, ending = name.rpartition(".")
        layer = int(found[0]) if (found := re.search(r"\d+", name)) else 0
        kind = kinds[layer % len(kinds)]
        _add_tensor(writer, f"{names.get_name(stem)}.{ending}", _stored(name, weight, model), kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def write_tensors(
    path: Path,
    architecture: str,
    values: Mapping[str, Any],
    tensors: Mapping[str, torch.Tensor],
    kind: str = "F32",
    has_tokenizer: bool = False,
) -> Path:
    """A file of tensors and values under its architecture. Matrices are of this kind."""
    writer = gguf.GGUFWriter(path, architecture)
    if has_tokenizer:
        _add_tokenizer(writer)
    for key, value in values.items():
        add = {
            bool: writer.add_bool,
            int: writer.add_uint32,
            float: writer.add_float32,
            list: writer.add_array,
        }
        add.get(type(value), writer.add_string)(f"{architecture}.{key}", value)  # type: ignore[operator]
    for name, tensor in tensors.items():
        _add_tensor(writer, name, tensor.float().contiguous(), kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _add_tensor(writer: gguf.GGUFWriter, name: str, tensor: torch.Tensor, kind: str) -> None:
    """Add a tensor. A matrix or a stack of matrices is quantised if its rows can be divided into blocks."""
    wanted = gguf.GGMLQuantizationType[kind]
    is_matrix = name.endswith(".weight") and tensor.dim() == (3 if "_exps." in name else 2)
    if not is_matrix or kind == "F32" or tensor.shape[-1] % gguf.GGML_QUANT_SIZES[wanted][0]:
        writer.add_tensor(name, tensor.numpy())
    else:
        writer.add_tensor(name, quantize(tensor.numpy(), wanted), raw_dtype=wanted)


def split_gguf(whole: Path, folder: Path, count: int) -> list[Path]:
    """The same model in several files: the first has all values, and each some tensors."""
    reader = gguf.GGUFReader(whole)
    paths = [folder / f"big-{place:05}-of-{count:05}.gguf" for place in range(1, count + 1)]
    for place, path in enumerate(paths):
        writer = gguf.GGUFWriter(path, "llama")
        for field in reader.fields.values() if place == 0 else ():
            if not field.name.startswith(("GGUF.", "general.architecture")):
                writer.add_key_value(field.name, field.contents(), field.types[0], *field.types[1:2])
        writer.add_uint16("split.count", count)
        writer.add_uint16("split.no", place)
        for tensor in list(reader.tensors)[place::count]:
            writer.add_tensor(tensor.name, tensor.data)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
    return paths


def _arch(name: str) -> Any:
    return next(arch for arch, known in gguf.MODEL_ARCH_NAMES.items() if known == name)


def _add_sizes(writer: gguf.GGUFWriter, model: PreTrainedModel) -> None:
    config = model.config
    writer.add_context_length(config.max_position_embeddings)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_key_length(
        getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    )
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])


def _add_tokenizer(writer: gguf.GGUFWriter) -> None:
    known: Mapping[str, Any] = json.loads((DEMO / "tokenizer.json").read_text(encoding="utf-8"))
    special = {token["content"]: token["id"] for token in known["added_tokens"]}
    vocabulary = {**known["model"]["vocab"], **special}
    tokens = sorted(vocabulary, key=lambda token: vocabulary[token])
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(tokens)
    writer.add_token_types([3 if token in special else 1 for token in tokens])
    writer.add_token_merges([" ".join(pair) for pair in known["model"]["merges"]])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(2)
    writer.add_add_bos_token(False)
    writer.add_chat_template((DEMO / "chat_template.jinja").read_text(encoding="utf-8"))


def _stored(name: str, weight: torch.Tensor, model: PreTrainedModel) -> torch.Tensor:
    """A weight as llama.cpp keeps it: the rows of a Llama's queries and keys in another order."""
    config = model.config
    heads = {"q_proj.weight": config.num_attention_heads, "k_proj.weight": config.num_key_value_heads}
    count = next((heads[end] for end in heads if name.endswith(end)), 0)
    if config.model_type != "llama" or not count:
        return weight.contiguous()
    halves = weight.reshape(count, 2, weight.shape[0] // count // 2, weight.shape[1])
    return halves.swapaxes(1, 2).reshape(weight.shape).contiguous()
