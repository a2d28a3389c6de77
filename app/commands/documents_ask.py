"""`python run.py documents ask`: answers a question from the documents and lists the sources."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from typing import Annotated, Protocol

import typer

from app.commands import options as given
from app.commands.console import errors_as_sentences, print_json, print_text
from app.commands.decoder_options import DecoderSizes, read_decoding
from app.commands.documents import chosen_collections
from app.commands.prompts import SamplingOverride, greedy_note
from app.commands.reply_output import numbers_line, stream_reply, wait_for_reply
from app.commands.services import searchable_documents
from app.conversation import ReplyEngine, ReplySettings
from app.conversation.citation_check import Similarities, checked_sources, claims
from app.conversation.prompt_builder import PreparedReply, PromptBuilder
from app.conversation.thinking import split_thought
from app.conversation.turn import TurnContext
from app.documents import Documents
from app.errors import ModelError, impossible_values
from app.settings import DEMO_MODEL
from app.values.chat import ChatSettings
from app.values.document import Sources
from app.values.messages import EngineStatus, ModelChoice, Options, Request, Sampling
from app.values.text_normalisation import without_surrogates


class LoadingEngine(ReplyEngine, Protocol):
    """An engine whose model can be loaded first: prompts are counted with the model's own tokenizer."""

    def load(self, choice: ModelChoice, ended: Callable[[bool], None]) -> None:
        """Loads the model; calls `ended` with whether that succeeded."""

    def status(self) -> EngineStatus:
        """What the engine does now."""


def ask_documents(
    words: Annotated[list[str], typer.Argument(metavar="QUESTION")],
    collection: given.CollectionNames = None,
    model: given.Model = DEMO_MODEL,
    decoder: given.Decoder = None,
    temperature: given.Temperature = None,
    seed: given.Seed = None,
    dtype: given.DTypeOption = "auto",
    device: given.DeviceOption = "auto",
    max_new_tokens: given.MaxNewTokens = 256,
    data_dir: given.DataDir = None,
    as_json: given.AsJson = False,
) -> None:
    """Answer a question from the documents, with its sources."""
    with errors_as_sentences():
        with impossible_values():
            override = SamplingOverride(temperature, seed)
            sampling = override.apply(Sampling())
            options = Options(sampling, read_decoding(decoder, DecoderSizes(), "on"), max_new_tokens)
            settings = ReplySettings(ModelChoice(model, dtype, device), options)
        if note := greedy_note(sampling, override):
            print_text(note, err=True)
        with searchable_documents(data_dir, device) as (documents, engine):
            question = without_surrogates(" ".join(words))
            answer_question(documents, engine, question, collection or (), settings, as_json)


def answer_question(
    documents: Documents,
    engine: LoadingEngine,
    question: str,
    names: Sequence[str],
    settings: ReplySettings,
    as_json: bool,
) -> None:
    """Retrieves passages from these collections, asks the model, prints the answer. Raises AppError."""
    collections = tuple(one.id for one in chosen_collections(documents, names))
    _load(engine, settings.model)
    prompts = PromptBuilder(engine.reader, documents)
    context = TurnContext(ChatSettings(collections=collections), (), question)
    prepared = prompts.prepare(context, prompts.retrieve(context, settings.options), settings)
    print_answer = _print_json if as_json else _print_text
    print_answer(engine, prepared, documents.similarities)


def _load(engine: LoadingEngine, choice: ModelChoice) -> None:
    loaded: Future[bool] = Future()
    engine.load(choice, loaded.set_result)
    if not loaded.result():
        raise ModelError(engine.status().note)


def _request(prepared: PreparedReply) -> Request:
    settings = prepared.settings
    return Request(settings.model, prepared.prompt, settings.options, prepared.documents)


def _print_json(engine: LoadingEngine, prepared: PreparedReply, similarities: Similarities) -> None:
    if prepared.answer:
        return print_json({"text": prepared.answer.text, "sources": prepared.sources})
    reply = wait_for_reply(engine, _request(prepared))
    return print_json({**reply.to_json(), "sources": _checked(prepared, reply.text, similarities)})


def _checked(prepared: PreparedReply, text: str, similarities: Similarities) -> Sources | None:
    sources = prepared.sources
    return sources and checked_sources(sources, text, prepared.documents, similarities)


def _print_text(engine: LoadingEngine, prepared: PreparedReply, similarities: Similarities) -> None:
    if prepared.answer:
        print_text(prepared.answer.text)
        print_text(f"[{prepared.answer.note}]", err=True)
        return
    reply = stream_reply(engine, _request(prepared))
    for line in _source_lines(_checked(prepared, reply.text, similarities), reply.text):
        print_text(line)
    print_text(numbers_line(reply.finished), err=True)


def _source_lines(sources: Sources | None, text: str) -> Iterator[str]:
    if sources is None:
        return
    yield ""
    for cited in sources.cited:
        yield f"[{cited.number}] {cited.title} ({cited.start:,} to {cited.end:,})"
    cited_by = claims(split_thought(text).answer)
    for place in sources.unsupported:
        yield f"Check [{cited_by[place].number}]: the sentence that cites it has nothing in common with it."
    if sources.left_out:
        yield f"{sources.left_out:,} more passages were found, but did not fit into the model's context."
