"""`python run.py models …`: the models on this machine, the catalogue and the hub.

Only functions import `app.models_registry`, for the reason that services.py gives.
"""

from collections.abc import Iterator
from typing import Annotated

import typer

from app.commands.console import columns, errors_as_sentences, print_json, print_result, print_text
from app.commands.options import AsJson, CommandGroup, DataDir, require_words
from app.commands.services import hub_in
from app.errors import BadOption, ModelError
from app.values.display_text import counted
from app.values.model import CatalogueEntry, InstalledModel, Precision, SearchHit, gigabytes, parameters_label

models_cli = typer.Typer(
    cls=CommandGroup,
    help="Find, inspect, download and delete models.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

HubName = Annotated[
    str, typer.Argument(metavar="NAME", help="A hub id such as org/name, or the address of its page.")
]
InstalledName = Annotated[str, typer.Argument(metavar="NAME", help="A name from `models list`.")]
AnyName = Annotated[
    str, typer.Argument(metavar="NAME", help="A hub id, the address of its page, a folder, or 'demo'.")
]
PrecisionOption = Annotated[
    Precision | None,
    typer.Option("--dtype", help="The precision of the weights. [default: as they are loaded here]"),
]
ContextOption = Annotated[
    int,
    typer.Option(
        "--context", min=1, metavar="TOKENS", help="The context length for which memory is estimated."
    ),
]
CataloguePrecision = Annotated[
    Precision | None,
    typer.Option("--dtype", help="With --catalogue: the precision of the weights. [default: bfloat16]"),
]
CatalogueContext = Annotated[
    int | None,
    typer.Option(
        "--context",
        min=1,
        metavar="TOKENS",
        help="With --catalogue: the context length for which memory is estimated. [default: 4096]",
    ),
]


@models_cli.command("list")
def list_models(
    catalogue: Annotated[bool, typer.Option("--catalogue", help="List the recommended models.")] = False,
    dtype: CataloguePrecision = None,
    context: CatalogueContext = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """List the models on this machine, or the recommended models."""
    from app.models_registry.downloads.resumable_fetch import disk_use
    from app.models_registry.installed_models import installed

    with errors_as_sentences():
        if catalogue and data_dir:
            raise BadOption("--data-dir changes nothing with --catalogue. Leave it out.")
        if catalogue:
            return _list_catalogue(dtype or "bfloat16", context or 4096, as_json)
        if dtype or context:
            raise BadOption("--dtype and --context are only for --catalogue: add it, or leave them out.")
        hub, settings = hub_in(data_dir)
        found = installed(hub, settings.paths)
        total, free = sum(model.size for model in found), disk_use(hub.root).free
    return print_result(
        as_json,
        {"models": found, "total": total, "free": free, "cache": hub.root},
        columns(map(_installed_row, found)),
        f"{gigabytes(total)} in total, {gigabytes(free)} free on the disk of {hub.root}.",
    )


@models_cli.command("search")
def search_models(
    words: Annotated[list[str], typer.Argument(metavar="WORDS")],
    limit: Annotated[int, typer.Option(min=1, max=50, help="Maximum number of results.")] = 20,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Search the catalogue and the hub. The hub's most downloaded models come first."""
    from app.models_registry.catalogue import read_catalogue
    from app.models_registry.hub.search import search as search_hub

    with errors_as_sentences():
        require_words(query := " ".join(words))
        known = [one.entry for one in read_catalogue() if one.entry.matches(query)]
        hits, note = list[SearchHit](), ""
        try:
            hits = search_hub(hub_in(data_dir)[0], query, limit)
        except ModelError as error:  # without a connection only the catalogue is searched
            note = str(error)
    print_result(
        as_json,
        {"catalogue": known, "hub": hits, "note": note},
        "Recommended:\n" + columns(map(_catalogue_row, known)) if known else "",
        "On the hub:\n" + columns(map(_hit_row, hits)) if hits else "",
        "" if known or hits else f"No model has {query!r} in its name.",
    )
    if note and not as_json:
        print_text(note, err=True)


@models_cli.command("info")
def show_info(
    name: AnyName,
    dtype: PrecisionOption = None,
    context: ContextOption = 4096,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Show what a model is and whether it fits this machine, even before it is downloaded."""
    from app.commands.model_info import print_info

    with errors_as_sentences():
        print_info(name, dtype, context, data_dir, as_json)


@models_cli.command("download")
def download_model(name: HubName, data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """Download a model. Ctrl+C pauses the download, and the same command continues it."""
    from app.commands.model_download import download

    with errors_as_sentences():
        download(name, data_dir, as_json)


@models_cli.command("remove")
def remove_model(
    name: InstalledName,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Delete a model from the hub's cache."""
    from app.models_registry.installed_models import delete, find_installed, freed_by

    with errors_as_sentences():
        hub, settings = hub_in(data_dir)
        model = find_installed(name, hub, settings.paths)
        if model.origin == "hub" and not yes:
            frees = gigabytes(freed_by(model))
            typer.confirm(f"Delete {model.name} ({model.path})? This frees {frees}.", abort=True)
        freed = delete(model)
    sentence = f"{model.name} deleted, {gigabytes(freed)} freed."
    print_result(as_json, {"removed": model.name, "revision": model.revision, "freed": freed}, sentence)


@models_cli.command("verify")
def verify_model(name: InstalledName, data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """Read all files of a model and compare them with their checksums."""
    from app.models_registry.installed_models import find_installed, has_checksums, verify

    with errors_as_sentences():
        hub, settings = hub_in(data_dir)
        model = find_installed(name, hub, settings.paths)
        problems = verify(model)
        is_checked = has_checksums(model)
        if as_json:
            print_json({"model": model.name, "checksums": is_checked, "problems": problems})
        if problems:
            raise ModelError(" ".join(problems))
        if not as_json:
            result = (
                "all checksums match" if is_checked else "its files are complete (there are no checksums)"
            )
            print_text(f"{model.name}: {result}.")


@models_cli.command("login")
def log_in(data_dir: DataDir = None) -> None:
    """Save an access token of the hub, for gated models."""
    from app.commands.model_download import ask_token

    with errors_as_sentences():
        ask_token(hub_in(data_dir)[0])


@models_cli.command("logout")
def log_out() -> None:
    """Delete the hub's access token from this machine."""
    from app.models_registry.hub.hub import Hub

    with errors_as_sentences():
        Hub().log_out()
        print_text("Logged out.")


def _list_catalogue(precision: Precision, context: int, as_json: bool) -> None:
    from app.models_registry.catalogue import grouped, read_catalogue
    from app.system.machine import memories

    memory = memories()[0].usual
    groups = list(grouped(read_catalogue(), memory, precision, context))
    texts = (
        f"{one.verdict.capitalize()}: {one.use}\n{columns(map(_catalogue_row, one.entries))}"
        for one in groups
    )
    print_result(as_json, {"memory": memory, "groups": groups}, *texts)


def _installed_row(model: InstalledModel) -> Iterator[str]:
    yield from (model.name, gigabytes(model.size), model.revision[:12] or "-", model.origin)
    yield model.state if model.state == "ready" else f"{model.state}: {model.problem}"


def _catalogue_row(entry: CatalogueEntry) -> Iterator[str]:
    yield from (entry.repo, parameters_label(entry.parameters), gigabytes(entry.size))
    yield f"{entry.licence}{', gated' if entry.is_gated else ''}"
    yield entry.good_for


def _hit_row(hit: SearchHit) -> Iterator[str]:
    yield from (hit.repo, counted(hit.downloads, "download"), "gated" if hit.is_gated else "")
