"""The Models view: the downloads, and two tabs with the installed models and with models to download."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import gradio as gr

from app.settings import ModelSettings
from app.ui.frame.event_handlers import LISTEN, PageEvents
from app.ui.frame.page_connections import PageValue
from app.ui.models.actions import ModelsActions
from app.ui.models.discover import SIZES, TASKS, Filters, SearchResults
from app.ui.models.load_dialog import LoadActions, LoadDialog

TABS = (("installed", "Installed"), ("discover", "Discover"))


@dataclass(frozen=True, slots=True)
class InstalledTab:
    """The components of the tab with installed models."""

    loaded: gr.HTML
    installed: gr.HTML
    path: gr.Textbox
    browse: gr.Button
    open_path: gr.Button
    folder: gr.Textbox
    add_folder: gr.Button
    servers: gr.HTML
    address: gr.Textbox
    key: gr.Textbox
    add_server: gr.Button


@dataclass(frozen=True, slots=True)
class DiscoverTab:
    """The components of the tab with models to download."""

    text: gr.Textbox
    search: gr.Button
    results: gr.HTML
    picks: gr.HTML
    size: gr.Dropdown
    task: gr.Dropdown
    catalogue: gr.HTML
    is_offline: gr.Checkbox
    token: gr.Textbox
    save_token: gr.Button
    forget_token: gr.Button


@dataclass(frozen=True, slots=True)
class ModelsView:
    """The view's components, and the values that each page has of its own."""

    downloads: gr.HTML
    installed: InstalledTab
    discover: DiscoverTab
    question: gr.HTML
    loading: gr.HTML
    found: PageValue[SearchResults]
    filters: PageValue[Filters]
    dialog: PageValue[LoadDialog]

    def connect(
        self, actions: ModelsActions, loading: LoadActions, others: Sequence[gr.HTML], events: PageEvents
    ) -> None:
        """Connect events with actions; `others` are lists of models outside this view.

        Buttons in a list arrive as one event: see assets/ui/foresight.js."""
        here, discover = self.installed, self.discover
        for submitted in (discover.search.click, discover.text.submit):
            events.on(submitted, actions.search, discover.text, [self.found, discover.results])
        lists = (
            self.downloads, here.loaded, here.installed, here.servers, discover.results, discover.picks,
            discover.catalogue, self.question, *others,
        )  # fmt: skip
        shown = [self.found, discover.results, self.question]
        for one in lists:
            events.on(one.click, actions.click, [self.found, self.dialog], shown)
        events.on(self.loading.click, loading.act, self.dialog)
        filters = [self.filters, discover.size, discover.task]
        for control in (discover.size, discover.task):
            events.on(control.input, actions.filter, filters)
        events.on(here.browse.click, loading.browse, [self.dialog, here.path])
        for submitted in (here.open_path.click, here.path.submit):
            events.on(submitted, actions.open_path, [self.dialog, here.path], events.faults)
        for submitted in (here.add_folder.click, here.folder.submit):
            events.on(submitted, actions.add_folder, here.folder, [here.folder, events.faults])
        server = [here.address, here.key]
        for submitted in (here.add_server.click, here.address.submit, here.key.submit):
            events.on(submitted, actions.add_server, server, [*server, events.faults])
        events.on(discover.is_offline.input, actions.set_offline, discover.is_offline)
        for submitted in (discover.save_token.click, discover.token.submit):
            events.on(submitted, actions.log_in, discover.token, [discover.token, events.faults])
        events.on(discover.forget_token.click, actions.log_out)


def build_models_view(library: ModelSettings) -> ModelsView:
    """Create the components inside the current Blocks."""
    with gr.Row(elem_id="models"), gr.Column(elem_id="local-models"):
        tabs = "".join(
            f'<button type="button" role="tab" id="models-tab-{tab}" data-models-tab="{tab}"'
            f' aria-controls="models-{tab}" aria-selected="false">{words}</button>'
            for tab, words in TABS
        )
        tabs = f'<div role="tablist" aria-label="Models">{tabs}</div>'
        gr.HTML(tabs, elem_id="models-tabs", js_on_load=None)
        downloads = _list("downloads")
        with gr.Column(elem_id="models-installed", elem_classes="models-page"):
            installed = _installed()
        with gr.Column(elem_id="models-discover", elem_classes="models-page"):
            discover = _discover(library)
        gr.HTML(elem_id="models-ready", elem_classes="hidden-output", js_on_load="foresight.modelTabs()")
    question = _list("question")
    loading = gr.HTML(elem_id="load-dialog", elem_classes="asks", js_on_load=LISTEN)
    values = PageValue(SearchResults), PageValue(Filters), PageValue(LoadDialog)
    return ModelsView(downloads, installed, discover, question, loading, *values)


