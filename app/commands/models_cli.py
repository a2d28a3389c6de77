"""`python run.py models …`: the command line of the model library, declared. What the commands do is in models.py.

The hub's client reads its environment while it is imported, so it is imported by the command that runs."""

from typing import Annotated

import typer

from app.commands.edge import sentences
from app.commands.options import AsJson
from app.model_messages import Precision

models_cli = typer.Typer(
    help="Find, judge, download and delete models.", no_args_is_help=True, rich_markup_mode=None
)

Name = Annotated[
    str, typer.Argument(metavar="NAME", help="A hub id such as org/name, or its page's address.")
]
Installed = Annotated[str, typer.Argument(metavar="NAME", help="As `models list` shows it.")]
PrecisionOption = Annotated[Precision, typer.Option("--dtype", help="How the weights would be kept.")]
ContextOption = Annotated[
    int, typer.Option("--context", min=1, metavar="TOKENS", help="How long a chat may get.")
]


@models_cli.command("list")
def list_models(
    catalogue: Annotated[bool, typer.Option("--catalogue", help="Those that Foresight recommends.")] = False,
    dtype: PrecisionOption = "bfloat16",
    context: ContextOption = 4096,
    as_json: AsJson = False,
) -> None:
    """Show the models on this machine, or the recommended ones."""
    from app.commands import models

    with sentences():
        if catalogue:
            models.list_catalogue(dtype, context, as_json)
        else:
            models.list_installed(as_json)


@models_cli.command()
def search(
    words: Annotated[list[str], typer.Argument(metavar="WORDS")],
    limit: Annotated[int, typer.Option(min=1, max=50)] = 20,
    as_json: AsJson = False,
) -> None:
    """Look for models in the catalogue and on the hub, the most downloaded first."""
    from app.commands import models

    with sentences():
        models.search_models(" ".join(words), limit, as_json)


@models_cli.command()
def info(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="A hub id, its page's address, a folder, or 'demo'.")
    ],
    dtype: PrecisionOption = "bfloat16",
    context: ContextOption = 4096,
    as_json: AsJson = False,
) -> None:
    """Show what a model is and whether it fits this machine, before anything is downloaded."""
    from app.commands import models

    with sentences():
        models.show_info(name, dtype, context, as_json)


@models_cli.command()
def download(name: Name, as_json: AsJson = False) -> None:
    """Download a model; Ctrl+C pauses it, and the same command goes on."""
    from app.commands import model_download

    with sentences():
        model_download.download(name, as_json)


@models_cli.command()
def remove(
    name: Installed,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: AsJson = False,
) -> None:
    """Delete a model from the hub's cache."""
    from app.commands import models

    with sentences():
        models.remove(name, yes, as_json)


@models_cli.command()
def verify(name: Installed, as_json: AsJson = False) -> None:
    """Read all of a model's bytes and compare them with their checksums."""
    from app.commands import models

    with sentences():
        models.verify_model(name, as_json)


@models_cli.command()
def login() -> None:
    """Save a token of the hub, for models that are gated."""
    from app.commands import model_download

    with sentences():
        model_download.ask_token()


@models_cli.command()
def logout() -> None:
    """Forget the saved token."""
    from app.commands import model_download

    with sentences():
        model_download.forget_token()
