"""`python run.py models info`: what a model is, and whether it fits this machine."""

from contextlib import closing
from pathlib import Path

from app.commands.console import print_json, print_text
from app.commands.services import hub_in
from app.engine.text.sandbox import Sandbox
from app.errors import ModelError
from app.models_registry.catalogue import read_catalogue
from app.models_registry.files.fit_estimate import judge_folder
from app.models_registry.hub.hub import Hub
from app.models_registry.hub.hub_id import HubId, parse_hub_id
from app.models_registry.hub.search import inspect_model
from app.models_registry.installed_models import installed
from app.models_registry.locate import find_here, locate, template_here
from app.system.machine import memories
from app.values.model import Fit, Precision, RemoteModel, gigabytes, parameters_label

USUAL: Precision = "bfloat16"
"""The precision that is assumed for weights that are not quantised."""


def print_info(
    name: str, precision: Precision | None, context: int, data_dir: Path | None, as_json: bool
) -> None:
    """Print what is known about a model on this machine, or else about a model of the hub.

    Without a precision, memory is estimated for the precision in which the model would be loaded."""
    hub, settings = hub_in(data_dir)
    hub_id = parse_hub_id(name, hub.endpoint)
    names = {name, hub_id.repo if hub_id else name}
    complete = (one for one in installed(hub, settings.paths) if one.name in names and one.state == "ready")
    here = next(complete, None)
    if here is None and hub_id is not None and find_here(name, hub) is None:
        return _print_remote(_remote(hub, hub_id, precision, context), as_json)
    found = here or locate(name, lambda *_: None)
    path, label = found.path, found.name
    fit = judge_folder(
        path, label, memories()[0], precision or USUAL, context, is_automatic=precision is None
    )
    levels, template = list[str](), template_here(str(path), hub)
    if template:
        with closing(Sandbox()) as sandbox:
            modes = sandbox.chat_format(template, {}).modes
            levels = [mode.level for mode in modes]
    if as_json:
        return print_json({"model": here or {"name": label, "path": path}, "fit": fit, "thinking": levels})
    print_text(f"{label}: {path}")
    print_text(_fit_lines(fit))
    if len(levels) > 1:
        print_text(f"--thinking can be {', '.join(levels)}; without it, the model uses {levels[0]}.")
    if not template:
        print_text(
            "Its files have no chat template: messages are written in a format that its tokens suggest."
        )
    return None


def _remote(hub: Hub, hub_id: HubId, precision: Precision | None, context: int) -> RemoteModel:
    """Ask the hub about a model. If that fails, use the catalogue's entry; raises ModelError if there is none."""
    memory = memories()[0]
    try:
        return inspect_model(hub, hub_id, memory, precision or USUAL, context, precision is None)
    except ModelError as error:
        known = [one for one in read_catalogue() if one.entry.repo.lower() == hub_id.repo.lower()]
        if not known:
            raise
        entry, fit = known[0].entry, known[0].fit(memory, precision or USUAL, context, precision is None)
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
            problems=(f"The facts on the hub could not be read, so these are from the catalogue: {error}",),
        )


def _print_remote(model: RemoteModel, as_json: bool) -> None:
    if as_json:
        return print_json(model)
    facts = (
        f"{parameters_label(model.parameters)} parameters" if model.parameters else "",
        f"{gigabytes(model.size)} to download" if model.size else "",
        f"{model.context:,} tokens of context" if model.context else "",
        f"licence {model.licence}" if model.licence else "",
        "gated: log in and accept its terms" if model.is_gated else "",
    )
    at = model.commit and f" at {model.commit[:12]}"
    print_text(f"{model.repo}{at}: {', '.join(filter(None, facts))}")
    for file in (*model.files, *model.ggufs):
        print_text(f"  {file.name}  {gigabytes(file.size)}")
    for problem in model.problems:
        print_text(problem)
    if model.fit:
        print_text(_fit_lines(model.fit))
    return None


def _fit_lines(fit: Fit) -> str:
    need = fit.need
    parts = (
        ("weights", need.weights),
        ("context", need.cache),
        ("steps", need.rows),
        ("runtime", need.runtime),
    )
    sizes = ", ".join(f"{name} {gigabytes(size)}" for name, size in parts)
    return f"{fit.sentence}{fit.note and ' '}{fit.note}\n  in {fit.form} with {fit.context:,} tokens: {sizes}"