def _list(name: str) -> gr.HTML:
    return gr.HTML(elem_id=name, js_on_load=LISTEN)


def _installed() -> InstalledTab:
    loaded, installed = _list("loaded"), _list("installed")
    with gr.Row(elem_id="open-path", elem_classes="box-and-button"):
        path = _box("Folder or GGUF file", "path", "Path of a GGUF file or a model's folder")
        browse = gr.Button("Browse…", elem_id="browse", scale=0, min_width=0)
        open_path = _button("Load…", "open-path-button")
    servers = _list("servers")
    with gr.Accordion("Add a server…", open=False, elem_id="add-a-server"):
        address = gr.Textbox(
            label="Address", max_lines=1, elem_id="server-address", placeholder="http://192.168.1.20:8000/v1",
            info="Any server with OpenAI's API: vLLM, SGLang, llama.cpp, LM Studio, Ollama, another Foresight.",
        )  # fmt: skip
        key = gr.Textbox(
            label="Key", type="password", max_lines=1, elem_id="server-key",
            info="If the server asks for one. It is kept in a file that only you can read.",
        )  # fmt: skip
        add_server = gr.Button("List its models", elem_id="add-server", size="sm")
    with gr.Accordion("Model folders", open=False, elem_id="folders"):
        folder = gr.Textbox(
            label="Folder", max_lines=1, elem_id="folder", placeholder="/path/to/models",
            info="Lists the models in this folder and one level below. Nothing is copied.",
        )  # fmt: skip
        add = gr.Button("Add", elem_id="add-folder", size="sm")
    return InstalledTab(
        loaded, installed, path, browse, open_path, folder, add, servers, address, key, add_server
    )


def _discover(library: ModelSettings) -> DiscoverTab:
    with gr.Row(elem_id="search", elem_classes="box-and-button"):
        text = _box("Search", "search-text", "Search Hugging Face, or paste a model ID (org/name) or URL")
        search = _button("Search", "search-button")
    results, picks = _list("results"), _list("picks")
    with gr.Row(elem_id="filters"):
        size = _filter("Size", "filter-size", SIZES.items())
        task = _filter("Task", "filter-task", TASKS.items())
    catalogue = _list("catalogue")
    is_offline = gr.Checkbox(
        library.is_offline, label="Offline", elem_id="offline", elem_classes="switch",
        info="Makes no requests to Hugging Face, nor to servers on other machines",
    )  # fmt: skip
    with gr.Accordion("Hugging Face token", open=False, elem_id="access"):
        gr.HTML(elem_id="access-note", js_on_load=None)
        token = gr.Textbox(
            label="Token", type="password", max_lines=1, elem_id="token", placeholder="hf_…",
            info="Only needed for gated models. Create one in your account's settings.",
        )  # fmt: skip
        with gr.Row(elem_classes="pair"):
            save = gr.Button("Save", elem_id="save-token", size="sm")
            forget = gr.Button("Forget", elem_id="forget-token", size="sm")
    return DiscoverTab(text, search, results, picks, size, task, catalogue, is_offline, token, save, forget)


def _box(label: str, name: str, placeholder: str) -> gr.Textbox:
    return gr.Textbox(
        label=label, show_label=False, container=False, max_lines=1, elem_id=name, scale=1, placeholder=placeholder
    )  # fmt: skip


def _button(label: str, name: str) -> gr.Button:
    return gr.Button(label, elem_id=name, variant="primary", scale=0, min_width=0)


def _filter(label: str, name: str, choices: Iterable[tuple[str, str]]) -> gr.Dropdown:
    named = [(words, value) for value, words in choices]
    return gr.Dropdown(named, value="any", label=label, elem_id=name, filterable=False, min_width=120)
