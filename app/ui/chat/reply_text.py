"""A reply's text as HTML, complete or growing: its thought, which can be collapsed, its answer, and its sources.

A citation such as [1] is shown as a small button if it is the number of a source, and is not in code. A citation
whose source does not support its sentence (conversation/citation_check.py) has a question mark.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from html import escape
from itertools import count
from time import perf_counter

from markupsafe import Markup

from app.conversation.thought_parsing import split_thought
from app.ui.chat.live_markdown import LiveMarkdown
from app.ui.chat.markdown import render as markdown_html
from app.ui.frame.templates import render
from app.values.dataclass_json import parse_json
from app.values.display_text import counted
from app.values.document import Sources, TokenBudget
from app.values.tools import CalledTool, Round, rounds_of

THOUGHT = '<details class="thought"'
"""The beginning of the HTML of a reply with a thought."""
_TAG = re.compile(r"(<[^>]*>)")
_MARKER = re.compile(r"\[(\d{1,3})\]")
_UNTOUCHED = ("code", "pre", "math", "a", "button", "summary")


def reply_html(text: str, seconds: float = 0.0, calls: Sequence[CalledTool] = ()) -> str:
    """Return a whole reply as HTML; `seconds` is how long its thought took, and `calls` are its calls of tools."""
    rounds = rounds_of(text, calls)
    return "".join(round_html(each, 0 if number else seconds) for number, each in enumerate(rounds))


def round_html(part: Round, seconds: float = 0.0, is_live: bool = False) -> str:
    """Return a part of a reply as HTML, with the calls after it."""
    split = split_thought(part.text)
    thought = thought_html(markdown_html(split.thought), seconds) if split.has_thought else ""
    return f"{thought}{markdown_html(split.answer)}{calls_html(part.calls, is_live)}"


def thought_html(html: str, seconds: float = 0.0, is_thinking: bool = False) -> str:
    """Return a rendered thought as a details element, which is open only while the thought is being written."""
    state = " open" if is_thinking else ""
    summary = thought_summary(seconds, is_thinking)
    return f"{THOUGHT}{state}><summary>{summary}</summary><div>{html}</div></details>"


def thought_summary(seconds: float, is_thinking: bool) -> str:
    """Return the title of a thought: "Thought for 3.2 s"."""
    if is_thinking:
        return "Thinking…"
    if seconds <= 0:
        return "Thought"
    minutes, rest = divmod(round(seconds), 60)
    return f"Thought for {minutes} min {rest} s" if minutes else f"Thought for {seconds:.1f} s"


def calls_html(calls: Sequence[CalledTool], is_live: bool = False) -> Markup:
    """Return calls with their arguments and results. With `is_live`, calls that wait for the user have buttons."""
    shown = [(call, _arguments(call), _result_note(call)) for call in calls]
    return render("tool_calls.html", calls=shown, is_live=is_live) if shown else Markup()


def _arguments(call: CalledTool) -> str:
    """Return a call's arguments with escaped control characters, which could change how other text is shown."""
    text = call.arguments
    with suppress(ValueError):
        text = json.dumps(parse_json(text), ensure_ascii=False, indent=2)
    return "".join(one if one.isprintable() or one == "\n" else json.dumps(one)[1:-1] for one in text)


def _result_note(call: CalledTool) -> str:
    notes = {"running": "running…", "failed": "failed", "refused": "refused", "asked": "not answered"}
    return notes.get(call.state) or (counted(call.tokens, "token") if call.tokens else "")


class LiveReplyText:
    """The HTML of a reply that is being written. For a complete reply it equals the result of `reply_html`."""

    def __init__(self, clock: Callable[[], float] = perf_counter) -> None:
        self._clock = clock
        self._rounds: tuple[Round, ...] = ()
        self._before: tuple[str, ...] = ()
        self._begin()

    def _begin(self) -> None:
        self._thought, self._answer = LiveMarkdown(self._clock), LiveMarkdown(self._clock)
        self._thought_block: tuple[str, ...] = ()

    def update(
        self, text: str, seconds: float = 0.0, is_done: bool = False, calls: Sequence[CalledTool] = ()
    ) -> None:
        """Render the text so far, which continues the former text; `seconds` is the time of its thought so far."""
        *rounds, newest = rounds_of(text, calls)
        if (before := tuple(rounds)) != self._rounds:
            if len(before) != len(self._rounds):
                self._begin()
            self._rounds = before
            live = (round_html(each, 0 if number else seconds, True) for number, each in enumerate(before))
            self._before = tuple(live)
        split = split_thought(newest.text)
        seconds = 0 if before else seconds
        self._thought_block = ()
        if split.has_thought:
            is_thinking = split.is_thinking and not is_done
            self._thought.update(split.thought, is_done=not is_thinking)
            self._thought_block = (thought_html(self._thought.html, seconds, is_thinking),)
        self._answer.update(split.answer, is_done)

    @property
    def is_slow(self) -> bool:
        return self._thought.is_slow or self._answer.is_slow

    @property
    def is_behind(self) -> bool:
        return self._thought.is_behind or self._answer.is_behind

    @property
    def blocks(self) -> tuple[str, ...]:
        """The HTML in blocks. An update usually changes only the last blocks and appends new ones."""
        return (*self._before, *self._thought_block, *self._answer.blocks)

    @property
    def html(self) -> str:
        return "".join(self.blocks)


