"""Reads a model's weights from its folder or GGUF file, and explains errors in sentences.

Before any memory is taken, config.json is compared with the size of the weights."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from copy import deepcopy
from importlib.util import find_spec
from time import monotonic
from typing import Any

import torch
from torch.nn.modules.module import register_module_module_registration_hook
from transformers import (
    MODEL_FOR_CAUSAL_LM_MAPPING,
    AutoModelForCausalLM,
    GenerationConfig,
    PreTrainedConfig,
    PreTrainedModel,
)

from app.engine.layers.packed_layers import Pack
from app.engine.layers.packed_weight import CpuPacker
from app.engine.loading.kept_layers import (
    dense_weights,
    has_changed_placeholder,
    int8_weights,
    keep_packed,
    later_weights,
    packable,
    read_later,
)
from app.engine.loading.packed_checkpoints import checkpoint_weights, fp8_form
from app.engine.loading.text_part import empty_model, text_model, text_reader
from app.engine.machine.device_faults import is_no_verdict
from app.engine.machine.tensor_files import TensorFiles
from app.errors import AppError, ModelBroken, ModelUnsafe, first_line
from app.values.dataclass_json import parse_json
from app.values.gguf_header import parts_of, read_gguf_header
from app.values.messages import ModelFolder
from app.values.model import CONFIG
from app.values.packed_checkpoint import CheckpointForm, checkpoint_form

HERE = {"local_files_only": True, "trust_remote_code": False}
"""Options of transformers: download nothing, and run no code of the folder."""

Place = Callable[[PreTrainedConfig, torch.device], dict[str, Any]]
"""(config, device) -> transformers' options for the devices of weights. May raise AppError."""

LONGEST_CAUSE = 200
MOST_MODULES = 200_000
"""Maximum number of modules. No model has more, because all experts of a layer are one module."""
SECONDS = 30.0
"""The time limit for making all modules. A large model needs about one second."""
MOST_IN_BYTE = 6
"""Maximum number of parameters that a GGUF file stores in one byte."""
SPARE_NUMBERS = 50_000_000
"""Parameters that a config may describe although no file has them, such as tied heads and zero biases."""
SPARE_BYTES = 2 * 2**30
"""Bytes of buffers that a config may describe, such as tables of positions; no file has them."""


def described_model(folder: ModelFolder, config: PreTrainedConfig) -> PreTrainedModel:
    """Make the text part of the model that the config describes, on the meta device.

    Raises ModelBroken if that model is much larger than the weights, has too many modules, or takes too long."""
    with _building(folder):
        model = empty_model(config, torch.float32)
    files = parts_of(folder.gguf) if folder.gguf else folder.path.glob("*.safetensors")
    stored = sum(file.stat().st_size for file in files)
    # A parameter takes at least a byte, unless several are packed into one.
    packed = MOST_IN_BYTE if folder.gguf else 2 if hasattr(config, "quantization_config") else 1
    most = stored * packed + SPARE_NUMBERS
    numbers = sum(parameter.numel() for parameter in model.parameters())
    buffers = sum(buffer.numel() * buffer.element_size() for buffer in model.buffers())
    if numbers > most:
        raise _too_much(folder, f"{numbers:,} parameters for {stored:,} bytes of weights")
    if buffers > SPARE_BYTES:
        raise _too_much(folder, f"{buffers:,} bytes of buffers")
    return text_model(model)


@contextmanager
def _building(folder: ModelFolder) -> Iterator[None]:
    """Raise ModelBroken within the context once more than MOST_MODULES modules are made or SECONDS have passed."""
    count, end = 0, monotonic() + SECONDS

    def made(*_: object) -> None:
        nonlocal count
        count += 1
        if count > MOST_MODULES:
            raise _too_much(folder, f"{count:,} modules and more")
        if monotonic() > end:
            raise ModelBroken(
                f"The model that the config.json of {folder.name} describes took more than {SECONDS:.0f} seconds "
                "to build: try again, or choose another model."
            )

    with register_module_module_registration_hook(made):
        yield


def _too_much(folder: ModelFolder, what: str) -> ModelBroken:
    return ModelBroken(
        f"The config.json of {folder.name} does not fit its weights (it describes {what}): "
        "choose another model."
    )


