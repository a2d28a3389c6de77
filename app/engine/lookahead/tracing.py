"""A step's picture, made of what the decoder has at hand anyway: see `app/step_trace.py`."""

from app.engine.lookahead.draft_tree import DraftTree
from app.engine.sampling import Choices
from app.step_trace import StepTrace


def trace_of(
    tree: DraftTree, choices: Choices, accepted: tuple[int, ...], window: tuple[tuple[int, ...], ...] = ()
) -> StepTrace:
    """The step that fed this tree, whose rows are the first of the choices, and this window."""
    return StepTrace(
        tokens=tuple(tree.tokens),
        parents=tuple(tree.parents),
        origins=tuple(tree.origins),
        said=tuple(choices.ids[: len(tree), 0].tolist()),
        accepted=accepted,
        window=window,
    )
