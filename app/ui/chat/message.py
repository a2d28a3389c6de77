"""One message as HTML: what was said, how it ended, and quiet buttons below.

Buttons do their deeds by `data-do`; `data-name` is the id of the message. What the page does by itself (copying,
the box to edit in, opening details, going between plain and coloured) has `data-copy`, `data-show` instead: see
assets/ui/chat.js. What is open then is known to the page alone, so every message is drawn closed.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape

from app.chat_messages import MessageContent, StoredMessage
from app.messages import Role
from app.ui.chat.citations import cited_html, sources_html
from app.ui.chat.live_text import reply_html
from app.ui.chat.provenance import REASONS, provenance_html
from app.ui.chat.token_colours import coloured_html
from app.ui.chat.typed import typed_html

NAMES: dict[Role, str] = {"user": "Your message", "assistant": "Answer", "system": "System prompt"}
BACK, FORTH = (
    "\N{SINGLE LEFT-POINTING ANGLE QUOTATION MARK}",
    "\N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK}",
)
ENDLESS = ("max_tokens", "context", "stopped")
"""Reasons to end for which a reply may be continued."""


@dataclass(frozen=True, slots=True)
class Look:
    """How messages are drawn: which replies with their tokens' colours, whether one is being written just now,
    and the first message that the model still reads where the chat outgrew its context (0: it reads all), which
    the person may still have to allow."""

    coloured: frozenset[int] = frozenset()
    is_busy: bool = False
    first_read: int = 0
    is_allowed: bool = True


def message_html(message: StoredMessage, look: Look = Look(), is_last: bool = False) -> str:
    """A message as an article."""
    said = _answer(message, look) if message.role == "assistant" else _question(message)
    kind = f"{message.role} last" if is_last else message.role
    return (
        f'<article class="message {kind}" data-message="{message.id}"{_siblings(message)}'
        f' aria-label="{NAMES[message.role]}">'
        f'{said}<div class="raw" hidden>{escape(message.text)}</div>{_footer(message, look)}</article>'
    )


def _siblings(message: StoredMessage) -> str:
    """The ids of all its versions, by which the page knows that an edited question has arrived."""
    return f' data-versions="{" ".join(map(str, message.versions))}"' if len(message.versions) > 1 else ""


def _question(message: StoredMessage) -> str:
    return f'<div class="said">{typed_html(message.text)}</div>{_editor(message)}'


def _answer(message: StoredMessage, look: Look) -> str:
    written = message.content
    html = reply_html(written.text, written.thought)
    html = cited_html(html, message.id, written.sources)
    coloured = _coloured(written) if message.id in look.coloured else ""
    below = sources_html(message.id, written.sources)
    return f'<div class="said">{html}</div>{coloured}{_note(written)}{below}'


def _coloured(written: MessageContent) -> str:
    return f'<div class="coloured">{coloured_html(written.text, written.marks)}</div>'


def _note(written: MessageContent) -> str:
    """How it ended, where that is worth a word."""
    sentence = _ending(written)
    kind = " failed" if written.state == "failed" else ""
    role = ' role="alert"' if kind else ""
    return f'<p class="ending{kind}"{role}>{escape(sentence)}</p>' if sentence else ""


def _ending(written: MessageContent) -> str:
    match written.state:
        case "failed":
            return written.note or "This reply failed."
        case "interrupted":
            return written.note or "Interrupted: the app ended while this was being written."
        case "stopped":
            return written.note or "Stopped."
        case "done" if written.provenance and written.provenance.reason in ENDLESS:
            return f"{REASONS[written.provenance.reason].capitalize()}."
        case "done" if not written.text:
            return "The model ended its reply without a word."
    return written.note


def _editor(message: StoredMessage) -> str:
    """The box to edit a question in, which the page opens; saving carries its text."""
    return (
        '<div class="editor" hidden><textarea aria-label="Edit your message" rows="3"></textarea>'
        '<div class="actions"><button type="button" class="quiet" data-show="editor">Cancel</button>'
        f'<button type="button" class="quiet primary" data-do="edit" data-name="{message.id}">'
        "Save &amp; send</button></div></div>"
    )


def _footer(message: StoredMessage, look: Look) -> str:
    if message.content.state == "writing":
        return ""
    parts = _question_buttons(message, look) if message.role == "user" else _answer_buttons(message, look)
    return f"<footer>{_versions(message, look)}{''.join(parts)}</footer>{_details(message)}"


def _question_buttons(message: StoredMessage, look: Look) -> Iterator[str]:
    yield _copy(message)
    if message.role == "user":
        yield _page_button("Edit", "editor", look.is_busy)


def _answer_buttons(message: StoredMessage, look: Look) -> Iterator[str]:
    written = message.content
    yield _copy(message)
    yield _deed("Regenerate", "regenerate", message.id, look.is_busy)
    if can_continue(written):
        yield _deed("Continue", "continue", message.id, look.is_busy)
    if written.marks:
        is_there = message.id in look.coloured
        yield _page_button("Colours", "colours") if is_there else _deed("Colours", "colours", message.id)
    if written.provenance:
        yield _page_button("Details", "details")


def can_continue(written: MessageContent) -> bool:
    """Whether a reply ended before its end."""
    if written.state in ("stopped", "interrupted"):
        return True
    return written.state == "done" and written.provenance is not None and written.provenance.reason in ENDLESS


def _details(message: StoredMessage) -> str:
    provenance = message.content.provenance
    return f'<div class="details" hidden>{provenance_html(provenance)}</div>' if provenance else ""


def _versions(message: StoredMessage, look: Look) -> str:
    """The arrows between the versions of a message; nothing where it has one alone."""
    versions = message.versions
    if len(versions) < 2:
        return ""
    at = versions.index(message.id)
    before, after = versions[at - 1] if at else 0, versions[at + 1] if at + 1 < len(versions) else 0
    return (
        '<span class="versions" role="group" aria-label="Versions">'
        f"{_arrow(BACK, 'Previous version', before, look)}<span>{at + 1}/{len(versions)}</span>"
        f"{_arrow(FORTH, 'Next version', after, look)}</span>"
    )


def _arrow(sign: str, label: str, to: int, look: Look) -> str:
    return _deed(sign, "version", to, look.is_busy or not to, label)


def _copy(message: StoredMessage) -> str:
    what = "answer" if message.role == "assistant" else "message"
    return f'<button type="button" class="quiet" data-copy="message" aria-label="Copy {what}">Copy</button>'


def _deed(label: str, do: str, name: int, is_disabled: bool = False, spoken: str = "") -> str:
    disabled = " disabled" if is_disabled else ""
    about = f' aria-label="{spoken}"' if spoken else ""
    deed = f'data-do="{do}" data-name="{name}"'
    return f'<button type="button" class="quiet" {deed}{about}{disabled}>{label}</button>'


def _page_button(label: str, shows: str, is_disabled: bool = False) -> str:
    disabled = " disabled" if is_disabled else ""
    state = f'data-show="{shows}" aria-expanded="false"'
    return f'<button type="button" class="quiet" {state}{disabled}>{label}</button>'
