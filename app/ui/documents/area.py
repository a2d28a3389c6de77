"""The documents' view: collections on the left, beside them what is in the open one and how more gets there."""

from dataclasses import dataclass

import gradio as gr

from app.ui.documents.actions import DocumentActions
from app.ui.documents.seat import DocumentsSeat
from app.ui.page_events import LISTEN, PageEvents
from app.ui.page_sessions import PageValue


@dataclass(frozen=True, slots=True)
class DocumentsArea:
    """The view's components."""

    collections: gr.HTML
    title: gr.HTML
    text: gr.Textbox
    name: gr.Textbox
    add: gr.Button
    files: gr.File
    question: gr.Textbox
    search: gr.Button
    meaning: gr.HTML
    found: gr.HTML
    papers: gr.HTML
    seat: PageValue[DocumentsSeat]

    @property
    def lists(self) -> list[gr.HTML]:
        """The lists with buttons in them."""
        return [self.collections, self.meaning, self.found, self.papers]


def build_documents_area() -> DocumentsArea:
    """Build the view inside the current Blocks."""
    with gr.Row(elem_id="documents"):
        with gr.Column(elem_id="shelf", scale=0, min_width=220):
            collections = gr.HTML(elem_id="collections", elem_classes="asks", js_on_load=LISTEN)
        with gr.Column(elem_id="collection", scale=1):
            title = gr.HTML(elem_id="collection-title", js_on_load=None)
            adding = _adding()
            question, search = _searching()
            meaning = gr.HTML(elem_id="meaning", js_on_load=LISTEN)
            found = gr.HTML(elem_id="found", js_on_load=LISTEN)
            papers = gr.HTML(elem_id="papers", elem_classes="asks", js_on_load=LISTEN)
    return DocumentsArea(
        collections, title, *adding, question, search, meaning, found, papers, PageValue(DocumentsSeat)
    )


def wire_documents(area: DocumentsArea, actions: DocumentActions, events: PageEvents) -> None:
    """Join the view's events with what they do."""
    seat = area.seat
    for one in area.lists:
        events.on(one.click, actions.act, seat)
    pasted = [area.text, area.name]
    for adding in (area.add.click, area.name.submit):
        events.on(adding, actions.paste, [seat, *pasted], pasted)
    # Emptied, so that the next files are welcome, too.
    events.on(area.files.upload, actions.add_files, [seat, area.files], area.files)
    for searching in (area.search.click, area.question.submit):
        events.on(searching, actions.search, [seat, area.question])


def _adding() -> tuple[gr.Textbox, gr.Textbox, gr.Button, gr.File]:
    with gr.Row(elem_id="adding"):
        with gr.Column(elem_id="pasting", scale=1, min_width=0):
            text = gr.Textbox(
                elem_id="paste", label="Text", show_label=False, container=False, lines=3, max_lines=8,
                placeholder="Paste a text: a contract, a manual, notes.",
            )  # fmt: skip
            with gr.Row(elem_id="naming"):
                name = gr.Textbox(
                    elem_id="paste-title", label="Title", show_label=False, container=False, max_lines=1,
                    placeholder="Title, or the text's own", scale=1,
                )  # fmt: skip
                add = gr.Button("Add", elem_id="paste-add", variant="primary", scale=0, min_width=0)
        files = gr.File(
            elem_id="files", label="Files", show_label=False, file_count="multiple", height=140, scale=0,
            min_width=220,
        )  # fmt: skip
    return text, name, add, files


def _searching() -> tuple[gr.Textbox, gr.Button]:
    with gr.Row(elem_id="trying"):
        question = gr.Textbox(
            elem_id="try", label="Try a search", show_label=False, container=False, max_lines=1,
            placeholder="Try a search: what a chat would find for a question", scale=1,
        )  # fmt: skip
        search = gr.Button("Search", elem_id="try-button", scale=0, min_width=0)
    return question, search