@contextmanager
def as_model_errors(folder: ModelFolder) -> Iterator[None]:
    """Turn errors of any type into ModelBroken or ModelUnsafe, because libraries raise errors of many types.

    An AppError, and an error of memory or of the device, is raised unchanged."""
    try:
        yield
    except AppError:
        raise
    except Exception as error:
        if is_no_verdict(error):
            raise
        if "trust_remote_code" in str(error):
            raise ModelUnsafe(
                f"{folder.name} needs Python code of its own, which Foresight does not run: choose a model whose "
                "architecture transformers supports."
            ) from error
        words = first_line(error)
        if folder.path.is_file():
            raise ModelBroken(
                f"The GGUF file of {folder.name} could not be loaded ({words}): choose the same model in "
                "safetensors, or another one."
            ) from error
        raise ModelBroken(
            f"{folder.name} could not be loaded ({words}): choose another model, or check that the "
            "folder holds a complete text model in safetensors."
        ) from error


@contextmanager
def as_config_errors(folder: ModelFolder) -> Iterator[None]:
    """Turn errors that transformers raises while it builds the model of a config.json into ModelBroken.

    Errors of memory, of the device and about a model's own code are raised unchanged, and so are all errors of
    GGUF files, which have no config.json."""
    try:
        yield
    except AppError:
        raise
    except Exception as error:
        if folder.gguf or is_no_verdict(error) or "trust_remote_code" in str(error):
            raise
        raise ModelBroken(
            f"transformers cannot build the model that the config.json of {folder.name} describes "
            f"({_cause(error, folder)}): choose another model, or get the model's own config.json again."
        ) from error


def _cause(error: Exception, folder: ModelFolder) -> str:
    """Return why transformers refuses a config.json: the value that it does not know, or its first sentences."""
    words = " ".join(str(error).split()).strip("'\"") or type(error).__name__
    if isinstance(error, KeyError) and " " not in words:
        values = parse_json((folder.path / CONFIG).read_bytes())
        place = next(_places(values, words), "")
        return f"{place} is {words!r}, which it does not know" if place else f"{words!r} is missing"
    if len(words) > LONGEST_CAUSE:
        words = words[:LONGEST_CAUSE].rpartition(". ")[0] or words[:LONGEST_CAUSE]
    return words.rstrip(".:")


def _places(values: Any, word: str) -> Iterator[str]:
    """Yield the keys that have this value in a config, such as "text_config.hidden_act"."""
    for key, value in values.items() if isinstance(values, dict) else ():
        yield from (f"{key}.{inner}" for inner in _places(value, word))
        if value == word:
            yield str(key)


def placement(
    device: torch.device, find: Callable[[str], object] = find_spec
) -> dict[str, dict[str, torch.device]]:
    """Return the options with which transformers reads each weight directly onto a GPU; {} for a CPU, or without
    accelerate.

    Without accelerate the file is mapped into memory, and the weights are moved from there. On Linux this
    takes no further memory, unless the weights change their type."""
    return {"device_map": {"": device}} if device.type != "cpu" and find("accelerate") else {}


def read_weights(
    folder: ModelFolder,
    config: PreTrainedConfig,
    dtype: torch.dtype,
    placed: dict[str, Any],
    described: PreTrainedModel | None = None,
    pack: Pack | None = None,
    quantises: bool = False,
) -> PreTrainedModel:
    """Read the text part of the model. With `pack` the quantised matrices that `pack` supports stay packed; if this
    `quantises` dense weights, large ones are packed in 8 bits.

    Without `pack`, if the model is to be quantised later, the weights of its Linears and its embedding become
    StoredParameters.

    Raises ModelBroken if weights are missing or have another size, and errors of any type for damaged files."""
    stated, config = config, deepcopy(config)
    empty = described if described is not None else text_model(empty_model(config, dtype))
    weights = _lazy_weights(folder, config, dtype, empty, pack, quantises)
    if quantises:
        weights |= int8_weights(empty, weights) if pack else dense_weights(empty, weights, dtype)
    text = _read_text_model(folder, config, dtype, placed, weights)
    later = later_weights(text, weights)
    if later and has_changed_placeholder(text, later):
        return read_weights(folder, stated, dtype, placed, described)
    if pack:
        keep_packed(text, later, pack, torch.get_num_threads() if isinstance(pack, CpuPacker) else 1)
    else:
        read_later(text, later)
    return text


