"""What a search found: recommended models, models on the hub, or the one whose id or address was pasted."""

from dataclasses import dataclass
from html import escape

from app.model_messages import Recommendation, RemoteModel, SearchHit, gigabytes
from app.ui.models.catalogue_list import rows_html
from app.ui.models.pieces import fit_html, title
from app.ui.pieces import badge, button, facts, link
from app.ui.templates import parameters_in_words, problem_html


@dataclass(frozen=True, slots=True)
class Found:
    """The result of one search; `problem` says why there is less than there could be."""

    words: str = ""
    recommended: tuple[Recommendation, ...] = ()
    hits: tuple[SearchHit, ...] = ()
    looked_at: tuple[tuple[RemoteModel, str], ...] = ()
    """Models that were asked about, each with the address of its page."""
    problem: str = ""


def results_html(found: Found, known: frozenset[str]) -> str:
    """The result; nothing before a search."""
    if not found.words:
        return ""
    looked = "".join(f"<li>{_looked_at(model, page, known)}</li>" for model, page in found.looked_at)
    seen = {model.repo for model, _ in found.looked_at}
    hits = "".join(f"<li>{_hit(hit)}</li>" for hit in found.hits if hit.repo not in seen)
    parts = (
        problem_html(found.problem),
        f'<ul class="models" aria-label="Models looked at">{looked}</ul>' if looked else "",
        f'<h5 class="use">Recommended</h5>{rows_html(found.recommended, known)}' if found.recommended else "",
        f'<h5 class="use">On the hub</h5><ul class="models" aria-label="On the hub">{hits}</ul>'
        if hits
        else "",
        "" if looked or hits or found.recommended or found.problem else _nothing(found.words),
    )
    clear = button("Clear", "clear", about="the search")
    return f'<div class="over"><h3>Results for “{escape(found.words)}”</h3>{clear}</div>{"".join(parts)}'


def waiting_html(words: str) -> str:
    """What stands there while the hub is asked."""
    return f'<p class="note waiting" role="status"><i></i>Looking for “{escape(words)}”…</p>'


def _nothing(words: str) -> str:
    return f'<p class="facts">No model has “{escape(words)}” in its name.</p>'


def _hit(hit: SearchHit) -> str:
    gate = badge("gated") if hit.is_gated else ""
    look = button("Will it fit?", "look", hit.repo)
    return (
        f'<article class="card hit"><header>{title(hit.repo)}{gate}</header>'
        f"{facts(f'{hit.downloads:,} downloads', f'{hit.likes:,} likes' if hit.likes else '')}"
        f'<div class="actions">{look}</div></article>'
    )


def _looked_at(model: RemoteModel, page: str, known: frozenset[str]) -> str:
    told = facts(
        parameters_in_words(model.parameters) if model.parameters else "",
        gigabytes(model.size) if model.size else "",
        f"{model.context:,} tokens" if model.context else "",
        model.licence,
    )
    gate = badge("gated") if model.is_gated else ""
    return (
        f'<article class="card"><header>{title(model.repo)}{gate}</header>{told}{_gate(model, page)}'
        f"{''.join(map(problem_html, _problems(model)))}{fit_html(model.fit) if model.fit else ''}"
        f'<div class="actions">{_action(model, known)}</div></article>'
    )


def _problems(model: RemoteModel) -> tuple[str, ...]:
    """What is wrong with it; that a gated one cannot be judged yet, `_gate` says."""
    return () if model.is_gated and model.files else model.problems


def _gate(model: RemoteModel, page: str) -> str:
    if not model.is_gated:
        return ""
    return (
        f'<p class="hint">Its authors ask you to accept their terms on {link(page, "its page")}, '
        "and to save a token under <b>Access to the hub</b>. Before that nobody can tell whether it fits.</p>"
    )


def _action(model: RemoteModel, known: frozenset[str]) -> str:
    if model.repo in known:
        return badge("here or on its way", "good")
    return button("Download", "download", model.repo, kind="primary") if model.files else ""
