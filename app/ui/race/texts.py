"""What the lanes wrote, folded away, with a mark where a text leaves plain's."""

from html import escape

from app.messages import Sampling
from app.race_messages import LaneResult, LaneRun, RaceResult
from app.ui.race.words import badge_words, difference_words, title


def texts_html(result: RaceResult | None) -> str:
    """A fold for each lane; nothing before a race has been run."""
    if result is None:
        return ""
    folds = "".join(_fold(lane, result.plan.options.sampling) for lane in result.lanes)
    return (
        f'<section class="texts" aria-label="What the lanes wrote"><h3>What they wrote</h3>{folds}</section>'
    )


def _fold(lane: LaneResult, sampling: Sampling) -> str:
    difference = lane.difference
    told = f'<p class="facts">{escape(difference_words(difference, sampling))}</p>' if difference else ""
    kind = "good" if lane.is_identical else "differs"
    text = marked(lane.run, difference.index if difference else None)
    return (
        f"<details><summary><b>{escape(title(lane.run.name))}</b>"
        f'<span class="badge {kind}">{escape(badge_words(lane))}</span></summary>{told}'
        f'<pre tabindex="0" aria-label="Text of {escape(lane.run.name)}">{text}</pre>'
        "</details>"
    )


def marked(run: LaneRun, index: int | None) -> str:
    """The text as HTML, the token at `index` marked."""
    if index is None or index >= len(run.ends):
        return escape(run.text)
    start, end = (run.ends[index - 1] if index else 0), run.ends[index]
    return f"{escape(run.text[:start])}<mark>{escape(run.text[start:end])}</mark>{escape(run.text[end:])}"
