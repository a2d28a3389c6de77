"""`python run.py documents …`: adds, lists, removes and searches documents, and answers questions from them."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Annotated

import typer

from app.commands import options as given
from app.commands.console import columns, errors_as_sentences, print_json, print_result, print_text, printable
from app.commands.decoder_options import DecoderSizes, read_decoding
from app.commands.options import LARGEST_NUMBER, AsJson, CollectionNames, CommandGroup, DataDir
from app.commands.prompts import SamplingOverride, require_sampled
from app.commands.reply_output import print_statistics, stream_reply, wait_for_load, wait_for_reply
from app.commands.services import documents_in, embedded_documents
from app.conversation import ReplySettings
from app.conversation.citation_check import checked_sources, claims
from app.conversation.prompt_builder import PromptBuilder
from app.conversation.thought_parsing import split_thought
from app.conversation.turn import TurnContext
from app.documents.documents import Documents
from app.documents.file_import import require_file
from app.documents.reading.files import text_of
from app.documents.search.snippets import plain_passage
from app.engine import Engine
from app.errors import BadOption, DocumentError, DocumentUnreadable, ModelError, impossible_values
from app.settings import DEMO_MODEL
from app.values.chat import ChatSettings
from app.values.display_text import counted
from app.values.document import Collection, Document, PassageHit, Sources
from app.values.messages import ModelChoice, Options, Request, Sampling
from app.values.text_normalisation import name_key, without_surrogates

documents_cli = typer.Typer(
    cls=CommandGroup,
    help="Add, list, remove and search documents, and ask questions about them.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

EXCERPT = 300
"""Maximum characters of a found passage that are printed."""
STANDARD_INPUT = Path("-")


@documents_cli.command("add")
def add_documents(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE",
            help="Text, code, PDF, Office files, ODT, RTF, EPUB, CSV, HTML, mail, notebooks; - for standard input.",
        ),
    ],
    collection: Annotated[
        str,
        typer.Option(metavar="NAME", help="The collection to add to; it is created if it does not exist."),
    ] = "Documents",
    title: Annotated[
        str, typer.Option(metavar="TEXT", help="The title of the text from standard input.")
    ] = "",
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Add files to a collection, and wait until they can be searched."""
    with errors_as_sentences(), embedded_documents(data_dir) as (documents, _):
        _add(documents, files, collection, title, as_json)


