"""The messages of a chat as HTML: the newest ones, and a button for those before them."""

from collections.abc import Iterator

from app.chat_messages import Thread
from app.ui.chat.message import Look, message_html

NEWEST = 50
"""Messages that a page shows at first, and how many more each time it is asked for earlier ones."""

CUT_LINE = "The model no longer reads what stands above: the chat outgrew its context."
CUT_AHEAD = (
    "The chat outgrows its context: what stands above may be left out from here on. You will be asked first."
)


def thread_html(thread: Thread, look: Look = Look()) -> str:  # noqa: B008
    """All messages that there are here, oldest first."""
    if not thread.messages:
        return ""
    return f'<section class="messages" aria-label="Messages">{"".join(_parts(thread, look))}</section>'


def _parts(thread: Thread, look: Look) -> Iterator[str]:
    yield _earlier(thread)
    for message in thread.messages:
        if message.id == look.first_read:
            words = CUT_LINE if look.is_allowed else CUT_AHEAD
            yield f'<p class="cut-line" role="note"><span>{words}</span></p>'
        yield message_html(message, look, is_last=message is thread.messages[-1])


def _earlier(thread: Thread) -> str:
    if not thread.earlier:
        return ""
    count = min(NEWEST, thread.earlier)
    label = f"Show {count} earlier message{'s' if count > 1 else ''}"
    name = thread.messages[0].id
    return (
        f'<p class="earlier"><button type="button" class="quiet" data-do="earlier" data-name="{name}"'
        f' data-value="{count}">{label}</button></p>'
    )
