"""The models that the app recommends, from a file that ships with the app."""

import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

from app.errors import ModelBroken
from app.models_registry.files.config import ModelConfig
from app.models_registry.files.fit_estimate import Estimator, judge
from app.models_registry.files.weights import Tensor, Weights
from app.settings import assets_dir
from app.values.messages import PRESETS, Preset
from app.values.model import CatalogueEntry, Fit, Memory, Precision, Use, Verdict

FILE = "catalogue.toml"
SIZES = ("layers", "key_heads", "head_size", "hidden", "vocabulary", "is_tied")
WNG_SIZES: tuple[tuple[Preset, int], ...] = (("7b", 10_000_000_000), ("13b", 20_000_000_000))
"""The presets of lookahead's authors, and the largest number of parameters for each; larger models use 33b."""


@dataclass(frozen=True, slots=True)
class CatalogueModel:
    """An entry of the catalogue, with the estimator of the memory that the model takes."""

    entry: CatalogueEntry
    estimator: Estimator

    def fit(self, memory: Memory, precision: Precision, context: int, is_automatic: bool = False) -> Fit:
        return judge(replace(self.estimator, device=memory.device), memory, precision, context, is_automatic)


@dataclass(frozen=True, slots=True)
class CatalogueGroup:
    """Entries with the same verdict and the same use."""

    verdict: Verdict
    use: Use
    entries: tuple[CatalogueEntry, ...]


def read_catalogue(path: Path | None = None) -> list[CatalogueModel]:
    """Read all recommended models, small models first. Raises ModelBroken if the file is invalid."""
    path = path or assets_dir() / FILE
    try:
        models = tomllib.loads(path.read_text(encoding="utf-8"))["model"]
        return sorted((_recommended(values) for values in models), key=lambda r: r.entry.parameters)
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise ModelBroken(f"The catalogue {path} cannot be read ({error}): install the app again.") from error


def grouped(
    catalogue: Iterable[CatalogueModel], memory: Memory, precision: Precision, context: int
) -> Iterator[CatalogueGroup]:
    """Yield the catalogue in groups, by verdict and then by use; empty groups are left out."""
    fits = [(one, one.fit(memory, precision, context).verdict) for one in catalogue]
    for verdict in get_args(Verdict):
        for use in get_args(Use):
            entries = [one.entry for one, found in fits if found == verdict and one.entry.use == use]
            if entries:
                yield CatalogueGroup(verdict, use, tuple(entries))


def wng(parameters: int) -> tuple[int, int, int]:
    """Return the W, N and G that lookahead's authors advise for a model of this size."""
    for name, most in WNG_SIZES:
        if parameters <= most:
            return PRESETS[name]
    return PRESETS["33b"]


def _recommended(values: dict[str, Any]) -> CatalogueModel:
    sizes = {key: values.pop(key) for key in SIZES}
    experts = values.pop("experts", 0)
    values.pop("unread", 0)  # a part of the download that is not loaded
    values["checked"] = values["checked"].isoformat()
    entry = CatalogueEntry(**values, wng=wng(values["parameters"]))
    shape = ModelConfig(
        model_type="",
        architecture="",
        keys_values=2 * sizes["layers"] * sizes["key_heads"] * sizes["head_size"],
        intermediate=4 * sizes["hidden"],
        heads=max(sizes["key_heads"], sizes["hidden"] // sizes["head_size"]),
        context=entry.context,
        **sizes,
    )
    return CatalogueModel(entry, Estimator(shape, Weights(tuple(_tensors(shape, entry, experts)))))


def _tensors(shape: ModelConfig, entry: CatalogueEntry, experts: int) -> Iterator[Tensor]:
    """Yield tensors of a model's sizes: embedding and head, all experts, all layers as one matrix, and the rest."""
    table = (shape.vocabulary, shape.hidden)
    yield Tensor("embed_tokens.weight", "BF16", table)
    if not shape.is_tied:
        yield Tensor("lm_head.weight", "BF16", table)
    if experts:
        yield Tensor("experts.weight", "BF16", (1, experts, 1))  # not a matrix, so it is not quantised
    tables = shape.embedding * (1 if shape.is_tied else 2)
    rows, rest = divmod(entry.parameters - tables - experts, shape.hidden)
    yield Tensor("layers.weight", "BF16", (rows, shape.hidden))
    yield Tensor("norm.weight", "BF16", (rest,))
