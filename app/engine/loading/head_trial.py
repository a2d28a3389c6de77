"""A head is tried before it drafts: it must say what it says in one plain pass, without our cache and attention."""

from app.engine.block.block import chain_block
from app.engine.drafters.draft_model import DraftModel
from app.engine.drafters.head_reader import Head, HeadReader
from app.engine.drafters.model_drafter import DraftModelSource
from app.engine.lookahead.draft_model_budget import DraftModelBudget
from app.engine.machine.tolerance import is_close, tolerance_of
from app.engine.measuring.profiling import question_seconds, trial_text
from app.engine.runner.hidden_states import HiddenStates, WrittenStates
from app.engine.runner.kv_cache import BlockCache
from app.engine.runner.runner import BlockRunner, run_block


def source_of(head: Head, name: str, runner: BlockRunner, written: WrittenStates) -> DraftModelSource:
    """The head as a source of drafts for this runner, whose model writes the states that it reads.

    Raises whatever goes wrong, ArithmeticError where it says something else; then no states are written."""
    try:
        seconds = _tried(head, runner, written)
    except Exception:
        written.end()
        raise
    reader = reader_of(head, runner, written.of(runner.cache))
    return DraftModelSource(DraftModel(reader, name, runner.vocabulary), DraftModelBudget(*seconds))


def reader_of(head: Head, runner: BlockRunner, target: HiddenStates) -> HeadReader:
    """Reads behind what the target has committed."""
    return HeadReader(head, target, runner.attention.attend, runner.context, runner.vocabulary)


def _tried(head: Head, runner: BlockRunner, written: WrittenStates) -> tuple[float, float]:
    """Compare what it says; returns what a question takes, and each token more."""
    model, cache = runner.model, BlockCache()
    target = written.of(cache)
    reader = reader_of(head, runner, target)
    text = trial_text(reader)
    half = len(text) // 2
    run_block(model, cache, chain_block(text[:-1], 0, wanted=()), runner.attention.attend)
    cache.commit(range(len(text) - 1))
    reader.read(text[:half], 0)
    found = reader.read(text, half)[None]
    expected = head.expected(text, target.rows(0, len(text) - 1))
    named = ~expected.isneginf()
    if not is_close(found[named][None], expected[named][None], tolerance_of(model)):
        raise ArithmeticError("it says something else than in one plain pass")
    return question_seconds(reader)
