"""Loads a draft model, or an EAGLE-3 head, for its target, or says in one sentence why it cannot draft for it."""

from dataclasses import replace
from pathlib import Path

from app.engine.drafters.continuation import Translation
from app.engine.drafters.draft_model import DraftModel, RunnerLineReader
from app.engine.drafters.model_drafter import DraftModelSource
from app.engine.drafters.retokenising_draft_model import RetokenisingDraftModel
from app.engine.loading.draft_trial import TEXT, first_lessons, lessons_of_words
from app.engine.loading.eagle_loading import with_eagle_head
from app.engine.loading.head_loading import no_heads
from app.engine.loading.loading import LoadedModel, load
from app.engine.lookahead.draft_model_budget import DraftModelBudget
from app.engine.measuring.profiling import question_seconds
from app.engine.runner.runner import BlockRunner
from app.engine.text.sandbox import Sandbox
from app.engine.text.text_tokenizer import LossyTokenizer, TextTokenizer
from app.errors import BadOption
from app.values.eagle_config import is_speculator, read_eagle_config
from app.values.messages import ModelChoice, ModelFolder
from app.values.tokenizer_vocabulary import digest_of

_RETOKENISED = "The tokenizer of {draft} differs from that of {target}, so its words are re-tokenised."


def check_draft_model(draft: ModelFolder) -> None:
    """Before anything is loaded: raises ModelBroken for a head whose config makes no sense."""
    if is_speculator(draft.path):
        read_eagle_config(draft.path, draft.name)


def with_draft_model(
    target: LoadedModel,
    draft: ModelFolder,
    choice: ModelChoice,
    sandbox: Sandbox | None = None,
    cache: Path | None = None,
) -> LoadedModel:
    """The target with this draft model, which is loaded as the target was. Raises a ModelError or BadOption."""
    if not target.can_draft:
        raise BadOption(
            f"{target.info.name} decodes plainly, so it has no use for a draft model: choose none."
        )
    if is_speculator(draft.path):
        return with_eagle_head(target, draft)
    alone = replace(choice, name=choice.draft_model, draft_model="", offload=False)
    loaded = load(draft, alone, sandbox, cache, no_heads)
    runner = loaded.runner
    if not isinstance(runner, BlockRunner) or not runner.has_fixed_positions:
        raise BadOption(
            f"{draft.name} cannot be a draft model, for what it has read cannot be taken back: choose a model with "
            "full attention, or none."
        )
    vocabularies = [digest_of(one.tokenizer.get_vocab()) for one in (target, loaded)]
    is_same = vocabularies[0] == vocabularies[1]
    source = (_source if is_same else _retokenising_source)(target, loaded, runner)
    note = "" if is_same else _RETOKENISED.format(draft=draft.name, target=target.info.name)
    info = replace(target.info, draft_model=draft.name, draft_model_note=note)
    return replace(target, info=info, draft_models=(source,))


def _source(target: LoadedModel, draft: LoadedModel, runner: BlockRunner) -> DraftModelSource:
    """A draft model with the target's tokenizer."""
    reader = RunnerLineReader(runner)
    model = DraftModel(reader, draft.info.name, target.vocabulary)
    source = DraftModelSource(model, DraftModelBudget(*question_seconds(reader, runner.warm_up)))
    text = target.tokenizer.encode(TEXT)
    source.recall(first_lessons(target.runner, runner, text, min(target.vocabulary, runner.vocabulary)))
    return source


def _retokenising_source(target: LoadedModel, draft: LoadedModel, runner: BlockRunner) -> DraftModelSource:
    """A draft model with another tokenizer. Raises BadOption where one of both does not keep texts."""
    own, targets = (_text_tokenizer(one, draft, target) for one in (draft, target))
    reader = RunnerLineReader(runner)
    model = RetokenisingDraftModel(reader, draft.info.name, Translation(own, targets, target.vocabulary))
    question, token = question_seconds(reader, runner.warm_up)
    text = [one for one in target.tokenizer.encode(TEXT) if one < target.vocabulary]
    lessons, seconds = lessons_of_words(target.runner, model, text)
    source = DraftModelSource(model, DraftModelBudget(max(question, seconds), token))
    source.recall(lessons)
    return source


def _text_tokenizer(one: LoadedModel, draft: LoadedModel, target: LoadedModel) -> TextTokenizer:
    try:
        return TextTokenizer(one.tokenizer)
    except LossyTokenizer as lossy:
        raise BadOption(
            f"{draft.info.name} cannot draft for {target.info.name}: their tokenizers differ, and that of "
            f"{one.info.name} changes a text when it encodes and decodes it. Choose one of its family, or none."
        ) from lossy
