"""Reads the config.json of a draft head, without torch. The file comes from strangers and is not trusted.

A draft head is a small network that drafts tokens for a larger model (its target) and reads the target's hidden
states. There are two kinds: EAGLE-3 heads in the format of vllm-project/speculators (`models/eagle3/config.py`
there), and the assistants of Gemma 4 models in transformers' format.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from app.errors import ModelBroken, OnlyDrafts
from app.values.config_parts import text_values
from app.values.dataclass_json import parse_json
from app.values.messages import ModelFolder
from app.values.model import CONFIG, LARGEST_SIZES, LONGEST_CONFIG
from app.values.validation import require, require_one_of

KIND = "speculators_model_type"
ASSISTANTS = ("gemma4_assistant", "gemma4_unified_assistant")
STATES = "backbone_hidden_size"
"""The key, in an assistant's config, of the width of the states that the assistant reads."""
LayerType = Literal["llama", "qwen3"]
LARGEST = {**LARGEST_SIZES, "num_hidden_layers": 8}
"""The sizes in the config of a head's layers, and the largest accepted values."""
OPTIONAL = {"num_key_value_heads", "head_dim"}
OTHERS = (
    "hidden_act", "rms_norm_eps", "attention_bias", "mlp_bias", "rope_theta", "rope_scaling", "rope_parameters",
)  # fmt: skip
"""Other values of a layer. Only these values and the sizes are passed to transformers."""
FLAGS = ("norm_before_residual", "norm_before_fc", "fc_norm", "norm_output")
USUAL_STATES = 3
MOST_STATES = 8
NAMED = re.compile(r"[\w.-]+(/[\w.-]+)*")


