"""`python run.py chats …`: the chats of a data folder from outside, also while the app runs. What is done is in
chats.py."""

from pathlib import Path
from typing import Annotated

import typer

from app.commands import chats
from app.commands.edge import sentences
from app.commands.options import AsJson, DataDir

chats_cli = typer.Typer(
    help="Look for chats, write them out, read them in, keep a copy of all.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

OutFile = Annotated[Path, typer.Argument(metavar="FILE", help="One that is there is replaced.")]


@chats_cli.command("list")
def list_chats(data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """Show all chats, pinned ones first, then the last used."""
    with sentences(), chats.chats_in(data_dir) as store:
        chats.list_chats(store, as_json)


@chats_cli.command()
def search(
    words: Annotated[list[str], typer.Argument(metavar="WORDS")],
    limit: Annotated[int, typer.Option(min=1, max=1000)] = 30,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Find chats with all these words in their title or in one message."""
    with sentences(), chats.chats_in(data_dir) as store:
        chats.search_chats(store, " ".join(words), limit, as_json)


@chats_cli.command()
def export(
    numbers: Annotated[
        list[int] | None, typer.Argument(metavar="[CHAT]...", help="As `chats list` numbers them; none: all.")
    ] = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="What is shown, to read; no import.")] = False,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Instead of printing it.")] = None,
    data_dir: DataDir = None,
) -> None:
    """Write chats out: as JSON with everything, or as Markdown."""
    with sentences(), chats.chats_in(data_dir) as store:
        chats.export_chats(store, numbers or [], markdown, out)


@chats_cli.command("import")
def import_chats(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="JSON that `chats export` or the app wrote.")],
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Add the chats of an exported file to those that are there."""
    with sentences(), chats.chats_in(data_dir) as store:
        chats.import_chats(store, file, as_json)


@chats_cli.command()
def backup(file: OutFile, data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """Copy everything that the app keeps of chats and documents into one file."""
    with sentences(), chats.chats_in(data_dir) as store:
        chats.backup_chats(store, file, as_json)
