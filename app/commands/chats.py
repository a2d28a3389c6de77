"""`python run.py chats …`: lists, searches, exports, imports, backs up, restores and rescues chats."""

import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Annotated

import typer

from app.chats.chat_table import mend_chats
from app.chats.chats import Chats
from app.commands.console import (
    columns,
    errors_as_sentences,
    print_json,
    print_result,
    print_text,
    printable,
    progress_bar,
)
from app.commands.options import (
    LARGEST_NUMBER,
    AsJson,
    CommandGroup,
    DataDir,
    Overwrite,
    read_text,
    require_free,
    require_with,
    require_words,
)
from app.database.data_folder import DataFolder, data_dir_or_default
from app.database.database import Database, database_in
from app.database.files import FILE_NAME, STAMP, command_line
from app.database.rescuing import Unread, rescue
from app.database.restoring import RESCUED, apply_staged, stage
from app.documents.document_table import HIDDEN
from app.documents.file_import import PENDING_FOLDER
from app.documents.indexing import mend_documents
from app.errors import BadOption, DataFolderInUse
from app.system.files import write_output
from app.values.chat import ChatSummary
from app.values.display_text import counted
from app.values.model import gigabytes
from app.values.text_normalisation import without_surrogates

chats_cli = typer.Typer(
    cls=CommandGroup,
    help="List, search, export, import, back up, restore and rescue chats.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

SAVED = {
    "chat": "SELECT count(*) FROM chat WHERE deleted IS NULL",
    "message": "SELECT count(*) FROM message",
    "document": f"SELECT count(*) FROM document WHERE state NOT IN {HIDDEN}",
}
"""Queries that count the chats, messages and documents of a rescued database."""


@contextmanager
def chats_in(data_dir: Path | None) -> Iterator[Chats]:
    """Open the chats of a data folder. Errors end the command with a sentence."""
    with errors_as_sentences(), closing(database_in(data_dir_or_default(data_dir))) as database:
        if database.note:
            print_text(database.note, err=True)
        yield Chats(database)


@chats_cli.command("list")
def list_chats(data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """List all chats: pinned chats first, then the most recently used."""
    with chats_in(data_dir) as chats:
        summaries, size = chats.summaries(), chats.database.size()
    total = f"{counted(len(summaries), 'chat')}, {gigabytes(size)}."
    print_result(as_json, {"chats": summaries, "size": size}, columns(map(_row, summaries)), total)


@chats_cli.command("search")
def search_chats(
    words: Annotated[list[str], typer.Argument(metavar="WORDS")],
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Maximum number of results.")] = 30,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Find chats that have all these words in their title or in one message."""
    query = without_surrogates(" ".join(words))
    with chats_in(data_dir) as chats:
        require_words(query)
        found = chats.search(query, limit)[:limit]
    if as_json:
        return print_json({"found": found})
    for result in found:
        typer.echo(f"{printable(columns([_row(result.summary)]))}\n      {_highlighted(result.excerpt)}")
    if not found:
        print_text(f"No chat has {query!r}.")
    return None


@chats_cli.command("export")
def export_chats(
    numbers: Annotated[
        list[int] | None,
        typer.Argument(
            metavar="CHAT", min=1, max=LARGEST_NUMBER, help="Numbers from `chats list`; default: all."
        ),
    ] = None,
    markdown: Annotated[
        bool,
        typer.Option(
            "--markdown", help="Write only the shown messages, for reading; they cannot be imported again."
        ),
    ] = False,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Write to this file.")] = None,
    overwrite: Overwrite = False,
    data_dir: DataDir = None,
) -> None:
    """Export chats as Markdown, or as JSON with all versions of messages. Collections and tools are left out."""
    with errors_as_sentences():
        require_with("--overwrite", overwrite, "--out", out)
    with chats_in(data_dir) as chats:
        if out is not None:
            require_free(out, overwrite)
        if markdown:
            text = "\n\n".join(map(chats.export_markdown, numbers or [one.id for one in chats.summaries()]))
        else:
            text = chats.export_json(numbers or None)
        if out is not None:
            _write(out, text)
        elif sys.stdout.isatty():
            print_text(text, is_line=False)
        else:
            typer.echo(text, nl=False)  # another program gets the text unchanged


@chats_cli.command("import")
def import_chats(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="JSON that `chats export` or the app wrote.")],
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Import the chats of an exported file. Chats that are stored already are skipped."""
    with chats_in(data_dir) as chats, progress_bar() as progress:
        task = progress.add_task(f"Importing {printable(file.name)}", total=None)
        result = chats.import_json(
            read_text(file), lambda done, all: progress.update(task, completed=done, total=all)
        )
    known = f" {counted(result.known, 'chat')} {'was' if result.known == 1 else 'were'} here already."
    sentence = f"{counted(result.new, 'chat')} imported.{known if result.known else ''}"
    print_result(as_json, {"imported": result.new, "known": result.known}, sentence)


@chats_cli.command("backup")
def backup_chats(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write.")],
    overwrite: Overwrite = False,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Copy all chats and documents into one file."""
    with chats_in(data_dir) as chats:
        require_free(file, overwrite)
        chats.database.backup(file)
    size = file.stat().st_size
    restore = command_line("chats", "restore", file.absolute(), "--data-dir", data_dir_or_default(data_dir))
    sentence = f"Saved all chats and documents to {file} ({gigabytes(size)}). `{restore}` brings them back."
    print_result(as_json, {"file": file, "size": size}, sentence)


@chats_cli.command("restore")
def restore_backup(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="A file that `chats backup` or `chats rescue` has saved, or an automatic backup: "
            "those of the last three days are in the folder `backups` of the data folder.",
        ),
    ],
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Replace all chats and documents by a backup. The old chats and documents are kept in a file."""
    with errors_as_sentences():
        folder = DataFolder(data_dir_or_default(data_dir))
        folder.hold()
        try:
            stage(file, folder.path)
            restored = apply_staged(folder.path, (PENDING_FOLDER,))
        finally:
            folder.release()
    print_result(as_json, {"restored": file}, restored)


@chats_cli.command("rescue")
def rescue_chats(
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="A damaged database; default: the app's own.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="FILE",
            help="Save to this file; default: a new file in the folder of the damaged one.",
        ),
    ] = None,
    overwrite: Overwrite = False,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Save what can still be read of a damaged database to a new file, which `chats restore` accepts."""
    with errors_as_sentences():
        require_with("--overwrite", overwrite, "--out", out)
        folder = data_dir_or_default(data_dir)
        damaged = (file or folder / FILE_NAME).absolute()
        saved = out or damaged.with_name(time.strftime(f"{RESCUED}{STAMP}.sqlite"))
        damaged_folder = DataFolder(damaged.parent)
        # A running app may change the database.
        if damaged.name == FILE_NAME and damaged_folder.running_at() and damaged_folder.is_held():
            raise DataFolderInUse(f"Foresight is running on {damaged.parent}. Quit it, and try again.")
        require_free(saved, overwrite)
        unread = rescue(damaged, saved, (mend_chats, mend_documents))
        with closing(Database(saved)) as database, database.reading() as connection:
            counts = {name: connection.execute(query).fetchone()[0] for name, query in SAVED.items()}
    words = ", ".join(counted(count, name) for name, count in counts.items())
    restore = command_line("chats", "restore", saved.absolute(), "--data-dir", folder)
    sentence = f"Saved {words} to {saved}. {_unread(unread)} `{restore}` puts them in place."
    print_result(as_json, {"file": saved, **counts, "unread": unread}, sentence)


def _unread(unread: Unread) -> str:
    least = "" if unread.is_exact else "At least "
    missing = f"{least}{counted(unread.rows, 'row')} could not be read" if unread.rows else ""
    cut = f"{counted(unread.cut, 'text')} could be read only in part" if unread.cut else ""
    nothing = "Nothing is missing" if unread.is_exact else "It is unknown whether anything is missing"
    words = "; ".join(filter(None, (missing, cut))) or nothing
    return f"{words[0].upper()}{words[1:]}."


def _row(chat: ChatSummary) -> Iterator[str]:
    yield f"{chat.id:>5}"
    yield "pinned" if chat.is_pinned else ""
    yield time.strftime("%Y-%m-%d %H:%M", time.localtime(chat.updated))
    yield chat.folder
    yield chat.title or "New chat"


def _highlighted(excerpt: str) -> str:
    """Return the excerpt with the found words, which are between \\x02 and \\x03, in bold."""
    before, *parts = excerpt.split("\x02")
    found = (part.partition("\x03") for part in parts)
    return printable(before) + "".join(
        typer.style(printable(word), bold=True) + printable(rest) for word, _, rest in found
    )


def _write(file: Path, text: str) -> None:
    try:
        write_output(file, text)
    except OSError as error:
        raise BadOption(f"{file} cannot be written ({error.strerror}). Choose another file.") from error
