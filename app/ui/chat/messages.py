"""Renders the messages of a chat: their text, how a reply ended, and quiet buttons below.

Buttons with `data-do` are actions of the server; `data-name` is the id of the message. Buttons with `data-copy` or
`data-show` are handled by the page itself (assets/ui/chat.js). Editors and details are always rendered closed.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from markupsafe import Markup

from app.ui.chat.plain_text import typed_html
from app.ui.chat.provenance import REASONS, coloured_html, provenance_html
from app.ui.chat.reply_text import cited_html, reply_html, sources_html
from app.ui.frame.templates import render
from app.values.chat import MessageContent, StoredMessage, Thread
from app.values.messages import Role
from app.values.tools import shown_text

MESSAGE_LIMIT = 50
"""How many messages a page shows at first, and how many more whenever the user loads earlier messages."""
EVERYTHING = 2**31
"""The limit of a page that shows a whole chat, to find or print it."""
LABELS: dict[Role, str] = {"user": "Your message", "assistant": "Answer", "system": "System prompt"}
CAN_GO_ON = ("max_tokens", "context", "stopped")
"""Reasons for the end of a reply after which the reply can be continued."""
CUT_ALLOWED = "The model no longer reads the messages above: the chat is longer than its context."
CUT_NOT_ALLOWED = "The chat is longer than the model's context. You are asked before messages are left out."


@dataclass(frozen=True, slots=True)
class ThreadOptions:
    """How messages are rendered.

    `coloured` are the replies with coloured tokens; `is_busy` is whether a reply is being written. `first_read` is
    the first message that the model still reads if the chat is longer than its context, else 0; `is_cut_allowed` is
    whether the user allowed leaving out the messages before it."""

    coloured: frozenset[int] = frozenset()
    is_busy: bool = False
    first_read: int = 0
    is_cut_allowed: bool = True


@dataclass(frozen=True, slots=True)
class Button:
    """A button below a message. It sends the action `do`; chat.js handles `copy` and `show`."""

    label: str
    do: str = ""
    name: int = 0
    copy: str = ""
    show: str = ""
    about: str = ""
    is_disabled: bool = False


def thread_html(thread: Thread, options: ThreadOptions = ThreadOptions()) -> str:
    """Return the loaded messages, oldest first, and a button that loads earlier messages, if there are any."""
    if not thread.messages:
        return ""
    return render(
        "messages.html",
        is_busy=options.is_busy,
        forked_from=thread.forked_from,
        messages=[_message(message, options, message is thread.messages[-1]) for message in thread.messages],
        earlier=min(MESSAGE_LIMIT, thread.earlier),
        first_read=options.first_read,
        cut=CUT_ALLOWED if options.is_cut_allowed else CUT_NOT_ALLOWED,
    )


def _message(message: StoredMessage, options: ThreadOptions, is_last: bool) -> dict[str, object]:
    written, versions, is_answer = message.content, message.versions, message.role == "assistant"
    is_complete, is_coloured = written.state != "writing", is_answer and message.id in options.coloured
    text = typed_html(message.text)
    if is_answer:
        text = cited_html(
            reply_html(written.text, written.thought, written.calls), message.id, written.sources
        )
    return {
        "id": message.id,
        "kind": f"{message.role} last" if is_last else message.role,
        "label": LABELS[message.role],
        "versions": versions if len(versions) > 1 else (),
        "html": Markup(text),
        "is_answer": is_answer,
        "coloured": coloured_html(written.text, written.marks) if is_coloured else "",
        "ending": _ending(written) if is_answer else "",
        "has_failed": written.state == "failed",
        "summary": Markup(reply_html(written.summary)) if written.summary else "",
        "sources": sources_html(message.id, written.sources) if is_answer else "",
        "text": shown_text(message.text, written.calls) if written.calls else message.text,
        "has_footer": is_complete,
        "version": versions.index(message.id) if len(versions) > 1 else -1,
        "buttons": list(_buttons(message, options)),
        "menu": list(_menu(message, options)),
        "details": provenance_html(written.provenance) if written.provenance and is_complete else "",
    }


def _ending(written: MessageContent) -> str:
    """Return how the reply ended, or its note; "" if it ended as usual and has no note."""
    match written.state:
        case "failed":
            return written.note or "This reply failed."
        case "interrupted":
            return written.note or "Interrupted: Foresight was closed while this was being written."
        case "stopped":
            return written.note or "Stopped."
        case "done" if written.provenance and written.provenance.reason in CAN_GO_ON:
            return f"{REASONS[written.provenance.reason].capitalize()}. {written.note}".strip()
        case "done" if not written.text:
            return "The model ended its reply without any text."
    return written.note


def _menu(message: StoredMessage, options: ThreadOptions) -> Iterator[Button]:
    """Yield the buttons that are rarely used."""
    written = message.content
    if message.role == "assistant":
        if written.provenance and can_compare(written):
            switched = "with" if written.provenance.decoder == "plain" else "without"
            yield Button(
                f"Write again {switched} lookahead", "compare", message.id, is_disabled=options.is_busy
            )
        if written.provenance:
            yield Button("Details", show="details")
        if written.marks and message.id in options.coloured:
            yield Button("Colour by origin", show="colours")
        elif written.marks:
            yield Button("Colour by origin", do="colours", name=message.id)
        if not written.calls:
            yield Button("Edit", show="editor", is_disabled=options.is_busy)
    yield Button("Fork into a new chat", do="fork", name=message.id, is_disabled=options.is_busy)
    yield Button("Delete", do="delete", name=message.id, is_disabled=options.is_busy)


def _buttons(message: StoredMessage, options: ThreadOptions) -> Iterator[Button]:
    written = message.content
    if message.role != "assistant":
        yield Button("Copy", copy="message", about="Copy message")
        if message.role == "user":
            yield Button("Edit", show="editor", is_disabled=options.is_busy)
        return
    if written.sources and written.sources.is_empty:  # the app answered instead of the model
        yield Button("Answer anyway", do="answer-anyway", name=message.id, is_disabled=options.is_busy)
    yield Button("Copy", copy="message", about="Copy answer")
    yield Button("Regenerate", do="regenerate", name=message.id, is_disabled=options.is_busy)
    if can_continue(written):
        yield Button("Continue", do="continue", name=message.id, is_disabled=options.is_busy)


def can_compare(written: MessageContent) -> bool:
    """Return whether a reply can be written again with or without lookahead, to compare both times. The time
    of a stopped or continued reply is not comparable, and some models never use lookahead."""
    made = written.provenance
    if written.state != "done" or made is None or made.model.server or not written.marks or written.calls:
        return False
    is_whole = written.marks[-1].step <= made.statistics.steps
    return is_whole and (made.decoder == "plain") == (made.options.decoding.decoder == "plain")


def can_continue(written: MessageContent) -> bool:
    """Return whether a reply ended early, so that it can be continued."""
    made = written.provenance
    is_cut = written.state == "done" and made is not None and made.reason in CAN_GO_ON
    return is_cut or written.state in ("stopped", "interrupted")
