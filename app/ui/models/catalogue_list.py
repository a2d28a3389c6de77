"""The recommended models, by whether they fit this machine, then by use."""

from collections.abc import Iterable
from html import escape
from typing import get_args

from app.model_messages import Recommendation, Use, Verdict, gigabytes
from app.ui.models.pieces import fit_html, legend, title
from app.ui.models.stock import Stock
from app.ui.pieces import badge, button, facts
from app.ui.templates import parameters_in_words

HEADINGS: dict[Verdict, str] = {
    "fits": "Fits this machine",
    "fits with int4": "Fits with int4",
    "too big": "Too big for this machine",
}
USES: dict[Use, str] = {"chat": "For chat", "code": "For code", "reasoning": "For reasoning"}
HINT = (
    "Weights of these models fit once they are kept in 4 bits: download them, then choose “Load with int4”."
)


def catalogue_html(stock: Stock | None, known: frozenset[str]) -> str:
    """All of them in their groups; `known` are here or on their way."""
    if stock is None:
        return ""
    sections = "".join(_section(stock, verdict, known) for verdict in get_args(Verdict))
    return f'<div class="over"><h3>Recommended</h3>{legend()}</div>{sections}'


def _section(stock: Stock, verdict: Verdict, known: frozenset[str]) -> str:
    found = [one for one in stock.recommended if one.fit.verdict == verdict]
    if not found:
        return ""
    hint = f'<p class="hint">{HINT}</p>' if verdict == "fits with int4" else ""
    groups = "".join(
        _group([one for one in found if one.entry.use == use], use, known) for use in get_args(Use)
    )
    return f'<section class="verdicts"><h4 class="group">{HEADINGS[verdict]}</h4>{hint}{groups}</section>'


def _group(found: list[Recommendation], use: Use, known: frozenset[str]) -> str:
    return f'<h5 class="use">{USES[use]}</h5>{rows_html(found, known)}' if found else ""


def rows_html(found: Iterable[Recommendation], known: frozenset[str]) -> str:
    """These models, one below the other."""
    rows = "".join(f"<li>{_row(one, one.entry.repo in known)}</li>" for one in found)
    return f'<ul class="models">{rows}</ul>'


def matching(stock: Stock, words: str) -> list[Recommendation]:
    """The recommended models with all of these words in what is said of them."""
    wanted = words.lower().split()
    return [one for one in stock.recommended if all(word in _text(one) for word in wanted)]


def _text(one: Recommendation) -> str:
    entry = one.entry
    return f"{entry.repo} {entry.family} {entry.use} {entry.good_for}".lower()


def _row(one: Recommendation, is_known: bool) -> str:
    entry = one.entry
    gate = badge("gated") if entry.is_gated else ""
    size = parameters_in_words(entry.parameters)
    told = facts(size, gigabytes(entry.size), f"{entry.context:,} tokens", entry.licence)
    kind = "" if one.fit.verdict == "too big" else "primary"
    download = button("Download", "download", entry.repo, kind=kind)
    action = badge("here or on its way", "good") if is_known else download
    return (
        f'<article class="card"><header>{title(entry.repo)}{gate}</header>{told}'
        f'<p class="for">{escape(entry.good_for)}</p>{fit_html(one.fit)}'
        f'<div class="actions">{action}</div></article>'
    )