def cited_html(html: str, message: int, sources: Sources | None) -> str:
    """Return a rendered answer with citations as buttons, which send the message's id and the source's number."""
    return _cited(html, message, sources) if sources and sources.cited else html


@lru_cache(maxsize=256)
def _cited(html: str, message: int, sources: Sources) -> str:
    titles = {source.number: source.title for source in sources.cited}
    end = max(0, html.find("</details>")) if html.startswith(THOUGHT) else 0  # thoughts are not checked
    markers = count()

    def button(found: re.Match[str], is_checked: bool) -> str:
        marker = next(markers) if is_checked else None
        number = int(found[1])
        if number not in titles:
            return found[0]
        doubt = sources.doubt(marker) if marker is not None else ""
        return marker_html(message, number, titles[number], doubt, marker)

    thought, answer = partial(button, is_checked=False), partial(button, is_checked=True)
    return "".join((*_parts(html[:end], thought), *_parts(html[end:], answer)))


def _parts(html: str, button: Callable[[re.Match[str]], str]) -> Iterator[str]:
    inside = 0  # number of open elements whose text is not changed
    for part in _TAG.split(html):
        if not part.startswith("<"):
            yield part if inside else _MARKER.sub(button, part)
            continue
        if part.strip("</>").split(" ", 1)[0] in _UNTOUCHED:
            inside += -1 if part.startswith("</") else 1
        yield part


def marker_html(message: int, number: int, title: str, doubt: str = "", marker: int | None = None) -> str:
    """Return a citation as a button, with a question mark if `doubt` says why it may be wrong. `marker` is the
    citation's index in the answer, by which the document panel finds the claim before the citation."""
    label = escape(f"Source {number}: {title}. {doubt}" if doubt else f"Source {number}: {title}")
    look, mark = ("cite unsupported", "?") if doubt else ("cite", "")
    value = number if marker is None else f"{number}.{marker}"
    return (
        f'<button type="button" class="{look}" data-do="source" data-name="{message}" data-value="{value}"'
        f' aria-label="{label}" title="{label}">{number}{mark}</button>'
    )


def sources_html(message: int, sources: Sources | None) -> Markup:
    """Return the line below an answer: its sources, and how many tokens each part of the prompt had."""
    if sources is None or not sources.cited:
        return Markup()
    facts = ["The model was given whole documents"] if sources.is_whole else []
    if sources.budget:
        facts.append(budget_in_words(sources.budget))
    if sources.left_out:
        facts.append(f"{counted(sources.left_out, 'found passage')} did not fit")
    return render(
        "sources.html", message=message, cited=sources.cited, facts=facts, doubt=doubt_words(sources)
    )


def doubt_words(sources: Sources) -> str:
    """Explain the marked citations in a sentence; "" if no citation is marked."""
    markers = sources.unsupported
    if not markers:
        return ""
    some, them = ("1 citation is", "it") if len(markers) == 1 else (f"{len(markers):,} citations are", "them")
    why = " ".join(dict.fromkeys(sources.doubt(marker) for marker in markers))
    return f"{some} marked with “?”. {why} Check {them} yourself."


def budget_in_words(budget: TokenBudget) -> str:
    parts = (
        ("system", budget.system),
        ("sources", budget.sources),
        ("chat", budget.history),
        ("question", budget.question),
    )
    prompt = ", ".join(f"{name} {tokens:,}" for name, tokens in parts if tokens)
    if not budget.context:
        return f"Estimated prompt: {prompt} tokens"
    return f"Prompt: {prompt}; {budget.reply:,} reserved for the reply; context {budget.context:,} tokens"