def _read_text_model(
    folder: ModelFolder,
    config: PreTrainedConfig,
    dtype: torch.dtype,
    placed: dict[str, Any],
    weights: Mapping[str, Any],
) -> PreTrainedModel:
    """Let transformers make the model from these lazy weights or, if there are none, from the folder's files."""
    # With output_loading_info the result is a pair, which transformers' types do not express.
    reader: Any = text_reader(config)
    source: Any = folder.path
    options: dict[str, Any] = {"use_safetensors": True, **HERE}
    if weights:
        if reader is AutoModelForCausalLM:  # this class needs a folder, even if it gets the weights
            reader = MODEL_FOR_CAUSAL_LM_MAPPING[type(config)]
        source, options = None, {"state_dict": weights}
    read = reader.from_pretrained(
        source,
        config=config,
        dtype=dtype,
        **options,
        **placed,
        ignore_mismatched_sizes=True,  # mismatches are reported below, in our own words
        output_loading_info=True,
    )
    model: PreTrainedModel = read[0]
    model.config.name_or_path = str(folder.path)
    _check_all_are_read(folder, read[1])
    if weights and model.can_generate():  # otherwise transformers has read it
        with suppress(OSError):  # not every folder has one
            model.generation_config = GenerationConfig.from_pretrained(folder.path, local_files_only=True)
    return text_model(model)


def _check_all_are_read(folder: ModelFolder, info: Mapping[str, Any]) -> None:
    """Raise ModelBroken if weights are missing or have another size, by transformers' info about a load."""
    if missing := sorted(info["missing_keys"]):
        raise ModelBroken(
            f"The weights of {folder.name} are incomplete (missing: {len(missing)}, the first is {missing[0]}): "
            "choose another model."
        )
    if mismatched := sorted(name for name, *_shapes in info["mismatched_keys"]):
        raise ModelBroken(
            f"The weights of {folder.name} do not fit its config.json (of another size: {len(mismatched)}, the "
            f"first is {mismatched[0]}): choose another model."
        )


def _lazy_weights(
    folder: ModelFolder,
    config: PreTrainedConfig,
    dtype: torch.dtype,
    model: PreTrainedModel,
    pack: Pack | None,
    needs_all: bool,
) -> dict[str, Any]:
    """Return lazy weights for a GGUF file or a quantised checkpoint. For other files {} is returned, so that
    transformers reads them itself, unless the caller `needs_all` lazy weights.

    For a quantised checkpoint, the quantisation is removed from `config`."""
    kept = packable(model, isinstance(pack, CpuPacker)) if pack else {}
    if folder.gguf:
        from app.engine.loading.gguf_weights import stored_weights  # gguf is not on every GPU machine

        return stored_weights(read_gguf_header(folder.gguf), model, dtype, kept)
    if form := form_of(config) or fp8_form(folder.path, config):
        for each in (config, config.get_text_config(decoder=True)):
            vars(each).pop("quantization_config", None)  # else transformers would read the weights itself
        return checkpoint_weights(folder.path, form, dtype, kept)
    if needs_all and not hasattr(config, "quantization_config"):
        files = TensorFiles(folder.path)
        return {name: files.lazy(name) for name in files}
    return {}


def form_of(config: PreTrainedConfig) -> CheckpointForm | None:
    """Return how a model's stored weights are quantised; None unless `checkpoint_form` knows the format."""
    parts = (config, config.get_text_config(decoder=True))
    stated = (getattr(one, "quantization_config", None) for one in parts)
    return next(filter(None, (checkpoint_form({"quantization_config": one}) for one in stated)), None)


def has_integers(config: PreTrainedConfig) -> bool:
    """Return whether the stored weights are integers with scales."""
    form = form_of(config)
    return form is not None and not form.is_float


def offloaded_bytes(model: PreTrainedModel) -> int:
    """Return the bytes of the weights that are copied to the device for each step (torch's meta tensors)."""
    return sum(parameter.nbytes for parameter in model.parameters() if parameter.is_meta)
