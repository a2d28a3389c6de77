"""The sidebar's components."""

from dataclasses import dataclass

import gradio as gr

from app.ui.chat.actions import ChatActions
from app.ui.chat.seat import Seat
from app.ui.library_files import BACKUP, CHATS
from app.ui.page_events import LISTEN, PageEvents
from app.ui.page_sessions import PageValue
from app.ui.saving import build_file_place
from app.ui.sidebar.actions import SidebarActions


@dataclass(frozen=True, slots=True)
class SidebarArea:
    """The sidebar: buttons for new chats, the search box, the list, and bringing chats in."""

    new_chat: gr.Button
    private: gr.Button
    words: gr.Textbox
    chats: gr.HTML
    bring: gr.UploadButton
    file: gr.HTML


def build_sidebar() -> SidebarArea:
    """Build the sidebar inside the current Blocks."""
    with gr.Column(elem_id="sidebar", scale=0, min_width=220):
        with gr.Row(elem_id="begin"):
            new_chat = gr.Button("New chat", elem_id="new-chat", size="sm", scale=1, min_width=0)
            private = gr.Button("Private", elem_id="new-private-chat", size="sm", scale=0, min_width=0)
        words = gr.Textbox(
            elem_id="chat-search", label="Search chats", show_label=False, container=False, max_lines=1,
            placeholder="Search chats  (Ctrl+K)",
        )  # fmt: skip
        chats = gr.HTML(elem_id="chats", js_on_load=LISTEN)
        with gr.Row(elem_id="all-chats"):
            gr.HTML(saving_html(), elem_id="save-all", js_on_load=None)
            bring = gr.UploadButton(
                "Bring in…", elem_id="bring-chats", size="sm", scale=0, min_width=0, file_types=[".json"]
            )
        file = build_file_place("save-chats")
    return SidebarArea(new_chat, private, words, chats, bring, file)


def saving_html() -> str:
    """Links to all chats as files."""
    return (
        f'<a href="{CHATS}" download title="Every chat, to be brought in again">Save all</a>'
        f'<a href="{BACKUP}" download title="A copy of the whole library, documents too">Back up</a>'
    )


def wire_sidebar(
    area: SidebarArea,
    actions: SidebarActions,
    chatting: ChatActions,
    seat: PageValue[Seat],
    events: PageEvents,
) -> None:
    """Join the sidebar's events with what they do."""
    events.on(area.new_chat.click, chatting.begin, seat)
    events.on(area.private.click, chatting.begin_private, seat)
    events.on(area.chats.click, actions.act, seat, area.file)
    events.on(area.words.input, actions.search, [seat, area.words], trigger_mode="always_last")
    events.on(area.bring.upload, actions.bring, [seat, area.bring])
