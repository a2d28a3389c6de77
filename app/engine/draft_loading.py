"""Loads a draft model, or an EAGLE-3 head, for its target, or says in one sentence why it cannot draft for it."""

from dataclasses import replace
from pathlib import Path

from app.eagle_config import is_speculator, read_eagle_config
from app.engine.draft_timing import question_seconds
from app.engine.draft_trial import TEXT, first_lessons
from app.engine.eagle_loading import with_eagle_head
from app.engine.head_loading import no_heads
from app.engine.loading import LoadedModel, load
from app.engine.lookahead.draft_model import DraftModel, RunnerLineReader
from app.engine.lookahead.draft_model_budget import DraftModelBudget
from app.engine.lookahead.model_drafter import DraftModelSource
from app.engine.runner import BlockRunner
from app.engine.sandbox import Sandbox
from app.errors import BadOption
from app.messages import ModelChoice, ModelFolder
from app.tokenizer_vocabulary import digest_of, vocabulary_digest


def check_draft_model(folder: ModelFolder, draft: ModelFolder) -> None:
    """Before anything is loaded: raises BadOption where the files tell that the tokenizers differ.

    Raises ModelBroken for a head whose config makes no sense."""
    if is_speculator(draft.path):
        read_eagle_config(draft.path, draft.name)
    digests = [vocabulary_digest(one.path) for one in (folder, draft)]
    if all(digests) and len(set(digests)) > 1:
        raise _other_tokenizer(folder.name, draft.name)


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
    alone = replace(choice, name=choice.draft_model, draft_model="")
    loaded = load(draft, alone, sandbox, cache, no_heads)
    vocabularies = [one.tokenizer.get_vocab() for one in (target, loaded)]
    if digest_of(vocabularies[0]) != digest_of(vocabularies[1]):
        raise _other_tokenizer(target.info.name, draft.name)
    runner = loaded.runner
    if not isinstance(runner, BlockRunner) or not runner.has_fixed_positions:
        raise BadOption(
            f"{draft.name} cannot be a draft model, for what it has read cannot be taken back: choose a model with "
            "full attention, or none."
        )
    reader = RunnerLineReader(runner)
    model = DraftModel(reader, draft.name, target.vocabulary)
    source = DraftModelSource(model, DraftModelBudget(*question_seconds(reader, runner.warm_up)))
    text = target.tokenizer.encode(TEXT)
    source.recall(first_lessons(target.runner, runner, text, min(target.vocabulary, runner.vocabulary)))
    info = replace(target.info, draft_model=draft.name)
    return replace(target, info=info, draft_models=(source,))


def _other_tokenizer(target: str, draft: str) -> BadOption:
    return BadOption(
        f"{draft} cannot draft for {target}, for their tokenizers differ: choose a draft model of the same "
        "family, or none."
    )
