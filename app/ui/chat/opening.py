"""Opening a chat by its address, with what was typed in it and not sent yet."""

import gradio as gr

from app.ui.chat.state import ChatState
from app.ui.error_handling import Notify, succeeded, try_or_notify
from app.ui.services import Services


class ChatOpener:
    """Opens chats, for any page."""

    def __init__(self, services: Services, notify: Notify) -> None:
        self._services = services
        self._notify = notify

    def open_chat(self, state: ChatState, event: gr.EventData) -> None:
        """Show the chat that the page's address names, 0 for a new one."""
        name = str(event._data.get("name", ""))
        if name.isdecimal() and int(name):
            succeeded(self._notify, lambda: self._open(state, int(name)))
        else:
            state.new_chat()
            self._services.chat = 0

    def draft(self, state: ChatState) -> str:
        """Return what was typed in this chat and not sent yet; nothing for a private one that is not begun."""
        chat = state.version.chat
        if not chat and state.is_private:
            return ""
        state.draft = try_or_notify(self._notify, lambda: self._services.conversations.drafts.of(chat), "")
        return state.draft

    def _open(self, state: ChatState, chat: int) -> None:
        state.open_chat(self._services.conversations.thread(chat, 1).version)
        self._services.chat = chat
