"""Models and attention layers by their shapes alone: the weights are random and made where they are used."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, PreTrainedModel

from app.engine.loading import LoadedModel, prepare
from app.engine.runner import BlockRunner
from app.errors import ModelBroken
from app.messages import ModelChoice, ModelFolder
from app.quantisation import Quantisation
from app.settings import assets_dir

_LLAMA: Mapping[str, Any] = MappingProxyType(
    {"model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32}
)
_QWEN3: Mapping[str, Any] = MappingProxyType(
    {
        "model_type": "qwen3",
        "vocab_size": 151_936,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "max_position_embeddings": 40_960,
        "tie_word_embeddings": True,
    }
)


@dataclass(frozen=True, slots=True)
class ModelShape:
    """A model by its config."""

    name: str
    config: dict[str, Any]

    def __post_init__(self) -> None:
        if "model_type" not in self.config:
            raise ValueError(f"a shape's config needs a model_type, got {self.config}")


LLAMA_2_7B = ModelShape(
    "llama-2-7b",
    {
        **_LLAMA,
        "vocab_size": 32_000,
        "intermediate_size": 11_008,
        "num_key_value_heads": 32,
        "max_position_embeddings": 4096,
        "tie_word_embeddings": False,
    },
)
LLAMA_31_8B = ModelShape(
    "llama-3.1-8b",
    {
        **_LLAMA,
        "vocab_size": 128_256,
        "intermediate_size": 14_336,
        "num_key_value_heads": 8,
        "max_position_embeddings": 131_072,
        "tie_word_embeddings": False,
        "rope_parameters": {
            "rope_type": "llama3",
            "rope_theta": 500_000.0,
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 8192,
        },
    },
)
QWEN3_06B = ModelShape(
    "qwen3-0.6b",
    {
        **_QWEN3,
        "hidden_size": 1024,
        "intermediate_size": 3072,
        "num_hidden_layers": 28,
        "num_attention_heads": 16,
    },
)
QWEN3_4B = ModelShape(
    "qwen3-4b",
    {
        **_QWEN3,
        "hidden_size": 2560,
        "intermediate_size": 9728,
        "num_hidden_layers": 36,
        "num_attention_heads": 32,
    },
)


@dataclass(frozen=True, slots=True)
class HeadShape:
    """An attention layer: `count` query heads of `size` over `shared` key heads."""

    name: str
    count: int
    shared: int
    size: int

    def __post_init__(self) -> None:
        if self.count % self.shared:
            raise ValueError(f"query heads must divide into key heads, got {self.count} and {self.shared}")

    def cache_bytes(self, positions: int, itemsize: int) -> int:
        """Keys and values of so many positions."""
        return 2 * self.shared * self.size * positions * itemsize


@dataclass(slots=True)
class Shaped:
    """A model of random weights, ready to decode."""

    loaded: LoadedModel
    model: PreTrainedModel
    runner: BlockRunner
    heads: HeadShape = field(init=False)

    def __post_init__(self) -> None:
        config = self.model.config.get_text_config(decoder=True)
        size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        self.heads = HeadShape(
            self.loaded.info.name, config.num_attention_heads, config.num_key_value_heads, size
        )

    @property
    def bytes(self) -> int:
        """Of all its weights, quantised ones with them."""
        return sum(map(_size, _tensors(self.model)))

    def read_bytes(self, positions: int) -> int:
        """What one step must read: weights, of an embedding of its own but a row, and the cache of so many."""
        head: Any = self.model.get_output_embeddings()  # type: ignore[no-untyped-call]
        multiplied = {each.data_ptr() for each in _tensors(head)}
        table = _tensors(self.model.get_input_embeddings())
        looked_up = sum(_size(each) for each in table if each.data_ptr() not in multiplied)
        layers = self.model.config.get_text_config(decoder=True).num_hidden_layers
        cache = layers * self.heads.cache_bytes(positions, self.model.dtype.itemsize)
        return int(self.bytes - looked_up + cache)


def _tensors(module: nn.Module) -> tuple[Tensor, ...]:
    return (*module.parameters(), *module.buffers())


def _size(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def random_model(shape: ModelShape, device: torch.device, dtype: torch.dtype) -> PreTrainedModel:
    """The model with random weights, made on the device: the host never holds them."""
    torch.manual_seed(0)
    settings = dict(shape.config)
    config = AutoConfig.for_model(settings.pop("model_type"), **settings)
    with device:
        model: PreTrainedModel = AutoModelForCausalLM.from_config(config, dtype=dtype)  # type: ignore[no-untyped-call]
    model.requires_grad_(False).train(False)
    return model


def shaped(
    model: PreTrainedModel, name: str, quantisation: Quantisation = "none", quantised: int = 0
) -> Shaped:
    """The model behind the app's own runner; raises ModelBroken where that takes no blocks."""
    tokenizer = AutoTokenizer.from_pretrained(assets_dir() / "demo-model", local_files_only=True)
    choice = ModelChoice(name, quantisation=quantisation)
    loaded = prepare(model, tokenizer, ModelFolder(Path(name), name=name), choice, quantised)
    if not isinstance(loaded.runner, BlockRunner):
        raise ModelBroken(f"The shape {name} got no block runner: {loaded.info.lookahead_note}")
    return Shaped(loaded, model, loaded.runner)
