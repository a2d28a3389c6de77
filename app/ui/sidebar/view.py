"""The sidebar: buttons for new chats, the search, the list of chats, and importing and exporting all of them."""

from collections.abc import Callable
from dataclasses import dataclass

import gradio as gr

from app.chat_messages import ChatVersion, ImportResult
from app.display_text import counted
from app.errors import AppError, ChatNotFound
from app.ui.chat.state import ChatState
from app.ui.chat.view import ChatActions
from app.ui.error_handling import Notify, succeeded, try_or_notify
from app.ui.file_export import BACKUP, CHATS, build_file_output, file_html
from app.ui.page_events import LISTEN, PageEvents
from app.ui.page_sessions import PageValue
from app.ui.services import Services
from app.ui.uploads import discard, upload_at

NO_FILE = ""
MORE_CHATS = 500
"""How many more chats are listed on request."""
EXPORT = (
    f'<a href="{CHATS}" download title="Every chat in one file, which can be imported again">Export all</a>'
    f'<a href="{BACKUP}" download title="A copy of the whole database, with your documents">Back up</a>'
)


class SidebarActions:
    """What the sidebar's events do, for any page."""

    def __init__(self, services: Services, notify: Notify) -> None:
        self._services = services
        self._stores = services.conversations.stores
        self._notify = notify
        self._chat_actions: dict[str, Callable[[ChatState, int, str], None]] = {
            "open": lambda state, chat, _: self._open(state, chat),
            "rename": lambda _, chat, title: self._stores.of(chat).rename(chat, title),
            "pin": lambda _, chat, __: self._stores.of(chat).pin(chat, True),
            "unpin": lambda _, chat, __: self._stores.of(chat).pin(chat, False),
            "move": self._move,
            "delete": lambda state, chat, _: self._delete(state, chat),
            "undo": lambda state, _, __: self._restore(state),
        }
        self._folder_actions: dict[str, Callable[[ChatState, str, str], None]] = {
            "collapse": lambda state, folder, _: _expand(state, folder, False),
            "expand": lambda state, folder, _: _expand(state, folder, True),
            "rename-folder": self._rename_folder,
        }

    def act(self, state: ChatState, event: gr.EventData) -> str:
        """Do what a button in the list says. The result is a file to save, or nothing."""
        do, name, value = (str(event._data.get(key, "")) for key in ("do", "name", "value"))
        if action := self._folder_actions.get(do):
            succeeded(self._notify, lambda: action(state, name, value))
            return NO_FILE
        return try_or_notify(self._notify, lambda: self._do(state, do, int(name or 0), value), NO_FILE)

    def search(self, state: ChatState, words: str) -> None:
        """List the chats that have these words, or all chats for none."""
        state.search = words

    def import_chats(self, state: ChatState, path: str | None) -> None:
        """Import the chats of an exported file, and delete the upload."""
        upload = try_or_notify(self._notify, lambda: upload_at(path), None) if path is not None else None
        if upload is None:
            return
        try:
            # Some editors put a byte order mark before a text that they save.
            text = upload.read_text(encoding="utf-8-sig", errors="replace")
            imported = self._stores.stored.import_json(text)
        except (AppError, OSError) as error:
            self._notify(str(error))
            return
        finally:
            discard(upload)
        state.search = ""
        self._notify(import_summary(imported))

    def _do(self, state: ChatState, do: str, chat: int, value: str) -> str:
        if action := self._chat_actions.get(do):
            action(state, chat, value)
        elif do == "more":
            state.chat_limit += MORE_CHATS
        elif do == "markdown":
            text = self._stores.of(chat).export_markdown(chat)
            return file_html(f"{self._title(chat)}.md", text, "text/markdown")
        elif do == "json":
            text = self._stores.of(chat).export_json((chat,))
            return file_html(f"{self._title(chat)}.json", text, "application/json")
        return NO_FILE

    def _open(self, state: ChatState, chat: int) -> None:
        state.open_chat(ChatVersion(chat))
        self._services.chat = chat

    def _delete(self, state: ChatState, chat: int) -> None:
        title = self._title(chat)
        self._stores.of(chat).delete(chat)
        self._services.conversations.stop(chat)
        state.deleted = (*state.deleted, (chat, title))
        if self._services.chat == chat:
            self._services.chat = 0
        if state.version.chat == chat:
            state.new_chat()

    def _restore(self, state: ChatState) -> None:
        """Restore the chat that was deleted last; then the one before can be restored."""
        if not state.deleted:
            raise ChatNotFound
        *before, (chat, _) = state.deleted
        try:
            self._stores.of(chat).restore(chat)
        except ChatNotFound:  # all chats were deleted for good: it cannot be offered again
            state.deleted = tuple(before)
            raise
        state.deleted = tuple(before)

    def _move(self, state: ChatState, chat: int, folder: str) -> None:
        """Move a chat into a folder, and expand that."""
        self._stores.of(chat).move(chat, folder.strip())
        _expand(state, folder.strip(), True)

    def _rename_folder(self, state: ChatState, old: str, new: str) -> None:
        self._stores.stored.rename_folder(old, new)
        _expand(state, new, state.expanded.get(old, False))

    def _title(self, chat: int) -> str:
        return next((line.title for line in self._stores.summaries() if line.id == chat), "") or "New chat"


def _expand(state: ChatState, folder: str, is_expanded: bool) -> None:
    state.expanded = {**state.expanded, folder: is_expanded}


def import_summary(imported: ImportResult) -> str:
    """Say what was imported."""
    new = f"Imported {counted(imported.new, 'chat')}."
    if not imported.known:
        return new
    return f"{new} {'One was' if imported.known == 1 else f'{imported.known:,} were'} here already."


@dataclass(frozen=True, slots=True)
class SidebarView:
    """The sidebar's components."""

    new_chat: gr.Button
    new_private_chat: gr.Button
    search: gr.Textbox
    chats: gr.HTML
    importing: gr.UploadButton
    file: gr.HTML

    def connect(
        self, actions: SidebarActions, chat: ChatActions, state: PageValue[ChatState], events: PageEvents
    ) -> None:
        """Join the sidebar's events with their actions."""
        events.on(self.new_chat.click, chat.new_chat, state)
        events.on(self.new_private_chat.click, chat.new_private_chat, state)
        events.on(self.chats.click, actions.act, state, self.file)
        events.on(self.search.input, actions.search, [state, self.search], trigger_mode="always_last")
        events.on(self.importing.upload, actions.import_chats, [state, self.importing])


def build_sidebar() -> SidebarView:
    """Build the sidebar inside the current Blocks."""
    with gr.Column(elem_id="sidebar", scale=0, min_width=220):
        with gr.Row(elem_id="begin"):
            new_chat = gr.Button("New chat", elem_id="new-chat", size="sm", scale=1, min_width=0)
            private = gr.Button("Private", elem_id="new-private-chat", size="sm", scale=0, min_width=0)
        search = gr.Textbox(
            elem_id="chat-search", label="Search chats", show_label=False, container=False, max_lines=1,
            placeholder="Search chats  (Ctrl+K)",
        )  # fmt: skip
        chats = gr.HTML(elem_id="chats", js_on_load=LISTEN)
        with gr.Row(elem_id="all-chats"):
            gr.HTML(EXPORT, elem_id="export-chats", js_on_load=None)
            importing = gr.UploadButton(
                "Import…", elem_id="import-chats", size="sm", scale=0, min_width=0, file_types=[".json"]
            )
        file = build_file_output("save-chats")
    return SidebarView(new_chat, private, search, chats, importing, file)
