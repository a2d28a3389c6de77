"""The sidebar: buttons for new chats, the search, the list of chats, undo, and saving a chat."""

from collections.abc import Callable, Sequence

import gradio as gr

from app.conversation import ChatStores
from app.ui.chat.messages import EVERYTHING
from app.ui.chat.state import ChatState
from app.ui.chat.view import ChatActions
from app.ui.frame.event_handlers import LISTEN, Actions, PageEvents, hidden_output
from app.ui.frame.file_export import file_html
from app.ui.frame.gradio_internals import pressed
from app.ui.frame.page_connections import PageValue
from app.values.chat import ChatVersion
from app.values.display_text import counted

NO_FILE = ""
MORE_CHATS = 500
"""How many more chats are listed on request."""
EDGE = (
    '<div role="separator" tabindex="0" aria-orientation="vertical" aria-label="Width of the sidebar"></div>'
)
"""The HTML of the edge that is dragged to resize the sidebar: see assets/ui/sidebar.js."""


class SidebarActions(Actions):
    @property
    def _stores(self) -> ChatStores:
        return self._services.conversations.stores

    def act(self, state: ChatState, event: gr.EventData) -> str:
        """Handle a button in the list. Returns a file to save, or ""."""
        do, name, value = pressed(event)
        folder_actions: dict[str, Callable[[], None]] = {
            "collapse": lambda: _expand(state, name, False),
            "expand": lambda: _expand(state, name, True),
            "make-folder": lambda: self._make_folder(state, value),
            "rename-folder": lambda: self._rename_folder(state, name, value),
            "remove-folder": lambda: self._remove_folder(name),
            "delete-folder": lambda: self._delete_folder(state, name),
        }
        if action := folder_actions.get(do):
            self._succeeded(action)
            return NO_FILE
        return str(self._try(lambda: self._do(state, do, int(name or 0), value), NO_FILE))

    def search(self, state: ChatState, words: str) -> None:
        """List only the chats that these words find; all chats if there are no words."""
        state.search = words

    def _do(self, state: ChatState, do: str, chat: int, value: str) -> str:
        store = self._stores.of(chat)
        actions: dict[str, Callable[[], object]] = {
            "open": lambda: self._open(state, chat, int(value or 0)),
            "print": lambda: self._open_whole(state, chat),
            "rename": lambda: store.rename(chat, value),
            "pin": lambda: store.pin(chat, True),
            "unpin": lambda: store.pin(chat, False),
            "move": lambda: self._move(state, chat, value.strip()),
            "delete": lambda: self._delete_all(state, f"“{self._title(chat)}” was deleted.", (chat,)),
            "undo": lambda: self._undo(chat),
        }
        if action := actions.get(do):
            action()
        elif do == "more":
            state.chat_limit += MORE_CHATS
        elif do == "markdown":
            return file_html(f"{self._title(chat)}.md", store.export_markdown(chat), "text/markdown")
        elif do == "json":
            return file_html(f"{self._title(chat)}.json", store.export_json((chat,)), "application/json")
        return NO_FILE

    def _open(self, state: ChatState, chat: int, message: int = 0) -> None:
        """Open a chat. If `message` is not 0, shows a version that has this message, and at least the messages from
        this one on."""
        store = self._stores.of(chat)
        if message and not store.count_shown_from(chat, message):
            store.show(store.thread(chat, 1).version, message)
        state.open_chat(ChatVersion(chat))
        if message:
            state.message_limit = max(state.message_limit, store.count_shown_from(chat, message) + 1)
        self._services.chat = chat

    def _open_whole(self, state: ChatState, chat: int) -> None:
        self._open(state, chat)
        state.message_limit = EVERYTHING

    def _delete_all(self, state: ChatState, message: str, chats: Sequence[int], folder: str = "") -> None:
        """Delete these chats, and their folder if there is one. Undo restores them, and opens the deleted
        chat that was open, unless the page shows another chat by then."""
        opened = state.version.chat

        def delete() -> None:
            for chat in chats:
                self._stores.of(chat).delete(chat)
                self._services.conversations.stop(chat)
                if self._services.chat == chat:
                    self._services.chat = 0
                if state.version.chat == chat:
                    state.new_chat()
            self._stores.stored.remove_folder(folder)

        def restore() -> None:
            for chat in chats:
                self._stores.of(chat).restore(chat)
            self._put_into(folder, chats)
            if opened in chats and not state.version.chat:
                self._open(state, opened)

        self._services.deletions.delete(message, delete, restore)

    def _put_into(self, folder: str, chats: Sequence[int]) -> None:
        """Make this folder with these chats, unless its name is empty."""
        if folder:
            self._stores.stored.make_folder(folder)
            for chat in chats:
                self._stores.stored.move(chat, folder)

    def _undo(self, document: int) -> None:
        if document:
            self._services.documents.undo_replacement(document)
        else:
            self._services.deletions.undo()

    def _move(self, state: ChatState, chat: int, folder: str) -> None:
        """Move a chat into a folder, or out of its folder if `folder` is "", and expand the folder."""
        self._stores.of(chat).move(chat, folder)
        _expand(state, folder, True)

    def _make_folder(self, state: ChatState, name: str) -> None:
        self._stores.stored.make_folder(name)
        _expand(state, " ".join(name.split()), True)

    def _remove_folder(self, folder: str) -> None:
        """Remove a folder but keep its chats, which are then in no folder."""
        moved = self._stores.stored.in_folder(folder)
        chats = "Its chat is" if len(moved) == 1 else f"Its {len(moved):,} chats are"
        self._services.deletions.delete(
            f"The folder “{folder}” was removed.{f' {chats} still there.' if moved else ''}",
            lambda: self._stores.stored.remove_folder(folder),
            lambda: self._put_into(folder, moved),
        )

    def _delete_folder(self, state: ChatState, folder: str) -> None:
        chats = self._stores.stored.in_folder(folder)
        message = f"The folder “{folder}” and {counted(len(chats), 'chat')} were deleted."
        self._delete_all(state, message, chats, folder)

    def _rename_folder(self, state: ChatState, old: str, new: str) -> None:
        """Rename a folder. If another folder has the new name, joins both; an empty name removes the folder."""
        name = " ".join(new.split())
        if not name:
            return self._remove_folder(old)
        stored = self._stores.stored
        _expand(state, name, state.expanded.get(old, False))
        if name == old or name not in stored.folders():
            return stored.rename_folder(old, name)
        chats = stored.in_folder(old)
        return self._services.deletions.delete(
            f"The chats of \u201c{old}\u201d are in the folder \u201c{name}\u201d now.",
            lambda: stored.rename_folder(old, name),
            lambda: self._put_into(old, chats),
        )

    def _title(self, chat: int) -> str:
        return next((line.title for line in self._stores.summaries() if line.id == chat), "") or "New chat"


