"""The models' view: search and catalogue on the left, what is on this machine on the right."""

from dataclasses import dataclass

import gradio as gr

from app.settings import ModelSettings
from app.ui.models.actions import ModelActions
from app.ui.models.result_list import Found
from app.ui.models.stock import Wish
from app.ui.page_events import LISTEN, PageEvents
from app.ui.page_sessions import PageValue

KEPT = (
    ("Automatic", "auto"),
    ("float32", "float32"),
    ("bfloat16", "bfloat16"),
    ("float16", "float16"),
    ("8 bits (int8)", "int8"),
    ("4 bits (int4)", "int4"),
)
CONTEXTS = ("1,024", "2,048", "4,096", "8,192", "16,384", "32,768", "131,072")
"""Buttons inside the HTML speak through one event of their list: see assets/ui/foresight.js."""


@dataclass(frozen=True, slots=True)
class ModelsArea:
    """The view's components."""

    text: gr.Textbox
    search: gr.Button
    found: PageValue[Found]
    results: gr.HTML
    kept: gr.Dropdown
    context: gr.Dropdown
    catalogue: gr.HTML
    downloads: gr.HTML
    loaded: gr.HTML
    installed: gr.HTML
    is_offline: gr.Checkbox
    token: gr.Textbox
    save_token: gr.Button
    forget_token: gr.Button
    access: gr.HTML
    folder: gr.Textbox
    add_folder: gr.Button
    question: gr.HTML

    @property
    def lists(self) -> list[gr.HTML]:
        """The lists with buttons in them."""
        return [self.results, self.catalogue, self.downloads, self.loaded, self.installed, self.question]


def build_models_area(wish: Wish, library: ModelSettings) -> ModelsArea:
    """Build the view inside the current Blocks."""
    with gr.Row(elem_id="models"):
        with gr.Column(elem_id="shop", scale=1):
            text, search, found, results = _search()
            kept, context = _wish(wish)
            catalogue = _list("catalogue")
        with gr.Column(elem_id="home", scale=0, min_width=320):
            downloads, loaded, installed = _list("downloads"), _list("loaded"), _list("installed")
            is_offline = gr.Checkbox(
                library.is_offline, label="Offline", info="No request to the hub at all", elem_id="offline",
                elem_classes="switch",
            )  # fmt: skip
            access = _access()
            folder, add = _folders()
    question = _list("question")
    return ModelsArea(
        text, search, found, results, kept, context, catalogue, downloads, loaded, installed, is_offline, *access,
        folder, add, question,
    )  # fmt: skip


def wire_models(area: ModelsArea, actions: ModelActions, events: PageEvents) -> None:
    """Join the view's events with what they do."""
    for looking in (area.search.click, area.text.submit):
        events.on(looking, actions.search, area.text, [area.found, area.results])
    for one in area.lists:
        events.on(one.click, actions.act, area.found, [area.found, area.results, area.question])
    for control in (area.kept, area.context):
        events.on(control.input, actions.judge, [area.kept, area.context])
    events.on(area.is_offline.input, actions.switch_off, area.is_offline)
    for saving in (area.save_token.click, area.token.submit):
        events.on(saving, actions.log_in, area.token, area.token)
    events.on(area.forget_token.click, actions.log_out)
    for adding in (area.add_folder.click, area.folder.submit):
        events.on(adding, actions.add_folder, area.folder, area.folder)


def _list(name: str) -> gr.HTML:
    return gr.HTML(elem_id=name, js_on_load=LISTEN)


def _search() -> tuple[gr.Textbox, gr.Button, PageValue[Found], gr.HTML]:
    with gr.Row(elem_id="search"):
        text = gr.Textbox(
            label="Search",
            show_label=False,
            container=False,
            max_lines=1,
            placeholder="Search for models, or paste an id (org/name) or the address of a model's page",
            elem_id="search-text",
            scale=1,
        )
        search = gr.Button("Search", elem_id="search-button", variant="primary", scale=0, min_width=0)
    return text, search, PageValue(Found), _list("results")


def _wish(wish: Wish) -> tuple[gr.Dropdown, gr.Dropdown]:
    with gr.Row(elem_id="wish"):
        kept = gr.Dropdown(
            list(KEPT),
            value=wish.kept,
            label="Keep weights in",
            elem_id="kept",
            filterable=False,
            min_width=120,
        )
        context = gr.Dropdown(
            list(CONTEXTS), value=f"{wish.context:,}", label="Tokens in a chat", elem_id="context",
            filterable=False, min_width=120,
        )  # fmt: skip
    return kept, context


def _access() -> tuple[gr.Textbox, gr.Button, gr.Button, gr.HTML]:
    with gr.Accordion("Access to the hub", open=False, elem_id="access"):
        note = gr.HTML(elem_id="access-note", js_on_load=None)
        token = gr.Textbox(
            label="Token", type="password", max_lines=1, elem_id="token", placeholder="hf_…",
            info="From your account's settings on the hub. It is needed for gated models alone.",
        )  # fmt: skip
        with gr.Row(elem_classes="pair"):
            save = gr.Button("Save", elem_id="save-token", size="sm")
            forget = gr.Button("Forget", elem_id="forget-token", size="sm")
    return token, save, forget, note


def _folders() -> tuple[gr.Textbox, gr.Button]:
    with gr.Accordion("Your own folders", open=False, elem_id="folders"):
        folder = gr.Textbox(
            label="Folder", max_lines=1, elem_id="folder", placeholder="/path/to/models",
            info="Models in it, or right below it, are listed where they lie; nothing is copied.",
        )  # fmt: skip
        add = gr.Button("Add", elem_id="add-folder", size="sm")
    return folder, add
