"""The Models view: search and recommended models on the left, downloads and installed models on the right."""

from dataclasses import dataclass

import gradio as gr

from app.settings import ModelSettings
from app.ui.models.actions import ModelsActions
from app.ui.models.inventory import FitTarget
from app.ui.models.render import SearchResults
from app.ui.page_events import LISTEN, PageEvents
from app.ui.page_sessions import PageValue

WEIGHTS = (
    ("Automatic", "auto"),
    ("float32", "float32"),
    ("bfloat16", "bfloat16"),
    ("float16", "float16"),
    ("8 bits (int8)", "int8"),
    ("4 bits (int4)", "int4"),
)
CONTEXTS = ("1,024", "2,048", "4,096", "8,192", "16,384", "32,768", "131,072")


@dataclass(frozen=True, slots=True)
class ModelsView:
    """The view's components."""

    text: gr.Textbox
    search: gr.Button
    found: PageValue[SearchResults]
    results: gr.HTML
    weights: gr.Dropdown
    context: gr.Dropdown
    catalogue: gr.HTML
    downloads: gr.HTML
    loaded: gr.HTML
    installed: gr.HTML
    is_offline: gr.Checkbox
    token: gr.Textbox
    save_token: gr.Button
    forget_token: gr.Button
    folder: gr.Textbox
    add_folder: gr.Button
    dialog: gr.HTML

    def connect(self, actions: ModelsActions, picker: gr.HTML, events: PageEvents) -> None:
        """Join events with actions. Buttons in a list arrive as one event: see assets/ui/foresight.js."""
        for submitted in (self.search.click, self.text.submit):
            events.on(submitted, actions.search, self.text, [self.found, self.results])
        lists = (
            self.results,
            self.catalogue,
            self.downloads,
            self.loaded,
            self.installed,
            self.dialog,
            picker,
        )
        for one in lists:
            events.on(one.click, actions.click, self.found, [self.found, self.results, self.dialog])
        for control in (self.weights, self.context):
            events.on(control.input, actions.set_target, [self.weights, self.context])
        events.on(self.is_offline.input, actions.set_offline, self.is_offline)
        for submitted in (self.save_token.click, self.token.submit):
            events.on(submitted, actions.log_in, self.token, self.token)
        events.on(self.forget_token.click, actions.log_out)
        for submitted in (self.add_folder.click, self.folder.submit):
            events.on(submitted, actions.add_folder, self.folder, self.folder)


def build_models_view(target: FitTarget, library: ModelSettings) -> ModelsView:
    """Create the components inside the current Blocks."""
    with gr.Row(elem_id="models"):
        with gr.Column(elem_id="find-models", scale=1):
            text, search, results = _search()
            weights, context = _fit_target(target)
            catalogue = _list("catalogue")
        with gr.Column(elem_id="local-models", scale=0, min_width=320):
            downloads, loaded, installed = _list("downloads"), _list("loaded"), _list("installed")
            is_offline = gr.Checkbox(
                library.is_offline, label="Offline", info="Makes no requests to Hugging Face", elem_id="offline",
                elem_classes="switch",
            )  # fmt: skip
            token, save_token, forget_token = _token()
            folder, add_folder = _folders()
    return ModelsView(
        text, search, PageValue(SearchResults), results, weights, context, catalogue, downloads, loaded, installed,
        is_offline, token, save_token, forget_token, folder, add_folder, _list("question"),
    )  # fmt: skip


def _list(name: str) -> gr.HTML:
    return gr.HTML(elem_id=name, js_on_load=LISTEN)


def _search() -> tuple[gr.Textbox, gr.Button, gr.HTML]:
    with gr.Row(elem_id="search"):
        text = gr.Textbox(
            label="Search", show_label=False, container=False, max_lines=1, elem_id="search-text", scale=1,
            placeholder="Search Hugging Face, or paste a model ID (org/name) or URL",
        )  # fmt: skip
        search = gr.Button("Search", elem_id="search-button", variant="primary", scale=0, min_width=0)
    return text, search, _list("results")


def _fit_target(target: FitTarget) -> tuple[gr.Dropdown, gr.Dropdown]:
    with gr.Row(elem_id="fit-target"):
        weights = gr.Dropdown(
            list(WEIGHTS), value=target.weights, label="Weight precision", elem_id="weights", filterable=False,
            min_width=120,
        )  # fmt: skip
        context = gr.Dropdown(
            list(CONTEXTS), value=f"{target.context:,}", label="Context length (tokens)", elem_id="context",
            filterable=False, min_width=120,
        )  # fmt: skip
    return weights, context


def _token() -> tuple[gr.Textbox, gr.Button, gr.Button]:
    with gr.Accordion("Hugging Face token", open=False, elem_id="access"):
        gr.HTML(elem_id="access-note", js_on_load=None)
        token = gr.Textbox(
            label="Token", type="password", max_lines=1, elem_id="token", placeholder="hf_…",
            info="Only needed for gated models. Create one in your account's settings.",
        )  # fmt: skip
        with gr.Row(elem_classes="pair"):
            save = gr.Button("Save", elem_id="save-token", size="sm")
            forget = gr.Button("Forget", elem_id="forget-token", size="sm")
    return token, save, forget


def _folders() -> tuple[gr.Textbox, gr.Button]:
    with gr.Accordion("Model folders", open=False, elem_id="folders"):
        folder = gr.Textbox(
            label="Folder", max_lines=1, elem_id="folder", placeholder="/path/to/models",
            info="Lists the models in this folder and one level below. Nothing is copied.",
        )  # fmt: skip
        add = gr.Button("Add", elem_id="add-folder", size="sm")
    return folder, add
