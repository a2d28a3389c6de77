"""The X-ray: one step of the reply as a picture of its window and its draft tree."""

from collections.abc import Callable, Iterable, Sequence
from html import escape

from app.ui.live.origins import LEGEND
from app.ui.live.port import Recording, SeenStep
from app.ui.live.token_text import visible
from app.ui.live.tree_picture import Words, tree_picture
from app.ui.live.window_table import tokens_of, window_table
from app.ui.live.xray_view import XrayView, shown_number, shown_step

BEFORE = 24
"""How many tokens of the text before a step are shown."""

Texts = Callable[[Sequence[int]], tuple[str, ...]]
"""What each token says."""


def key(view: XrayView, recording: Recording) -> str:
    """The same for the same picture, so that it need not be drawn again."""
    number = shown_number(view, recording)
    content = hash(recording.steps[number - recording.first :][:1]) if number else 0
    known = len(_ahead(number, recording)) if number else 0
    return f"{number}-{content:x}-{known}-{view.is_live}"


def xray(view: XrayView, recording: Recording, texts: Texts) -> str:
    """The picture as HTML; its data tell the controls where it stands."""
    number = shown_number(view, recording)
    body = _body(number, recording, texts) if number else _NOTHING
    return (
        f'<div class="xray" data-key="{key(view, recording)}" data-live="{"yes" if view.is_live else "no"}" '
        f'data-first="{recording.first if number else 0}" data-last="{recording.last}" data-shown="{number}">'
        f"{body}</div>"
    )


_NOTHING = '<p class="nothing">Nothing to see yet: each forward pass of the next reply appears here.</p>'


def _body(number: int, recording: Recording, texts: Texts) -> str:
    step = shown_step(number, recording)
    before, ahead = _before(number, recording), _ahead(number, recording)
    words = words_of([step], [*before, *ahead], texts)
    return (
        f'<div class="over"><p class="facts">{facts(step)}</p>{LEGEND}</div>{_text(before, step, words)}'
        f'<div class="panes">{_window(step, ahead, words)}{_tree(step, words)}</div>'
    )


def words_of(steps: Iterable[SeenStep], others: Iterable[int], texts: Texts) -> dict[int, str]:
    """What every token of these steps says, asked in one go."""
    ids = set(others)
    for step in steps:
        ids.update(step.trace.tokens, step.trace.predicted, step.token_ids, tokens_of(step.trace.window))
    ordered = sorted(ids)
    return dict(zip(ordered, texts(ordered), strict=True))


def facts(step: SeenStep) -> str:
    """A step in a line: what it checked, what it guessed, what it wrote."""
    drafted, guessed = len(step.trace.tokens) - 1, max(len(tokens_of(step.trace.window)) - 1, 0)
    accepted, wrote = len(step.trace.accepted) - 1, len(step.token_ids)
    window = f" and {_counted(guessed, 'guess', 'guesses')} of the window" if guessed else ""
    return (
        f"One forward pass checked {_counted(drafted, 'drafted token', 'drafted tokens')}{window}: "
        f"{accepted} accepted, <b>{_counted(wrote, 'token', 'tokens')} written</b>."
    )


def _counted(count: int, one: str, many: str) -> str:
    return f"{count or 'no'} {one if count == 1 else many}"


def _before(number: int, recording: Recording) -> list[int]:
    """The text up to the current token, that included, as far back as it is shown."""
    index = number - recording.first
    earlier = (token for step in recording.steps[max(index - BEFORE, 0) : index] for token in step.token_ids)
    known = list(earlier)[-BEFORE:]
    return known or list(recording.steps[index].trace.tokens[:1])


def _ahead(number: int, recording: Recording) -> list[int]:
    """The current token and what is known to follow it, as far as the window looks."""
    index = number - recording.first
    trace = recording.steps[index].trace
    reach = len(trace.window) + len(trace.window[0]) if trace.window else 1
    later = recording.steps[index : index + reach]
    return [*trace.tokens[:1], *(token for step in later for token in step.token_ids)][:reach]


def _text(before: Sequence[int], step: SeenStep, words: Words) -> str:
    """The text around the step: what it wrote is lit."""
    past = "".join(words[token] for token in before)
    written = "".join(
        f'<mark class="{origin}" title="{origin}">{_in_line(words[token])}</mark>'
        for token, origin in zip(step.token_ids, _origins(step), strict=True)
    )
    return f'<p class="text"><span>…{_in_line(past)}</span>{written}</p>'


def _origins(step: SeenStep) -> list[str]:
    """Who proposed each token that was written: the accepted rows, and the model for what they do not explain."""
    drafted = [step.trace.origins[row] for row in step.trace.accepted[1:]]
    return [*drafted, *["model"] * (len(step.token_ids) - len(drafted))]


def _in_line(text: str) -> str:
    """Text that is read as text: its spaces stay spaces."""
    return escape(visible(text).replace("·", " "))


def _window(step: SeenStep, ahead: Sequence[int], words: Words) -> str:
    if not step.trace.window:
        return ""
    table = window_table(step.trace.window, ahead, len(step.token_ids) + 1, words)
    return (
        '<section class="pane" aria-label="Window"><h3>Window</h3>'
        f"<p>Guesses at the tokens to come, refined in every step; lit where they came true.</p>"
        f'<div class="scroll" tabindex="0" role="region" aria-label="Guesses of the window">{table}</div></section>'
    )


def _tree(step: SeenStep, words: Words) -> str:
    return (
        '<section class="pane wide" aria-label="Draft tree"><h3>Draft tree</h3>'
        "<p>Drafts behind the current token: the path that the model took is lit, the rest was rejected.</p>"
        f'<div class="scroll" tabindex="0" role="region" aria-label="Draft tree of this step">'
        f"{tree_picture(step, words)}</div></section>"
    )