@documents_cli.command("list")
def list_documents(
    collection: Annotated[
        str, typer.Option(metavar="NAME", help="List the documents of this collection.")
    ] = "",
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """List all collections, or the documents of one collection."""
    with errors_as_sentences(), documents_in(data_dir) as documents:
        if collection:
            listed = documents.documents(_require_collection(documents, collection).id)
            rows, count = columns(map(_document_row, listed)), counted(len(listed), "document")
            return print_result(as_json, {"documents": listed}, rows, f"{count}.")
        found = documents.collections()
        rows, count = columns(map(_collection_row, found)), counted(len(found), "collection")
        return print_result(as_json, {"collections": found}, rows, f"{count}.")


@documents_cli.command("remove")
def remove_documents(
    numbers: Annotated[
        list[int] | None,
        typer.Argument(metavar="DOCUMENT", min=1, max=LARGEST_NUMBER, help="Numbers from `documents list`."),
    ] = None,
    collection: Annotated[
        str, typer.Option(metavar="NAME", help="Remove this collection with all its documents instead.")
    ] = "",
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Remove documents, or a whole collection, with their index."""
    with errors_as_sentences(), documents_in(data_dir) as documents:
        wanted = list(dict.fromkeys(numbers or []))
        if bool(wanted) == bool(collection):
            raise BadOption("Give either document numbers or --collection NAME.")
        for number in wanted:
            documents.document(number)  # raises for an unknown number before anything is removed
        for number in wanted:
            documents.remove(number)
        if collection:
            documents.delete(_require_collection(documents, collection).id)
        documents.erase()
        documents.wait()
    removed = f"Collection {collection}" if collection else counted(len(wanted), "document")
    print_result(as_json, {"removed": wanted or collection}, f"{removed} removed.")


@documents_cli.command("restore")
def restore_document(
    number: Annotated[
        int,
        typer.Argument(metavar="DOCUMENT", min=1, max=LARGEST_NUMBER, help="A number from `documents list`."),
    ],
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Restore the text that was replaced last in a document; the newer text becomes a separate document."""
    with errors_as_sentences(), documents_in(data_dir) as documents:
        newer = documents.undo_replacement(number)
        documents.wait()
        both = [documents.document(number), documents.document(newer)]
    sentence = f"Document {number} has its older text again. Document {newer} has the newer one."
    print_result(as_json, {"documents": both}, columns(map(_document_row, both)), sentence)


@documents_cli.command("search")
def search_documents(
    words: Annotated[list[str], typer.Argument(metavar="QUESTION")],
    collection: CollectionNames = None,
    limit: Annotated[int, typer.Option(min=1, max=100, help="Maximum number of passages.")] = 8,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Find the passages that answer a question best."""
    with errors_as_sentences(), embedded_documents(data_dir, is_search=True) as (documents, _):
        question = _question(words)
        collections = chosen_collections(documents, collection or [])
        found = documents.search([one.id for one in collections], question, limit)
        if as_json:
            return print_json({"found": found})
        for number, hit in enumerate(found, start=1):
            typer.echo(_passage(number, hit))
        if not found:
            print_text(f"Nothing about {question!r} in {counted(len(collections), 'collection')}.")
    return None


@documents_cli.command("ask")
def ask_documents(
    words: Annotated[list[str], typer.Argument(metavar="QUESTION")],
    collection: given.CollectionNames = None,
    model: given.Model = DEMO_MODEL,
    decoder: given.Decoder = None,
    temperature: given.Temperature = None,
    seed: given.Seed = None,
    dtype: given.DTypeOption = "auto",
    device: given.DeviceOption = "auto",
    quantisation: given.QuantisationOption = "auto",
    max_new_tokens: given.MaxNewTokens = 0,
    thinking: given.ThinkingOption = "default",
    thinking_budget: given.ThinkingBudget = 0,
    data_dir: given.DataDir = None,
    as_json: given.AsJson = False,
) -> None:
    """Answer a question from the documents, and list the sources."""
    with errors_as_sentences():
        with impossible_values():
            override = SamplingOverride(temperature, seed)
            sampling = override.apply(Sampling())
            decoding = read_decoding(decoder, DecoderSizes(), "on")
            thoughts = given.read_thinking(thinking, thinking_budget)
            options = Options(sampling, decoding, max_new_tokens, thinking=thoughts)
            settings = ReplySettings(ModelChoice(model, dtype, device, quantisation), options)
        require_sampled(sampling, override)
        with embedded_documents(data_dir, device, is_search=True) as (documents, engine):
            answer_question(documents, engine, _question(words), collection or (), settings, as_json)


def _question(words: Sequence[str]) -> str:
    """Join the words of a question. Raises BadOption if there are none."""
    if not (question := without_surrogates(" ".join(words))).strip():
        raise BadOption("There is no question. Type some words.")
    return question


def chosen_collections(documents: Documents, names: Sequence[str]) -> list[Collection]:
    """Return the collections of these names; all collections if `names` is empty. Raises BadOption."""
    found = [_require_collection(documents, name) for name in names] or list(documents.collections())
    if not found:
        raise BadOption("There are no documents yet. Add some with `documents add FILE`.")
    return found


def answer_question(
    documents: Documents,
    engine: Engine,
    question: str,
    names: Sequence[str],
    settings: ReplySettings,
    as_json: bool,
) -> None:
    """Retrieve passages and print the model's answer, or the app's own if no passage is found. Raises AppError."""
    collections = tuple(one.id for one in chosen_collections(documents, names))
    loaded: Future[bool] = Future()
    engine.load(settings.model, loaded.set_result)  # first, because its tokenizer counts the prompt's tokens
    if not wait_for_load(engine.status, loaded):
        raise ModelError(engine.status().note)
    prompts = PromptBuilder(engine.reader, documents)
    context = TurnContext(ChatSettings(collections=collections), (), question)
    prepared = prompts.prepare(context, prompts.retrieve(context, settings.options), settings)
    sources = prepared.sources
    if prepared.answer:
        print_result(as_json, {"text": prepared.answer.text, "sources": sources}, prepared.answer.text)
        return None if as_json else print_text(f"[{prepared.answer.note}]", err=True)
    request = Request(prepared.settings.model, prepared.prompt, prepared.settings.options, prepared.documents)
    reply = (wait_for_reply if as_json else stream_reply)(engine, request)
    if sources is not None:
        sources = checked_sources(sources, reply.text, prepared.documents, documents.similarities)
    if as_json:
        return print_json({**reply.to_json(), "sources": sources})
    for line in _source_lines(sources, reply.text):
        print_text(line)
    return print_statistics(reply)


def _add(documents: Documents, files: Sequence[Path], name: str, title: str, as_json: bool) -> None:
    real = [file for file in files if file != STANDARD_INPUT]
    if title and len(real) == len(files):
        raise BadOption(
            '--title names the text from standard input. Add "-" to the files, or leave out --title.'
        )
    for file in real:
        require_file(file)  # before a collection is created that would stay empty
    pasted = text_of(sys.stdin.buffer.read()) if len(real) < len(files) else ""
    if pasted is None:
        raise DocumentUnreadable("Standard input is not text. Save it as a file, and add the file.")
    existing = _collection(documents, name)
    collection = existing.id if existing else documents.create(name)
    before = {document.id: document.replaced for document in documents.documents(collection)}
    added = list(documents.add_files(collection, real))
    if len(real) < len(files):
        added.append(documents.paste(collection, pasted, without_surrogates(title)))
    documents.wait()
    ids = {documents.imported_into(document) for document in added}
    results = [document for document in documents.documents(collection) if document.id in ids]
    _print_added(results, before, as_json)
    if failed := [document for document in results if document.state == "failed"]:
        raise DocumentError(f"{len(failed):,} of {counted(len(files), 'file')} could not be read. See above.")


def _require_collection(documents: Documents, name: str) -> Collection:
    found = _collection(documents, name)
    if found is None:
        names = ", ".join(one.name for one in documents.collections()) or "none yet"
        raise BadOption(f"There is no collection {name!r}. Existing collections: {names}.")
    return found


def _collection(documents: Documents, name: str) -> Collection | None:
    found = [one for one in documents.collections() if name_key(one.name) == name_key(name)]
    # Older versions could create several collections whose names have the same key.
    exact = [one for one in found if one.name == " ".join(name.split())]
    return next(iter(exact or found), None)


def _source_lines(sources: Sources | None, text: str) -> Iterator[str]:
    if sources is None:
        return
    yield ""
    for cited in sources.cited:
        yield f"[{cited.number}] {cited.title} ({cited.start:,} to {cited.end:,})"
    cited_by = claims(split_thought(text).answer)
    for place in sources.unsupported:
        yield f"Check [{cited_by[place].number}]: {sources.doubt(place)}"
    if sources.left_out:
        yield f"{counted(sources.left_out, 'found passage')} did not fit into the model's context."


def _print_added(documents: Sequence[Document], before: Mapping[int, float], as_json: bool) -> None:
    """Print the added documents, how many of them were in the collection before, and which replaced an older text.

    `before` maps each earlier document of the collection to the time when its text was last replaced."""
    replaced = [one.id for one in documents if one.replaced > before.get(one.id, one.replaced)]
    known = [one.id for one in documents if one.id in before and one.id not in replaced]
    already = f" {len(known):,} {'was' if len(known) == 1 else 'were'} here already." if known else ""
    print_result(
        as_json,
        {"documents": documents, "known": known, "replaced": replaced},
        columns(map(_document_row, documents)),
        f"{counted(len(documents), 'document')}.{already}",
        *(
            f"Document {one} replaced an older version. To keep both: python run.py documents restore {one}"
            for one in replaced
        ),
    )


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


def _passage(number: int, hit: PassageHit) -> str:
    passage = hit.passage
    where = " \u203a ".join(filter(None, (passage.title, passage.heading)))
    words = " ".join(plain_passage(passage).text.split())
    excerpt = words if len(words) <= EXCERPT else words[:EXCERPT].rstrip() + "\u2026"
    place = f"document {passage.document}, characters {passage.start:,} to {passage.end:,}"
    return f"[{number}] {typer.style(printable(where), bold=True)}\n    {place}\n    {printable(excerpt)}\n"
