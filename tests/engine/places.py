"""Where the tests' models are found, and models that fail when they are told to."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from transformers import AutoConfig, AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

from app.errors import ModelNotFound
from app.values.messages import ModelFolder

Progress = Callable[[str, int, int], None]


@dataclass
class Places:
    """A `locate` that knows these folders by name, raises what is filed as an error, and remembers its calls."""

    folders: dict[str, Path]
    errors: dict[str, Exception] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def __call__(self, name: str, progress: Progress) -> ModelFolder:
        self.asked.append(name)
        progress(f"Looking for {name}", 0, 0)
        if name in self.errors:
            raise self.errors[name]
        if name not in self.folders:
            raise ModelNotFound(f"There is no model {name}: check the name.")
        return ModelFolder(self.folders[name], name=name)


class ExhaustingConfig(LlamaConfig):  # type: ignore[no-untyped-call]
    """A Llama that runs out of memory in a pass of more than `most_rows` rows."""

    model_type = "exhausting_llama"
    most_rows: int = 40


class ExhaustingLlama(LlamaForCausalLM):  # type: ignore[no-untyped-call]
    """Says so as torch's CPU allocator does."""

    config_class = ExhaustingConfig

    def forward(self, input_ids: Any = None, **rest: Any) -> Any:
        if input_ids.shape[1] > self.config.most_rows:
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 99 bytes")
        return super().forward(input_ids=input_ids, **rest)


def write_exhausting(folder: Path, tiny: Path) -> Path:
    """A copy of a tiny model that runs out of memory over long prompts; transformers learns to load it."""
    AutoConfig.register("exhausting_llama", ExhaustingConfig, exist_ok=True)
    AutoModelForCausalLM.register(ExhaustingConfig, ExhaustingLlama, exist_ok=True)
    write_as("exhausting_llama", folder, tiny)
    return folder


def write_as(model_type: str, folder: Path, tiny: Path) -> None:
    """A copy of a tiny Llama that transformers loads as a model of this type."""
    shutil.copytree(tiny, folder)
    config = (folder / "config.json").read_text()
    (folder / "config.json").write_text(config.replace('"llama"', f'"{model_type}"'))
