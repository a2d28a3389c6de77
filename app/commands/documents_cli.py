"""`python run.py documents …`: the documents of a data folder from outside, also while the app runs.

What is done is in documents.py."""

from pathlib import Path
from typing import Annotated

import typer

from app.commands import documents
from app.commands.edge import sentences
from app.commands.opening import asked_documents, embedded_documents
from app.commands.options import AsJson, DataDir

documents_cli = typer.Typer(
    help="Put texts into collections, look what is there, find passages, remove.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

MINE = "Documents"


@documents_cli.command()
def add(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="Text, Markdown, code, PDF, DOCX, HTML; - for input."),
    ],
    collection: Annotated[str, typer.Option(metavar="NAME", help="Made where it is not there.")] = MINE,
    title: Annotated[str, typer.Option(metavar="TEXT", help="What the text from the input is called.")] = "",
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Read files into a collection, and wait until they can be found."""
    with sentences(), embedded_documents(data_dir) as opened:
        documents.add_documents(opened.documents, files, collection, title, as_json)


@documents_cli.command("list")
def list_documents(
    collection: Annotated[str, typer.Option(metavar="NAME", help="Show its documents.")] = "",
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Show all collections, or the documents of one."""
    with sentences(), documents.documents_in(data_dir) as store:
        documents.list_documents(store, collection, as_json)


@documents_cli.command()
def remove(
    numbers: Annotated[
        list[int] | None, typer.Argument(metavar="[DOCUMENT]...", help="As `documents list` numbers them.")
    ] = None,
    collection: Annotated[str, typer.Option(metavar="NAME", help="All of it instead.")] = "",
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Delete documents, or a collection, with all that was made of them."""
    with sentences(), documents.documents_in(data_dir) as store:
        documents.remove_documents(store, numbers or [], collection, as_json)


@documents_cli.command()
def search(
    words: Annotated[list[str], typer.Argument(metavar="QUESTION")],
    collection: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Ask this one; again for more. None: all.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=100)] = 8,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Find the passages that are nearest to a question."""
    with sentences(), asked_documents(data_dir) as (store, _):
        documents.search_documents(store, " ".join(words), collection or [], limit, as_json)
