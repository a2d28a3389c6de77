"""Loads the text part of a model that also reads pictures or sound, without the modules for these.

The whole model is made on torch's meta device, because transformers' tables of weight names are those of whole
models. Then all modules except the decoder and the LM head are dropped, and only then weights are read."""

from collections.abc import Collection
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn
from transformers import (
    MODEL_FOR_CAUSAL_LM_MAPPING,
    MODEL_FOR_MULTIMODAL_LM_MAPPING,
    MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING,
    MODEL_MAPPING,
    AutoConfig,
    AutoModelForCausalLM,
    PreTrainedConfig,
    PreTrainedModel,
    SiglipVisionConfig,
)
from transformers.modeling_outputs import CausalLMOutputWithPast

from app.engine.runner.kv_cache import CACHE_NAME
from app.values.config_parts import with_whole_numbers
from app.values.model import LARGEST_SIZES


def read_config(folder: Path) -> PreTrainedConfig:
    """Read the config of the model in this folder. Sizes such as 4096.0 become integers, because transformers
    refuses floats."""
    values, _ = PreTrainedConfig.get_config_dict(folder, local_files_only=True)
    whole = with_whole_numbers(values, LARGEST_SIZES)
    config: PreTrainedConfig
    if repr(whole) == repr(values):
        config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    else:
        config = AutoConfig.for_model(**whole, name_or_path=str(folder))
    return config


def text_config(config: PreTrainedConfig) -> PreTrainedConfig:
    """Return this config or, for a model that also speaks, the config of the part that writes text.

    If the returned config has a vision tower that needs the package timm, the tower is replaced by a small one
    without timm, because vision towers are dropped anyway."""
    config = getattr(config, "thinker_config", None) or config
    tower: Any = getattr(config, "vision_config", None)
    needed = _class_of(tower, MODEL_MAPPING)
    if needed is not None and needed.__name__.startswith("Timm"):
        small = SiglipVisionConfig(num_hidden_layers=1)
        for name, value in tower.to_dict().items():
            if not hasattr(small, name):
                setattr(small, name, value)
        vars(config)["vision_config"] = small  # an assignment would check its type
    return config


def text_reader(config: PreTrainedConfig) -> Any:
    """Return the class whose `from_pretrained` makes the model that this config describes.

    The class is AutoModelForCausalLM if transformers can read the text part by itself. For other models it is a
    subclass of the whole model's class that drops the modules for pictures and sound; this subclass has
    `_from_config` instead of `from_config`."""
    whole = _class_of(config, MODEL_FOR_MULTIMODAL_LM_MAPPING) or _class_of(
        config,
        MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING,  # some models that read sound are only in this mapping
    )
    known = _class_of(config, MODEL_FOR_CAUSAL_LM_MAPPING)
    inside = _class_of(config.get_text_config(decoder=True), MODEL_FOR_CAUSAL_LM_MAPPING)
    if whole is None or (known is not whole and known is not None and known is inside):
        return AutoModelForCausalLM
    return type(whole.__name__, (_WithoutTowers, whole), {"__module__": whole.__module__})


def empty_model(config: PreTrainedConfig, dtype: torch.dtype) -> PreTrainedModel:
    """Make the model of this config on torch's meta device, where it takes no memory."""
    reader = text_reader(config)
    make = getattr(reader, "from_config", None) or reader._from_config
    with torch.device("meta"):
        made: PreTrainedModel = make(config, dtype=dtype)
    return made


def text_model(model: PreTrainedModel) -> PreTrainedModel:
    """Return the decoder and the LM head as one model, from a model of a class that `text_reader` returned."""
    decoder, head = _decoder(model), _head(model)
    if not isinstance(model, _WithoutTowers) or decoder is model.base_model:
        return model
    text = decoder  # the decoder may have a head of its own
    if _head(decoder) is None:
        text = _around(decoder)
        setattr(text, text.base_model_prefix, decoder)
        text.set_output_embeddings(head)  # type: ignore[no-untyped-call]
    text.generation_config = model.generation_config
    if getattr(text.config, "eos_token_id", None) is None:
        text.config.eos_token_id = getattr(model.config, "eos_token_id", None)
    text.train(model.training)
    return text


def _class_of(config: PreTrainedConfig | None, mapping: Any) -> type[PreTrainedModel] | None:
    found = mapping.get(type(config), None)
    return cast(type[PreTrainedModel] | None, found[0] if isinstance(found, tuple) else found)


def _decoder(model: PreTrainedModel) -> PreTrainedModel:
    return cast(PreTrainedModel, model.get_decoder())  # type: ignore[no-untyped-call]


def _head(model: PreTrainedModel) -> nn.Module | None:
    head: nn.Module | None = model.get_output_embeddings()  # type: ignore[no-untyped-call]
    return head


def _around(decoder: PreTrainedModel) -> PreTrainedModel:
    """Make a text model on the meta device. The caller replaces its decoder and its head."""
    known = _class_of(decoder.config, MODEL_FOR_CAUSAL_LM_MAPPING)
    base = next(one for one in type(decoder).__mro__[1:] if issubclass(one, PreTrainedModel))
    with torch.device("meta"):
        text = known(decoder.config) if known else None
        if text is not None and type(text.base_model) is type(decoder):
            return text
        # A subclass of the decoder's own base class, because that class states which attention is supported.
        made = type(type(decoder).__name__, (_TextModel, base), {"__module__": base.__module__})
        return cast(PreTrainedModel, made(decoder.config))


class _WithoutTowers(PreTrainedModel):  # type: ignore[no-untyped-call]
    """A whole model that drops all its modules except the decoder and the head when it is made."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        _keep(self, {_decoder(self), _head(self)})


def _keep(module: nn.Module, kept: Collection[nn.Module | None]) -> None:
    """Drop the submodules of `module` that are not kept and contain no kept module."""
    for name, child in list(module.named_children()):
        if child in kept:
            continue
        if any(one in kept for one in child.modules()):
            _keep(child, kept)
        else:
            setattr(module, name, None)


class _TextModel(PreTrainedModel):  # type: ignore[no-untyped-call]
    """A decoder with a head, for decoders that transformers has only inside a larger model."""

    base_model_prefix = "model"

    def __init__(self, config: PreTrainedConfig) -> None:
        super().__init__(config)
        self.model = self.lm_head = nn.Identity()

    def forward(
        self,
        input_ids: Tensor,
        position_ids: Tensor | None = None,
        use_cache: bool | None = None,
        logits_to_keep: int | Tensor = 0,
        **others: Any,
    ) -> CausalLMOutputWithPast:
        """Return scaled logits of the last `logits_to_keep` rows (0: all), or of the rows in a tensor."""
        output = self.model(input_ids=input_ids, position_ids=position_ids, use_cache=use_cache, **others)
        rows = slice(-logits_to_keep, None) if isinstance(logits_to_keep, int) else logits_to_keep
        logits = self.lm_head(output.last_hidden_state[:, rows])
        logits = (
            logits * getattr(self.config, "output_multiplier", 1) / getattr(self.config, "logits_scaling", 1)
        )
        if cap := getattr(self.config, "final_logit_softcapping", None):
            logits = cap * torch.tanh(logits / cap)
        return CausalLMOutputWithPast(logits=logits, **{CACHE_NAME: output.get(CACHE_NAME)})
