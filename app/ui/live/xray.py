"""Renders the X-ray: one step of the reply, as its lookahead window and its draft tree.

The window is a table with a row for each age of guesses and a column for each distance. Column i of row r guesses
the token i + r positions after the current one (see engine/lookahead/jacobi_window.py), so guesses of the same
position are below each other. With W=3, N=4 and c the current token:

              c  +1 +2 +3 +4
    newest          2  3  4
                 1  2  3
    oldest    c  1  2
    written   c  1  2  …            the tokens of the reply: correct guesses are highlighted
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from app.ui.frame.templates import render
from app.ui.live.draft_tree_picture import Texts, draft_tree_svg
from app.ui.live.step_history import StepHistory, TracedStep
from app.ui.live.tokens import ABOUT, visible
from app.values.display_text import counted

TOKENS_BEFORE = 24
"""How many tokens of the text before a step are shown."""

ReadTexts = Callable[[Sequence[int]], tuple[str, ...]]
"""Returns the text of each token."""
Guesses = Sequence[Sequence[int]]
"""A window's rows, oldest first."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of the window's table; without a kind it is empty."""

    kind: str = ""
    text: str = ""


def xray_html(history: StepHistory, number: int, is_live: bool, read_texts: ReadTexts) -> Markup:
    """Return the picture of the step with this number, or a hint before the first step (number 0). Its data-*
    attributes set the X-ray's controls."""
    step = history.traced[number - history.first] if number else None
    occurring = {"model"}.union(*(one.trace.origins for one in history.traced))
    return render(
        "xray.html",
        is_live=is_live,
        first=history.first if number else 0,
        last=history.last,
        shown=number,
        step=_step(step, number, history, read_texts) if step else None,
        legend={origin: about for origin, about in ABOUT.items() if origin in occurring},
    )


def _step(step: TracedStep, number: int, history: StepHistory, read_texts: ReadTexts) -> dict[str, object]:
    before, ahead = _tokens_before(number, history), tokens_ahead(number, history)
    texts = texts_of([step], [*before, *ahead], read_texts)
    # Accepted rows have the origins of their drafts; the model wrote the rest.
    drafted = [step.trace.origins[row] for row in step.trace.accepted[1:]]
    origins = [*drafted, *["model"] * (len(step.token_ids) - len(drafted))]
    written = zip(step.token_ids, origins, strict=True)
    return {
        "summary": summary(step),
        "before": visible("".join(texts[token] for token in before), keep_spaces=True),
        "written": [(origin, visible(texts[token], keep_spaces=True)) for token, origin in written],
        "count": counted(len(step.token_ids), "token"),
        "window": window_rows(step.trace.window, ahead, len(step.token_ids) + 1, texts),
        "reach": _reach(step.trace.window),
        "tree": draft_tree_svg(step, texts),
    }


def texts_of(steps: Iterable[TracedStep], others: Iterable[int], read_texts: ReadTexts) -> dict[int, str]:
    """Return the text of every token of these steps and of `others`; all are decoded in one call."""
    ids = set(others)
    for step in steps:
        ids.update(step.trace.tokens, step.trace.predicted, step.token_ids, *step.trace.window)
    ordered = sorted(ids)
    return dict(zip(ordered, read_texts(ordered), strict=True))


def summary(step: TracedStep) -> str:
    """Describe what the step computed, checked and accepted; the template adds the number of written tokens. The
    window's guesses are not checked; the step computes their successors, for later drafts."""
    drafted, guessed = len(step.trace.tokens) - 1, max(sum(map(len, step.trace.window)) - 1, 0)
    window = f"refined {counted(guessed, 'guess', 'guesses')} of the window and " if guessed else ""
    checked = counted(drafted, "guess", "guesses") if drafted else "no guesses"
    return f"This step {window}checked {checked} of the draft tree: {len(step.trace.accepted) - 1} accepted, "


def _tokens_before(number: int, history: StepHistory) -> list[int]:
    """Return the tokens of the kept steps before this one, the current token last."""
    index = number - history.first
    earlier = history.traced[max(index - TOKENS_BEFORE, 0) : index]
    known = [token for step in earlier for token in step.token_ids][-TOKENS_BEFORE:]
    return known or list(history.traced[index].trace.tokens[:1])


def tokens_ahead(number: int, history: StepHistory) -> list[int]:
    """Return the current token and the known tokens after it, as far as the window reaches."""
    index = number - history.first
    trace = history.traced[index].trace
    reach = _reach(trace.window) + 1 if trace.window else 1
    later = history.traced[index : index + reach]
    return [*trace.tokens[:1], *(token for step in later for token in step.token_ids)][:reach]


def _reach(window: Guesses) -> int:
    """Return how many positions the window covers, including that of the current token."""
    return len(window[0]) + len(window) - 1 if window else 0


def window_rows(
    window: Guesses, ahead: Sequence[int], fresh: int, texts: Texts
) -> list[tuple[str, list[Cell]]]:
    """Return the table's rows with their labels: the window's rows, newest first, then the written tokens. `ahead`
    has the current token and the known tokens after it, of which this step wrote the first `fresh`."""
    rows = []
    for age, guesses in reversed(list(enumerate(window))):
        cells = [Cell()] * age
        for index, token in enumerate(guesses, start=age):
            is_true = 0 < index < len(ahead) and ahead[index] == token
            cells.append(Cell("true" if is_true else "guess" if index else "now", visible(texts[token])))
        rows.append(("newest" if age == len(window) - 1 else "" if age else "oldest", cells))
    reach = _reach(window)
    written = enumerate(ahead[:reach])
    rows.append(
        (
            "written",
            [Cell("fresh" if at < fresh else "later", visible(texts[token])) for at, token in written],
        )
    )
    return [(label, [*cells, *[Cell()] * (reach - len(cells))]) for label, cells in rows] if window else []