def _expand(state: ChatState, folder: str, is_expanded: bool) -> None:
    state.expanded = {**state.expanded, folder: is_expanded}


def build_sidebar(
    actions: SidebarActions, chat: ChatActions, state: PageValue[ChatState], events: PageEvents
) -> gr.HTML:
    """Build the sidebar inside the current Blocks. Returns the component by which an exported chat is saved."""
    with gr.Column(elem_id="sidebar", scale=0, min_width=220):
        with gr.Row(elem_id="begin"):
            new_chat = gr.Button("New chat", elem_id="new-chat", size="sm", scale=1, min_width=0)
            private = gr.Button("Private", elem_id="new-private-chat", size="sm", scale=0, min_width=0)
            sign = "\N{LEFT-POINTING DOUBLE ANGLE QUOTATION MARK}"
            gr.Button(sign, elem_id="hide-sidebar", size="sm", scale=0, min_width=0)
        search = gr.Textbox(
            elem_id="chat-search", label="Search chats", show_label=False, container=False, max_lines=1,
            placeholder="Search chats  (Ctrl+K)",
        )  # fmt: skip
        chats = gr.HTML(elem_id="chats", js_on_load=LISTEN)
        file = hidden_output("save-chats")
        gr.HTML(EDGE, elem_id="sidebar-edge", js_on_load=None)
    events.on(new_chat.click, chat.new_chat, state)
    events.on(private.click, chat.new_private_chat, state)
    events.on(chats.click, actions.act, state, file)
    events.on(search.input, actions.search, [state, search], trigger_mode="always_last")
    return file
