"""Facts and the results of the self-check as HTML."""

from collections.abc import Iterable
from html import escape

from app.ui.about.check import Check, Verdict
from app.ui.about.facts import Fact

WORDS: dict[Verdict, str] = {"good": "Good", "bad": "Not good", "unknown": "Unknown"}
MARKS: dict[Verdict, str] = {"good": "✓", "bad": "✕", "unknown": "?"}


def facts_html(title: str, facts: Iterable[Fact]) -> str:
    """A heading, and facts below it."""
    rows = "".join(f"<dt>{escape(fact.name)}</dt><dd>{escape(fact.value)}</dd>" for fact in facts)
    return f'<h4>{escape(title)}</h4><dl class="facts-list">{rows}</dl>'


def checks_html(checks: Iterable[Check]) -> str:
    """The results, one below the other, with how many are good above them."""
    checks = list(checks)
    good = sum(check.verdict == "good" for check in checks)
    lines = "".join(map(_line, checks))
    total = f'<p class="sum" role="status">{good} of {len(checks)} checks are good.</p>'
    return f'{total}<ul class="checks">{lines}</ul>'


def waiting_html() -> str:
    """While the checks run."""
    return '<p class="sum" role="status">Checking…</p>'


def _line(check: Check) -> str:
    mark = f'<i class="{check.verdict}" role="img" aria-label="{WORDS[check.verdict]}">{MARKS[check.verdict]}</i>'
    return f"<li>{mark}<div><b>{escape(check.name)}</b><p>{escape(check.words)}</p></div></li>"