@dataclass(frozen=True, slots=True)
class EagleConfig:
    """The config of an EAGLE-3 head. `layer` is the config of its layers, with transformers' names.

    `states` are the target's layers (from 1) whose outputs the head reads, () for the usual layers; `target_hidden`
    is the width of these outputs. `verifier` is the name of the target, "" if the config does not have it."""

    model_type: LayerType
    layer: Mapping[str, Any]
    draft_vocabulary: int
    target_hidden: int
    states: tuple[int, ...] = ()
    norm_before_residual: bool = False
    norm_before_fc: bool = False
    fc_norm: bool = False
    norm_output: bool = False
    verifier: str = ""

    def __post_init__(self) -> None:
        require_one_of(LayerType, "model_type", self.model_type)
        for key, most in LARGEST.items():
            if key not in OPTIONAL or self.layer.get(key) is not None:
                _require_size(key, self.layer.get(key), most)
        _require_size("draft_vocab_size", self.draft_vocabulary, self.vocabulary)
        _require_size("target_hidden_size", self.target_hidden, LARGEST["hidden_size"])
        require(
            len(self.states) <= MOST_STATES,
            f"the number of states that it reads must be at most {MOST_STATES}",
            len(self.states),
        )
        for number in self.states:
            _require_size("eagle_aux_hidden_state_layer_ids", number, LARGEST_SIZES["num_hidden_layers"])
        require(
            not (self.norm_before_fc and self.fc_norm), "norm_before_fc must be off if fc_norm is on", "on"
        )

    @property
    def hidden(self) -> int:
        return int(self.layer["hidden_size"])

    @property
    def vocabulary(self) -> int:
        """The size of the target's vocabulary."""
        return int(self.layer["vocab_size"])

    def states_of(self, layers: int) -> tuple[int, ...]:
        """Return which of the target's `layers` layers the head reads; by default vLLM's choice."""
        return self.states or (2, layers // 2, layers - 3)


def _require_size(key: str, value: object, most: int) -> None:
    is_size = isinstance(value, int) and not isinstance(value, bool) and 0 < value <= most
    require(is_size, f"{key} must be from 1 to {most:,}", value)


def drafts_only(config: Mapping[str, Any]) -> bool:
    return KIND in config or config.get("model_type") in ASSISTANTS


def is_draft_head(folder: Path) -> bool:
    return drafts_only(_values(folder))


def is_assistant(folder: Path) -> bool:
    """Return whether this folder contains an assistant of a Gemma 4 model."""
    return _values(folder).get("model_type") in ASSISTANTS


def head_sizes(folder: Path, name: str) -> tuple[int, int]:
    """Return the width of the states that the draft head in this folder reads, and the size of its target's
    vocabulary. Raises ModelBroken."""
    if not is_assistant(folder):
        config = read_eagle_config(folder, name)
        return config.target_hidden, config.vocabulary
    values = text_values(_values(folder))
    width, vocabulary = values.get(STATES), values.get("vocab_size")
    try:
        _require_size(STATES, width, LARGEST["hidden_size"])
        _require_size("vocab_size", vocabulary, LARGEST["vocab_size"])
    except ValueError as error:
        raise ModelBroken(
            f"The config.json of {name} cannot be that of an assistant ({error}): choose another draft model, or "
            "none."
        ) from error
    return int(width or 0), int(vocabulary or 0)


def read_eagle_config(folder: Path, name: str) -> EagleConfig:
    """Read the config of the head in this folder. Raises ModelBroken if it is invalid, or not an EAGLE-3 head."""
    values = _values(folder)
    kind = str(values.get(KIND))[:40]
    if kind != "eagle3":
        raise ModelBroken(
            f"{name} is a speculator of the kind {kind!r}, which Foresight does not know: choose an EAGLE-3 head, "
            "or a smaller model, as the draft model."
        )
    try:
        layer, wider = dict(values["transformer_layer_config"]), values.get("target_hidden_size")
        if "sliding_attention" in (layer.get("layer_types") or ()):
            raise ValueError("its attention has a sliding window")
        return EagleConfig(
            model_type=layer["model_type"],
            layer={key: layer[key] for key in (*LARGEST, *OTHERS) if layer.get(key) is not None},
            draft_vocabulary=values["draft_vocab_size"],
            target_hidden=layer["hidden_size"] if wider is None else wider,
            states=tuple(values.get("eagle_aux_hidden_state_layer_ids") or ()),
            verifier=_verifier(values),
            **{flag: values.get(flag) is True for flag in FLAGS},
        )
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        problem = f"it has no {error.args[0]}" if isinstance(error, KeyError) else str(error)
        raise ModelBroken(
            f"The config.json of {name} cannot be that of an EAGLE-3 head ({problem[:200]}): choose another draft "
            "model, or none."
        ) from error


def refuse_draft_head(folder: ModelFolder) -> None:
    """Raise OnlyDrafts if this folder contains a draft head, ModelBroken for an invalid or unknown draft head."""
    if not is_draft_head(folder.path):
        return
    head_sizes(folder.path, folder.name)
    what, whose = "an assistant", "the Gemma 4 model that it was trained for"
    if not is_assistant(folder.path):
        config = read_eagle_config(folder.path, folder.name)
        what, whose = "an EAGLE-3 head", config.verifier or "the model that it was trained for"
    raise OnlyDrafts(
        f"{folder.name} is {what}, which writes no text of its own: load {whose}, and choose this as its draft "
        "model."
    )


def _values(folder: Path) -> dict[str, Any]:
    """Return the values of the config.json; an empty dict if it is missing or invalid."""
    try:
        with (folder / CONFIG).open("rb") as file:
            content = file.read(LONGEST_CONFIG + 1)
        values = parse_json(content) if len(content) <= LONGEST_CONFIG else {}
    except (OSError, ValueError):
        return {}
    return values if isinstance(values, dict) else {}


def _verifier(values: dict[str, Any]) -> str:
    """Return the target's name for messages; "" if it is missing, long, or not like a hub id or a relative path."""
    about = values.get("speculators_config")
    verifier = about.get("verifier") if isinstance(about, dict) else None
    name = verifier.get("name_or_path") if isinstance(verifier, dict) else None
    return name if isinstance(name, str) and len(name) < 100 and NAMED.fullmatch(name) else ""
