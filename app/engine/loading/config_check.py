"""A config.json is held against its weights before any memory is taken for what it describes.

The model is built without memory (torch's meta device), by transformers, which alone knows what a config means.
Modules are counted while they are made, numbers once they are there.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Any

import torch
from torch.nn.modules.module import register_module_module_registration_hook
from transformers import AutoModelForCausalLM, PreTrainedConfig

from app.errors import ModelBroken
from app.values.messages import ModelFolder

MOST_MODULES = 200_000
"""More than any model has: experts of a layer are one module today."""
SECONDS = 30.0
"""For all modules: a large model has them in one."""
MOST_IN_BYTE = 6
"""Numbers that a GGUF file stores in one byte at most."""
SPARE_NUMBERS = 50_000_000
"""Parameters that may be described and not be stored: heads that are tied, biases of zero."""
SPARE_BYTES = 2 * 2**30
"""Of buffers, such as tables of positions, that no file holds."""


def check_config_size(folder: ModelFolder, config: PreTrainedConfig, dtype: torch.dtype) -> None:
    """Raise ModelBroken for a config that describes much more than the folder's weights hold."""
    make: Any = AutoModelForCausalLM.from_config  # which has no types
    with torch.device("meta"), _building(folder):
        model = make(config, dtype=dtype, trust_remote_code=False)
    files = [folder.gguf] if folder.gguf else folder.path.glob("*.safetensors")
    stored = sum(file.stat().st_size for file in files)
    # A number takes a byte or more, unless several were packed into one.
    packed = MOST_IN_BYTE if folder.gguf else 2 if hasattr(config, "quantization_config") else 1
    most = stored * packed + SPARE_NUMBERS
    numbers = sum(parameter.numel() for parameter in model.parameters())
    buffers = sum(buffer.numel() * buffer.element_size() for buffer in model.buffers())
    if numbers > most or buffers > SPARE_BYTES:
        raise _too_much(folder, f"{max(numbers, buffers):,} numbers for {stored:,} bytes of weights")


@contextmanager
def _building(folder: ModelFolder) -> Iterator[None]:
    """End what makes more modules than there are in any model, or takes too long to."""
    count, end = 0, monotonic() + SECONDS

    def made(*_: object) -> None:
        nonlocal count
        count += 1
        if count > MOST_MODULES or monotonic() > end:
            raise _too_much(folder, f"{count:,} modules and more")

    handle = register_module_module_registration_hook(made)
    try:
        yield
    finally:
        handle.remove()


def _too_much(folder: ModelFolder, what: str) -> ModelBroken:
    return ModelBroken(
        f"The config.json of {folder.name} does not fit its weights (it describes {what}): "
        "download the model again, or choose another one."
    )
