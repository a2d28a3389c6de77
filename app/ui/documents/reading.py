"""A document's text with a passage lit up. Of a long text only what stands around the passage is on the page.

text      ....[first .......[start … end].......... last]....
on page       what is shown     lit up
"""

import json
from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace
from html import escape
from time import time_ns

from app.counting import counted
from app.messages import Message
from app.requiring import require
from app.ui.pieces import button
from app.ui.templates import problem_html

AROUND = 4_000
"""Characters that are shown before and behind a passage at first."""
MORE = 12_000
"""How many more each time they are asked for."""


@dataclass(frozen=True, slots=True)
class Passport:
    """What a button carries to open a document: its id and title, and the passage to light up, if any."""

    document: int
    title: str
    start: int = 0
    end: int = 0
    heading: str = ""
    scores: str = ""


@dataclass(frozen=True, slots=True)
class Reading:
    """What one page reads, and which part of its text is shown. `opened` is another each time it is opened.

    `answer` is the chat and the message that cite it; 0 where it was not opened from an answer."""

    what: Passport = Passport(0, "")
    first: int = 0
    last: int = 0
    opened: int = 0
    answer: tuple[int, int] = (0, 0)

    def __post_init__(self) -> None:
        require(0 <= self.first <= self.last, "what is shown must have a place", (self.first, self.last))


@dataclass(frozen=True, slots=True)
class Shown:
    """The part of a text that a reading shows, and how long the whole text is."""

    text: str
    length: int


def opened(what: Passport, answer: tuple[int, int] = (0, 0)) -> Reading:
    """The document, from a little before the passage to a little behind it."""
    return Reading(what, max(0, what.start - AROUND), what.end + AROUND, time_ns(), answer)


def with_more(reading: Reading, where: str) -> Reading:
    """The same with more of the text, "above" or "below"."""
    if where == "above":
        return replace(reading, first=max(0, reading.first - MORE))
    return replace(reading, last=reading.last + MORE)


def in_button(what: Passport) -> str:
    """The value of a button that opens it."""
    return json.dumps(astuple(what))


def opening_html(what: Passport) -> str:
    """The title as a button that opens the document."""
    title = escape(what.title)
    return (
        f'<button type="button" class="open" data-do="read" data-name="{what.document}"'
        f' data-value="{escape(in_button(what))}" title="Read {title}">{title}</button>'
    )


def of_button(value: str) -> Passport:
    """What a button's value opens."""
    return Passport(*json.loads(value))


def reading_html(reading: Reading, shown: Shown) -> str:
    """The panel: what is read, and its text. All of it is somebody's text and nothing but text."""
    return _panel(reading, _place("Text", _text(reading, shown)), _way(reading, "Exact prompt", "prompt"))


def prompt_html(reading: Reading, prompt: Sequence[Message]) -> str:
    """The panel with what the model has read before its answer, message by message."""
    parts = "".join(
        f'<h3>{escape(message.role)}</h3><p class="original">{escape(message.content)}</p>'
        for message in prompt
    )
    return _panel(reading, _place("Exact prompt", parts), _way(reading, "Passage", "passage"))


def missing_html(reading: Reading, sentence: str) -> str:
    """The panel where there is nothing to read any more."""
    return _panel(reading, problem_html(sentence))


def _panel(reading: Reading, body: str, way: str = "") -> str:
    what = reading.what
    lines = "".join(f'<p class="facts">{escape(line)}</p>' for line in (what.heading, what.scores) if line)
    header = f'<header><h2 id="reading-title">{escape(what.title)}</h2>{lines}{way}</header>'
    place = f'data-opened="{reading.opened}" data-first="{reading.first}" data-last="{reading.last}"'
    return f'<article class="reading" {place}>{header}{body}</article>'


def _place(label: str, html: str) -> str:
    return f'<div class="text" tabindex="0" role="region" aria-label="{label}">{html}</div>'


def _way(reading: Reading, label: str, do: str) -> str:
    """Between the passage and the prompt that it stood in, where there is one."""
    return f'<p class="ways">{button(label, do)}</p>' if any(reading.answer) else ""


def _text(reading: Reading, shown: Shown) -> str:
    what, first, text = reading.what, reading.first, shown.text
    start, end = (min(max(0, place - first), len(text)) for place in (what.start, what.end))
    passage = f"<mark>{escape(text[start:end])}</mark>" if end > start else ""
    words = f"{escape(text[:start])}{passage}{escape(text[end:])}"
    below = max(0, shown.length - first - len(text))
    return f'{_more(first, "above")}<p class="original">{words}</p>{_more(below, "below")}'


def _more(left: int, where: str) -> str:
    if not left:
        return ""
    label = button(f"Show more {where}", where)
    return f'<p class="rest">{label}<span>{counted(left, "character")} {where}</span></p>'
