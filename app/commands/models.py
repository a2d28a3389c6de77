"""What `python run.py models …` does: asks the registry, and prints text or JSON."""

from collections.abc import Container, Iterable, Iterator
from pathlib import Path

import typer

from app.commands.library import hub_of, library
from app.commands.printing import say, show_json, table
from app.errors import ModelError
from app.model_messages import (
    CatalogueEntry,
    Fit,
    InstalledModel,
    Precision,
    RemoteModel,
    SearchHit,
    gigabytes,
)
from app.models_registry import (
    Hub,
    HubId,
    delete,
    find,
    find_here,
    find_installed,
    freed_by,
    grouped,
    inspect_model,
    installed,
    judge_folder,
    locate,
    memories,
    parse_hub_id,
    read_catalogue,
    verify,
)
from app.models_registry import search as search_hub
from app.models_registry.downloads.fetcher import free_bytes
from app.models_registry.installed_models import has_checksums


def list_installed(as_json: bool) -> None:
    """The models on this machine with their sizes, and what is left of the disk."""
    settings = library()
    hub = hub_of(settings)
    found = installed(hub, settings.paths)
    total, free = sum(model.size for model in found), free_bytes(hub.root)
    if as_json:
        return show_json({"models": found, "total": total, "free": free, "cache": hub.root})
    say(table(_installed_row(model) for model in found))
    say(f"{gigabytes(total)} in all, {gigabytes(free)} free on the disk of {hub.root}.")
    return None


def list_catalogue(precision: Precision, context: int, as_json: bool) -> None:
    """The recommended models, those that fit first."""
    memory = memories()[0]
    groups = list(grouped(read_catalogue(), memory, precision, context))
    if as_json:
        return show_json({"memory": memory, "groups": groups})
    for group in groups:
        say(f"{group.verdict.capitalize()}: {group.use}")
        say(table(_catalogue_row(entry) for entry in group.entries))
    return None


def search_models(words: str, limit: int, as_json: bool) -> None:
    """The catalogue's and the hub's models with these words; without a hub the catalogue's alone."""
    known = [one.entry for one in find(words, read_catalogue())]
    hits: list[SearchHit] = []
    note = ""
    try:
        hits = search_hub(hub_of(library()), words, limit)
    except ModelError as error:
        note = str(error)
    if as_json:
        return show_json({"catalogue": known, "hub": hits, "note": note})
    if known:
        say("Recommended:\n" + table(_catalogue_row(entry) for entry in known))
    if hits:
        say("On the hub:\n" + table(_hit_row(hit) for hit in hits))
    if not known and not hits:
        say(f"No model has {words!r} in its name.")
    if note:
        say(note, err=True)
    return None


def show_info(name: str, precision: Precision, context: int, as_json: bool) -> None:
    """What a model is, and whether it fits."""
    settings = library()
    hub = hub_of(settings)
    wanted = parse_hub_id(name, hub.endpoint)
    here = _here(installed(hub, settings.paths), {name, wanted.repo if wanted else name})
    if here is None and wanted is not None and find_here(name, hub) is None:
        return _show_remote(_look(hub, wanted, precision, context), as_json)
    path, label = (here.path, here.name) if here else _located(name)
    fit = judge_folder(path, label, memories()[0], precision, context)
    if as_json:
        return show_json({"model": here or {"name": label, "path": path}, "fit": fit})
    say(f"{label}: {path}")
    say(_fit_lines(fit))
    return None


def remove(name: str, yes: bool, as_json: bool) -> None:
    """Delete a model, once the person has agreed to it."""
    settings = library()
    hub = hub_of(settings)
    model = find_installed(name, hub, settings.paths)
    frees = freed_by(model, hub)
    if model.origin == "hub" and not yes:
        typer.confirm(f"Delete {model.name} ({model.path})? That frees {gigabytes(frees)}.", abort=True)
    freed = delete(model, hub)
    if as_json:
        return show_json({"removed": model.name, "revision": model.revision, "freed": freed})
    say(f"{model.name} is deleted; that freed {gigabytes(freed)}.")
    return None


def verify_model(name: str, as_json: bool) -> None:
    """Compare a model's bytes with their checksums. Raises ModelError when some are wrong."""
    settings = library()
    model = find_installed(name, hub_of(settings), settings.paths)
    problems = verify(model)
    is_checked = has_checksums(model)
    if as_json:
        show_json({"model": model.name, "checksums": is_checked, "problems": problems})
    if problems:
        raise ModelError(" ".join(problems))
    if not as_json:
        how = "every byte is right" if is_checked else "its files are whole (no checksums are known for them)"
        say(f"{model.name}: {how}.")


def counted(parameters: int) -> str:
    """A number of parameters as models are named: "8.03B", "135M"."""
    for unit, size in (("B", 1e9), ("M", 1e6)):
        if parameters >= size * 0.9995:
            value = parameters / size
            return f"{value:.2f}{unit}" if value < 10 else f"{value:.0f}{unit}"
    return f"{parameters:,}"


def _here(found: Iterable[InstalledModel], names: Container[str]) -> InstalledModel | None:
    """The first of these models that has such a name and is whole."""
    return next((model for model in found if model.name in names and model.state == "ready"), None)


def _located(name: str) -> tuple[Path, str]:
    found = locate(name, lambda *_: None)
    return found.path, found.name


def _look(hub: Hub, wanted: HubId, precision: Precision, context: int) -> RemoteModel:
    """What the hub says of a model; where it says nothing, what the catalogue knows."""
    memory = memories()[0]
    try:
        return inspect_model(hub, wanted, memory, precision, context)
    except ModelError as error:
        known = [one for one in read_catalogue() if one.entry.repo.lower() == wanted.repo.lower()]
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


def _show_remote(model: RemoteModel, as_json: bool) -> None:
    if as_json:
        return show_json(model)
    say(f"{model.repo}{model.commit and f' at {model.commit[:12]}'}: {_facts(model)}")
    for file in model.files:
        say(f"  {file.name}  {gigabytes(file.size)}")
    for problem in model.problems:
        say(problem)
    if model.fit:
        say(_fit_lines(model.fit))
    return None


def _facts(model: RemoteModel) -> str:
    parts = [
        f"{counted(model.parameters)} parameters" if model.parameters else "",
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
    told = ", ".join(f"{name} {gigabytes(size)}" for name, size in parts)
    return f"{fit.sentence}\n  in {fit.precision} with {fit.context:,} tokens: {told}"


def _installed_row(model: InstalledModel) -> Iterator[str]:
    yield from (model.name, gigabytes(model.size), model.revision[:12] or "-", model.origin)
    yield model.state if model.state == "ready" else f"{model.state}: {model.problem}"


def _catalogue_row(entry: CatalogueEntry) -> Iterator[str]:
    yield from (entry.repo, counted(entry.parameters), gigabytes(entry.size))
    yield f"{entry.licence}{', gated' if entry.is_gated else ''}"
    yield entry.good_for


def _hit_row(hit: SearchHit) -> Iterator[str]:
    yield from (hit.repo, f"{hit.downloads:,} downloads", "gated" if hit.is_gated else "")
