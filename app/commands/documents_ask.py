"""`documents ask`: a question answered from the documents, with its sources below."""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Protocol

from app.chat_messages import ChatSettings
from app.commands.documents import chosen_collections
from app.commands.generate import numbers
from app.commands.printing import say, show_json
from app.commands.replying import stream, whole
from app.conversation import ReplyEngine, ReplySettings
from app.conversation.prompt_builder import PreparedReply, PromptBuilder
from app.conversation.turn import TurnContext
from app.document_messages import Sources
from app.documents import Documents
from app.errors import ModelError
from app.messages import EngineStatus, ModelChoice, Request
from app.text_normalisation import without_surrogates


class Loads(ReplyEngine, Protocol):
    """What asking needs of the engine: it counts by the model's own tokens, so the model comes first."""

    def load(self, choice: ModelChoice, ended: Callable[[bool], None]) -> None:
        """Have the model loaded; `ended` hears whether it was."""

    def status(self) -> EngineStatus:
        """What the worker does now."""


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of which collections; no names: of all."""

    text: str
    collections: Sequence[str] = ()


def ask_documents(
    store: Documents, engine: Loads, question: Question, asked: ReplySettings, as_json: bool
) -> None:
    """Answer from the documents. Raises AppError in words."""
    collections = tuple(one.id for one in chosen_collections(store, question.collections))
    _load(engine, asked.model)
    text = without_surrogates(question.text)
    prompts = PromptBuilder(engine.reader, store)
    context = TurnContext(ChatSettings(collections=collections), (), text)
    plan = prompts.prepare(context, prompts.retrieve(context, asked.options), asked)
    show = _show_json if as_json else _show_text
    show(engine, plan)


def _load(engine: Loads, choice: ModelChoice) -> None:
    loaded: Future[bool] = Future()
    engine.load(choice, loaded.set_result)
    if not loaded.result():
        raise ModelError(engine.status().note)


def _request(plan: PreparedReply) -> Request:
    return Request(plan.settings.model, plan.prompt, plan.settings.options, plan.documents)


def _show_json(engine: Loads, plan: PreparedReply) -> None:
    if plan.answer:
        return show_json({"text": plan.answer.text, "sources": plan.sources})
    return show_json({**whole(engine, _request(plan)).to_json(), "sources": plan.sources})


def _show_text(engine: Loads, plan: PreparedReply) -> None:
    if plan.answer:
        say(plan.answer.text)
        say(f"[{plan.answer.note}]", err=True)
        return
    finished = stream(engine, _request(plan)).finished
    for line in _source_lines(plan.sources):
        say(line)
    say(f"[{finished.decoder}: {numbers(finished.statistics)}]", err=True)


def _source_lines(sources: Sources | None) -> Iterable[str]:
    if sources is None:
        return
    yield ""
    for cited in sources.cited:
        yield f"[{cited.number}] {cited.title} ({cited.start:,} to {cited.end:,})"
    if sources.left_out:
        yield f"{sources.left_out:,} more passages were found and did not fit into the model's context."
