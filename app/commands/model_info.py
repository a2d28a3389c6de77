"""`python run.py models info`: what a model is, and whether it fits this machine."""

from collections.abc import Container, Iterable
from pathlib import Path

from app.commands.console import print_json, print_text
from app.commands.services import hub_of, model_settings
from app.errors import ModelError
from app.models_registry import (
    Hub,
    HubId,
    find_here,
    inspect_model,
    installed,
    judge_folder,
    locate,
    memories,
    parse_hub_id,
    read_catalogue,
)
from app.values.model import Fit, InstalledModel, Precision, RemoteModel, gigabytes, parameters_label


def print_info(name: str, precision: Precision, context: int, data_dir: Path | None, as_json: bool) -> None:
    """Prints a model of this machine, or else of the hub."""
    settings = model_settings(data_dir)
    hub = hub_of(settings)
    hub_id = parse_hub_id(name, hub.endpoint)
    here = _installed_as(installed(hub, settings.paths), {name, hub_id.repo if hub_id else name})
    if here is None and hub_id is not None and find_here(name, hub) is None:
        return _print_remote(_remote(hub, hub_id, precision, context), as_json)
    path, label = (here.path, here.name) if here else _located(name)
    fit = judge_folder(path, label, memories()[0], precision, context)
    if as_json:
        return print_json({"model": here or {"name": label, "path": path}, "fit": fit})
    print_text(f"{label}: {path}")
    print_text(_fit_lines(fit))
    return None


def _installed_as(found: Iterable[InstalledModel], names: Container[str]) -> InstalledModel | None:
    """The first complete model that has one of these names."""
    return next((model for model in found if model.name in names and model.state == "ready"), None)


def _located(name: str) -> tuple[Path, str]:
    found = locate(name, lambda *_: None)
    return found.path, found.name


def _remote(hub: Hub, hub_id: HubId, precision: Precision, context: int) -> RemoteModel:
    """What the hub says about a model; if it cannot be reached, what the catalogue knows."""
    memory = memories()[0]
    try:
        return inspect_model(hub, hub_id, memory, precision, context)
    except ModelError as error:
        known = [one for one in read_catalogue() if one.entry.repo.lower() == hub_id.repo.lower()]
        if not known:
            raise
        entry, fit = known[0].entry, known[0].fit(memory, precision, context)
        return RemoteModel(
            entry.repo,
            commit="",
            size=entry.size,
            files=(),
            is_gated=entry.is_gated,
            licence=entry.licence,
            parameters=entry.parameters,
            context=entry.context,
            fit=fit,
            problems=(f"This is from the catalogue: {error}",),
        )


def _print_remote(model: RemoteModel, as_json: bool) -> None:
    if as_json:
        return print_json(model)
    print_text(f"{model.repo}{model.commit and f' at {model.commit[:12]}'}: {_facts(model)}")
    for file in model.files:
        print_text(f"  {file.name}  {gigabytes(file.size)}")
    for problem in model.problems:
        print_text(problem)
    if model.fit:
        print_text(_fit_lines(model.fit))
    return None


def _facts(model: RemoteModel) -> str:
    parts = [
        f"{parameters_label(model.parameters)} parameters" if model.parameters else "",
        f"{gigabytes(model.size)} to download" if model.size else "",
        f"{model.context:,} tokens of context" if model.context else "",
        f"licence {model.licence}" if model.licence else "",
        "gated: log in and accept its terms" if model.is_gated else "",
    ]
    return ", ".join(filter(None, parts))


def _fit_lines(fit: Fit) -> str:
    need = fit.need
    parts = (
        ("weights", need.weights),
        ("context", need.cache),
        ("steps", need.rows),
        ("runtime", need.runtime),
    )
    sizes = ", ".join(f"{name} {gigabytes(size)}" for name, size in parts)
    return f"{fit.sentence}\n  in {fit.precision} with {fit.context:,} tokens: {sizes}"
