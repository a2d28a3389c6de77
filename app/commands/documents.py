"""What `python run.py documents …` does: asks the store, and prints text or JSON."""

import sys
from collections.abc import Container, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import typer

from app.commands.arguments import whole_characters
from app.commands.printing import say, show_json, shown, table
from app.counting import counted
from app.database import database_in
from app.document_messages import Collection, Document, PassageHit
from app.documents import Documents, require_file
from app.documents.embedding import NO_EMBEDDER, Embedder
from app.documents.reading.encodings import text_of
from app.errors import BadOption, DocumentError, DocumentUnreadable
from app.settings import data_dir_or_default

EXCERPT = 300
"""Characters of a found passage that are printed."""
STANDARD_INPUT = Path("-")


@contextmanager
def documents_in(data_dir: Path | None, embedder: Embedder = NO_EMBEDDER) -> Iterator[Documents]:
    """The documents of a data folder. The app may have them open: they take turns."""
    folder = data_dir_or_default(data_dir)
    with closing(database_in(folder)) as database:
        if database.note:
            say(database.note, err=True)
        with closing(Documents(database, folder, embedder)) as documents:
            yield documents


def add_documents(store: Documents, files: Sequence[Path], name: str, title: str, as_json: bool) -> None:
    """Put files into a collection, which is made where it is not there, and wait until they can be found."""
    real = [file for file in files if file != STANDARD_INPUT]
    for file in real:
        require_file(file)  # before a collection is made for nothing
    pasted = _standard_input() if len(real) < len(files) else ""
    collection = _collection_to_fill(store, name)
    before = {document.id for document in store.documents(collection)}
    added = list(store.add_files(collection, real))
    if len(real) < len(files):
        added.append(store.paste(collection, pasted, whole_characters(title)))
    store.wait()
    added_as = {store.imported_into(document) for document in added}
    told = [one for one in store.documents(collection) if one.id in added_as]
    _show_added(told, before, as_json)
    if failed := [one for one in told if one.state == "failed"]:
        raise DocumentError(f"{len(failed):,} of {counted(len(files), 'file')} could not be read: see above.")


def list_documents(store: Documents, name: str, as_json: bool) -> None:
    """All collections, or the documents of one."""
    if name:
        return _show_documents(store.documents(_require_collection(store, name).id), as_json)
    found = store.collections()
    if as_json:
        return show_json({"collections": found})
    if found:
        say(table(_collection_row(one) for one in found))
    say(f"{counted(len(found), 'collection')}.")
    return None


def remove_documents(store: Documents, numbers: Sequence[int], name: str, as_json: bool) -> None:
    """Delete documents by number, or a whole collection."""
    if bool(numbers) == bool(name):
        raise BadOption(
            "Say either which documents to remove, or which collection with all of its documents."
        )
    wanted = dict.fromkeys(numbers)
    for number in wanted:
        store.document(number)  # one that is not there: then nothing is removed
    for number in wanted:
        store.remove(number)
    if name:
        store.delete(_require_collection(store, name).id)
    store.wait()
    if as_json:
        return show_json({"removed": list(wanted) or name})
    say(f"{counted(len(wanted), 'document') if wanted else f'Collection {name}'} removed.")
    return None


def search_documents(
    store: Documents, question: str, names: Sequence[str], limit: int, as_json: bool
) -> None:
    """The passages that are nearest to a question."""
    question = whole_characters(question)
    if not question.strip():
        raise BadOption("There is no question: type some words.")
    asked = chosen_collections(store, names)
    found = store.search([one.id for one in asked], question, limit)
    if as_json:
        return show_json({"found": found})
    for number, one in enumerate(found, start=1):
        typer.echo(_passage(number, one))
    if not found:
        say(f"Nothing about {question!r} in {counted(len(asked), 'collection')}.")
    return None


def chosen_collections(store: Documents, names: Sequence[str]) -> list[Collection]:
    """The collections of these names, all for none. Raises BadOption for one that is not there."""
    found = [_require_collection(store, name) for name in names] or list(store.collections())
    if not found:
        raise BadOption("There are no documents yet: add some with `documents add FILE`.")
    return found


def _standard_input() -> str:
    text = text_of(sys.stdin.buffer.read())
    if text is None:
        raise DocumentUnreadable(
            "What came on the standard input is no text: save it as a file, and add that."
        )
    return text


def _collection_to_fill(store: Documents, name: str) -> int:
    there = _collection(store, name)
    return there.id if there else store.create(name)


def _require_collection(store: Documents, name: str) -> Collection:
    found = _collection(store, name)
    if found is None:
        names = ", ".join(one.name for one in store.collections()) or "none yet"
        raise BadOption(f"There is no collection {name!r} (there are: {names}): see `documents list`.")
    return found


def _collection(store: Documents, name: str) -> Collection | None:
    wanted = " ".join(name.split()).casefold()
    return next((one for one in store.collections() if one.name.casefold() == wanted), None)


def _show_documents(documents: Sequence[Document], as_json: bool) -> None:
    if as_json:
        return show_json({"documents": documents})
    if documents:
        say(table(_document_row(one) for one in documents))
    say(f"{counted(len(documents), 'document')}.")
    return None


def _show_added(documents: Sequence[Document], before: Container[int], as_json: bool) -> None:
    """What became of what was added; documents that were there `before` have come again."""
    known = [one.id for one in documents if one.id in before]
    if as_json:
        return show_json({"documents": documents, "known": known})
    if documents:
        say(table(_document_row(one) for one in documents))
    already = f" {len(known):,} {'was' if len(known) == 1 else 'were'} here already." if known else ""
    say(f"{counted(len(documents), 'document')}.{already}")
    return None


def _collection_row(one: Collection) -> Iterator[str]:
    yield one.name
    yield counted(one.documents, "document")
    yield counted(one.passages, "passage")
    yield counted(one.characters, "character")


def _document_row(one: Document) -> Iterator[str]:
    yield f"{one.id:>5}"
    yield one.state if one.state != "indexing" else f"indexing {one.done:,} of {one.total:,}"
    yield counted(one.passages, "passage")
    yield one.title if one.source in ("pasted", one.title) else f"{one.title} ({one.source})"
    yield one.note


def _passage(number: int, one: PassageHit) -> str:
    passage = one.passage
    where = " \u203a ".join(filter(None, (passage.title, passage.heading)))
    words = " ".join(passage.text.split())
    excerpt = words if len(words) <= EXCERPT else words[:EXCERPT].rstrip() + "\u2026"
    place = f"document {passage.document}, characters {passage.start:,} to {passage.end:,}"
    return f"[{number}] {typer.style(shown(where), bold=True)}\n    {place}\n    {shown(excerpt)}\n"
