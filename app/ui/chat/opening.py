"""Opening a chat by its address, with what was typed in it and not sent yet."""

from typing import Any

import gradio as gr

from app.ui.chat.state import ChatState
from app.ui.frame.error_handling import Notify, succeeded, try_or_notify
from app.ui.frame.services import Services


class ChatOpener:
    """Opens chats, for any page."""

    def __init__(self, services: Services, notify: Notify) -> None:
        self._services = services
        self._notify = notify

    def open_chat(self, state: ChatState, event: gr.EventData) -> None:
        """Show the chat that the page's address names: a new one for 0, and where there is none of that number."""
        name = str(event._data.get("name", ""))
        chat = int(name) if name.isdecimal() else 0
        if not chat or not succeeded(self._notify, lambda: self._open(state, chat)):
            state.new_chat()
            self._services.chat = 0

    def draft(self, state: ChatState, left: str, typed: str) -> Any:
        """Keep what was typed in the chat that the page left ("" for a page that is new), and return what was typed
        in the one that it shows. What is typed before a new page is drawn stays."""
        drafts, chat = self._services.conversations.drafts, state.version.chat
        state.filled = state.opened
        if left == "" and typed:
            state.draft = typed
            return gr.skip()
        if left.isdecimal() and typed.strip() != state.sent:
            drafts.keep(int(left), typed)
        # A private chat that is not begun has no place for a draft.
        is_kept = chat or not state.is_private
        state.draft = try_or_notify(self._notify, lambda: drafts.of(chat), "") if is_kept else ""
        # Without an answer the box keeps what is typed into it meanwhile.
        return gr.skip() if state.draft == typed else state.draft

    def _open(self, state: ChatState, chat: int) -> None:
        state.open_chat(self._services.conversations.thread(chat, 1).version)
        self._services.chat = chat
