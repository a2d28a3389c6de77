"""What a model can be loaded with on this machine, in words."""

import platform
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from app.errors import impossible_values
from app.ui.models.inventory import load_name
from app.values.messages import ModelChoice
from app.values.model import DraftModels


@dataclass(frozen=True, slots=True)
class Option:
    """A value of a field of `ModelChoice`; `words` say what it brings and what it costs."""

    value: str
    label: str
    words: str = ""


AUTO = Option("auto", "Automatic")
PRECISIONS = (AUTO, Option("float32", "float32"), Option("bfloat16", "bfloat16 (half the memory of float32)"))
FLOAT16 = Option("float16", "float16 (for cards without bfloat16)")
PLAIN = Option("none", "None", "The weights keep the precision chosen above.")
INT8_ON_CPU = (
    "About 5 times as fast as float32, with perplexity 0.4% higher (measured with SmolLM2-135M, one token per "
    "step, a C compiler installed)."
)
ON_CPU = (
    Option("int8", "int8", f"Its weights take a quarter of float32's memory. {INT8_ON_CPU}"),
    Option(
        "int4",
        "int4",
        "The least memory. It changes the text most, and in float32 it is slower than without quantisation.",
    ),
)
ON_GPU = (
    Option("int8", "int8", "Half the memory of bfloat16, with little change of the text."),
    Option("int4", "int4", "The least memory. It changes the text most, above all with small models."),
)
SDPA = Option("sdpa", "sdpa (torch)")
NATIVE = Option("native", "native (Foresight's own for CPUs)")
GPU_ATTENTION = {"triton": Option("triton", "triton"), "flash_attn": Option("flash", "flash (flash-attn)")}
"""Backends for a card, by the package that they need."""
NO_DRAFT_MODEL = Option("", "None")
FIELDS = ("dtype", "quantisation", "device", "attention", "draft_model")
CONTEXTS = (512, 1024, 2048, 4096, 8192, 16_384, 32_768, 65_536, 131_072)


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """The choices of each field of `ModelChoice`. One choice alone is no choice."""

    dtype: tuple[Option, ...]
    quantisation: tuple[Option, ...]
    device: tuple[Option, ...]
    attention: tuple[Option, ...]

    def allowed(self, choice: ModelChoice) -> ModelChoice:
        """The same choice without what does not exist here: it may have been made on another machine."""
        for field in fields(self):
            known = [option.value for option in getattr(self, field.name)]
            if getattr(choice, field.name) not in known:
                choice = replace(choice, **{field.name: known[0]})
        return choice


def options_here(
    gpus: Sequence[str], has_package: Any = find_spec, system: tuple[str, str] | None = None
) -> LoadOptions:
    """What this machine has: its cards, the packages that are installed, and its (system, processor)."""
    system = system or (platform.system(), platform.machine())
    has_gpu = bool(gpus) or system == ("Darwin", "arm64")
    packed = (ON_GPU if has_gpu else ON_CPU) if has_package("torchao") else ()
    return LoadOptions(
        dtype=(*PRECISIONS, FLOAT16) if has_gpu else PRECISIONS,
        quantisation=(PLAIN, *packed),
        device=_devices(gpus, has_gpu),
        attention=_attention(bool(gpus), has_package, system[0] == "Linux"),
    )


def _devices(gpus: Sequence[str], has_gpu: bool) -> tuple[Option, ...]:
    cuda = [Option("cuda", f"GPU ({gpus[0]})")] if gpus else []
    return (AUTO, Option("cpu", "CPU"), *cuda) if has_gpu else (AUTO,)


def _attention(has_card: bool, has_package: Any, is_linux: bool) -> tuple[Option, ...]:
    found = [option for package, option in GPU_ATTENTION.items() if has_card and has_package(package)]
    return (AUTO, SDPA, *found, *((NATIVE,) if is_linux and not has_card else ()))


@dataclass(frozen=True, slots=True)
class DraftOptions:
    """The models that can draft for a model, "None" first; `hint` tells of one that is known to suit."""

    models: tuple[Option, ...]
    hint: str = ""


def draft_options(found: DraftModels, chosen: str) -> DraftOptions:
    """The draft models to choose from. One that was chosen by its folder stays, though it is in no list."""
    models = [Option(load_name(one), one.name) for one in found.installed]
    if chosen and all(one.value != chosen for one in models):
        models.append(Option(chosen, Path(chosen).name))
    return DraftOptions((NO_DRAFT_MODEL, *models), _known_one(found) if found.known else "")


def _known_one(found: DraftModels) -> str:
    is_here = any(one.name == found.known for one in found.installed)
    return f"{found.known} is known to suit{'.' if is_here else ': download it in Models.'}"


def contexts(longest: int, chosen: int) -> list[tuple[int, str]]:
    """The context lengths to choose from, in tokens; 0 is the model's own."""
    shorter = sorted({one for one in (*CONTEXTS, chosen) if 0 < one < longest})
    return [(0, f"Model's own ({longest:,} tokens)"), *((one, f"{one:,} tokens") for one in shorter)]


def choice_from(choice: ModelChoice, values: dict[str, Any]) -> ModelChoice:
    """The choice with the values of a form, where a box that is not ticked has none. Raises BadOption."""
    changes: dict[str, Any] = {name: values[name] for name in FIELDS if name in values}
    with impossible_values():
        context, offload = int(values.get("context", choice.context)), "offload" in values
        return replace(choice, context=context, offload=offload, **changes)
