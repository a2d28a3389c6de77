"""Reads the values of a model's text part from its config.json, and names the other inputs that the model has."""

from collections.abc import Mapping
from typing import Any

TEXT_PARTS = ("thinker_config", "text_config", "llm_config", "language_config")
"""Parts of a config about the model that writes text, in models that also read pictures or sound, or speak."""
LAYER_PART = "transformer_layer_config"
"""The part of a draft head's config that describes its decoder layers."""
OTHER_PARTS = {
    "vision_config": "pictures", "vq_config": "pictures", "audio_config": "sound", "encoder_config": "sound",
}  # fmt: skip
"""The parts of a config about inputs other than text, and these inputs."""


def text_values(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a config, overridden by those of its part about the model that writes text."""
    for key in (LAYER_PART, *TEXT_PARTS):
        if isinstance(part := config.get(key), dict):
            return text_values({**{name: value for name, value in config.items() if name != key}, **part})
    return dict(config)


def unread_parts(config: Mapping[str, Any]) -> str:
    """Return a sentence for the user about inputs that are not read; "" if text is the model's only input."""
    found = {
        what: None for key, what in OTHER_PARTS.items() if isinstance(text_values(config).get(key), dict)
    }
    verb = "is" if set(found) == {"sound"} else "are"
    return f"It is loaded as a text model: {' and '.join(found)} {verb} not read here." if found else ""


def with_whole_numbers(config: Mapping[str, Any], keys: Mapping[str, Any]) -> dict[str, Any]:
    """Return the config with integers where these keys, in any part of it, have floats such as 4096.0."""
    return {
        key: with_whole_numbers(value, keys)
        if isinstance(value, dict)
        else int(value)
        if key in keys and isinstance(value, float) and value.is_integer()
        else value
        for key, value in config.items()
    }
