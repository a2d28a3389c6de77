"""What the person must know before anything else: told above every view until they have read it."""

from html import escape

import gradio as gr

from app.ui.page_events import LISTEN, PageEvents


class NoticeActions:
    """The events of the notice. It is read once for all pages."""

    def __init__(self, note: str) -> None:
        self._unread = note

    def show(self) -> str:
        """The notice, as long as nobody has read it."""
        return notice_html(self._unread)

    def dismiss(self) -> None:
        """Somebody has read it."""
        self._unread = ""


def notice_html(note: str) -> str:
    """A sentence with a button that takes it away."""
    if not note:
        return ""
    button = '<button type="button" class="act" data-do="dismiss" data-name="">I have read this</button>'
    return f'<div class="notice" role="alert"><p>{escape(note)}</p>{button}</div>'


def build_notice() -> gr.HTML:
    """Build its place inside the current Blocks."""
    return gr.HTML(elem_id="notice", js_on_load=LISTEN)


def wire_notice(notice: gr.HTML, actions: NoticeActions, events: PageEvents) -> None:
    """Join its events with what they do."""
    events.on(notice.click, actions.dismiss)
