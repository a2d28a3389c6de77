"""What `python run.py chats …` does: asks the store, and prints text or JSON."""

import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import typer

from app.chat_messages import ChatSummary
from app.chats import Chats
from app.commands.printing import say, show_json, shown, table
from app.database import database_in
from app.display_text import counted
from app.errors import BadOption
from app.model_messages import gigabytes
from app.settings import data_dir_or_default
from app.text_normalisation import without_surrogates


@contextmanager
def chats_in(data_dir: Path | None) -> Iterator[Chats]:
    """The chats of a data folder. The app may have them open: nobody is locked out."""
    with closing(database_in(data_dir_or_default(data_dir))) as database:
        if database.note:
            say(database.note, err=True)
        yield Chats(database)


def list_chats(store: Chats, as_json: bool) -> None:
    """All chats."""
    lines = store.summaries()
    if as_json:
        return show_json({"chats": lines, "size": store.size()})
    if lines:
        say(table(_row(line) for line in lines))
    say(f"{counted(len(lines), 'chat')}, {gigabytes(store.size())}.")
    return None


def search_chats(store: Chats, words: str, limit: int, as_json: bool) -> None:
    """The chats that have these words, with where they have them."""
    words = without_surrogates(words)
    found = store.search(words, limit)
    if as_json:
        return show_json({"found": found})
    for one in found:
        typer.echo(f"{shown(table([_row(one.summary)]))}\n      {_lit(one.excerpt)}")
    if not found:
        say(f"No chat has {words!r}.")
    return None


def export_chats(store: Chats, numbers: list[int], markdown: bool, out: Path | None) -> None:
    """Chats as JSON or Markdown, printed or written."""
    if markdown:
        wanted = numbers or [line.id for line in store.summaries()]
        text = "\n\n".join(store.export_markdown(chat) for chat in wanted)
    else:
        text = store.export_json(numbers or None)
    if out is None:
        # What goes into a file or another program stays as it was written.
        return say(text, is_line=False) if sys.stdout.isatty() else typer.echo(text, nl=False)
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise BadOption(f"{out} cannot be written ({error.strerror}): choose another file.") from error
    return None


def import_chats(store: Chats, file: Path, as_json: bool) -> None:
    """Add the chats of a file."""
    try:
        text = file.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise BadOption(f"{file} cannot be read ({error.strerror}): choose another file.") from error
    except UnicodeDecodeError as error:
        raise BadOption(f"{file} is no text: choose a file that `chats export` wrote.") from error
    taken = store.import_json(text)
    if as_json:
        return show_json({"imported": taken.new, "known": taken.known})
    already = f" {counted(taken.known, 'chat')} {'was' if taken.known == 1 else 'were'} here already."
    say(f"{counted(taken.new, 'chat')} came in.{already if taken.known else ''}")
    return None


def backup_chats(store: Chats, file: Path, as_json: bool) -> None:
    """Copy the whole database."""
    store.backup(file)
    size = file.stat().st_size
    if as_json:
        return show_json({"file": file, "size": size})
    say(f"Everything is in {file}, {gigabytes(size)}. To go back to it, put it in the data folder's place.")
    return None


def _row(line: ChatSummary) -> Iterator[str]:
    yield f"{line.id:>5}"
    yield "pinned" if line.is_pinned else ""
    yield time.strftime("%Y-%m-%d %H:%M", time.localtime(line.updated))
    yield line.folder
    yield line.title or "New chat"


def _lit(excerpt: str) -> str:
    """An excerpt with its found words bold, where that can be seen."""
    before, *parts = excerpt.split("\x02")
    lit = (part.partition("\x03") for part in parts)
    return shown(before) + "".join(typer.style(shown(word), bold=True) + shown(rest) for word, _, rest in lit)
