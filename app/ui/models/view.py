"""The Models view: the downloads, and two tabs with the installed models and with models to download."""

from collections.abc import Iterable
from dataclasses import dataclass, field

import gradio as gr

from app.settings import ModelSettings
from app.ui.frame.event_handlers import LISTEN, PageEvents, hidden_output
from app.ui.frame.page_connections import PageValue
from app.ui.frame.templates import render_macro
from app.ui.models.actions import ModelsActions
from app.ui.models.discover import SIZES, TASKS, Filters, SearchResults
from app.ui.models.load_dialog import LoadActions, LoadDialog

TABS = {"installed": "Installed", "discover": "Discover"}


@dataclass(slots=True)
class ModelsView:
    """Builds the view and connects its events; `lists` has the lists whose buttons the view handles."""

    actions: ModelsActions
    loading: LoadActions
    events: PageEvents
    found: PageValue[SearchResults] = field(default_factory=lambda: PageValue(SearchResults))
    filters: PageValue[Filters] = field(default_factory=lambda: PageValue(Filters))
    dialog: PageValue[LoadDialog] = field(default_factory=lambda: PageValue(LoadDialog))
    lists: list[gr.HTML] = field(default_factory=list)

    def build(self, library: ModelSettings) -> gr.Checkbox:
        """Build the view inside the current Blocks. Returns the Offline switch."""
        with gr.Row(elem_id="models"), gr.Column(elem_id="local-models"):
            tabs = render_macro("macros.html", "tab_list", prefix="models", label="Models", tabs=TABS)
            gr.HTML(tabs, elem_id="models-tabs", js_on_load=None)
            self._list("downloads")
            with gr.Column(elem_id="models-installed", elem_classes="models-page"):
                self._build_installed()
            with gr.Column(elem_id="models-discover", elem_classes="models-page"):
                results, is_offline = self._build_discover(library)
            hidden_output("models-ready", "foresight.modelTabs()")
        question = self._list("question")
        dialog = gr.HTML(elem_id="load-dialog", elem_classes="asks", js_on_load=LISTEN)
        self.events.on(dialog.click, self.loading.act, self.dialog)
        for one in self.lists:
            shown = [self.found, results, question]
            self.events.on(one.click, self.actions.click, [self.found, self.dialog], shown)
        return is_offline

    def _list(self, name: str) -> gr.HTML:
        self.lists.append(made := gr.HTML(elem_id=name, js_on_load=LISTEN))
        return made

    def _build_installed(self) -> None:
        actions, events, on = self.actions, self.events, self.events.on
        self._list("loaded"), self._list("installed")
        with gr.Row(elem_id="open-path", elem_classes="box-and-button"):
            path = _box("Folder or GGUF file", "path", "Path of a GGUF file or a model's folder")
            browse = gr.Button("Browse…", elem_id="browse", scale=0, min_width=0)
            load = _button("Load…", "open-path-button")
        on(browse.click, self.loading.browse, [self.dialog, path])
        on((load.click, path.submit), actions.open_path, [self.dialog, path], events.faults)
        self._list("servers")
        with gr.Accordion("Add a server…", open=False, elem_id="add-a-server"):
            address = gr.Textbox(
                label="Address", max_lines=1, elem_id="server-address", placeholder="http://192.168.1.20:8000/v1",
                info="Any server with OpenAI's API: vLLM, SGLang, llama.cpp, LM Studio, Ollama, another Foresight.",
            )  # fmt: skip
            key = gr.Textbox(
                label="Key", type="password", max_lines=1, elem_id="server-key",
                info="Only needed if the server asks for a key. It is kept in a file that only you can read.",
            )  # fmt: skip
            add = gr.Button("List its models", elem_id="add-server", size="sm")
        server = [address, key]
        on((add.click, address.submit, key.submit), actions.add_server, server, [*server, events.faults])
        with gr.Accordion("Model folders", open=False, elem_id="folders"):
            folder = gr.Textbox(
                label="Folder", max_lines=1, elem_id="folder", placeholder="/path/to/models",
                info="Lists the models in this folder and one level below. Nothing is copied.",
            )  # fmt: skip
            add = gr.Button("Add", elem_id="add-folder", size="sm")
        on((add.click, folder.submit), actions.add_folder, folder, [folder, events.faults])

    def _build_discover(self, library: ModelSettings) -> tuple[gr.HTML, gr.Checkbox]:
        actions, events, on = self.actions, self.events, self.events.on
        with gr.Row(elem_id="search", elem_classes="box-and-button"):
            text = _box("Search", "search-text", "Search Hugging Face, or paste a model ID (org/name) or URL")
            search = _button("Search", "search-button")
        results, _ = self._list("results"), self._list("picks")
        on((search.click, text.submit), actions.search, text, [self.found, results])
        with gr.Row(elem_id="filters"):
            size = _filter("Size", "filter-size", SIZES.items())
            task = _filter("Task", "filter-task", TASKS.items())
        on((size.input, task.input), actions.filter, [self.filters, size, task])
        self._list("catalogue")
        is_offline = gr.Checkbox(
            library.is_offline, label="Offline", elem_id="offline", elem_classes="switch",
            info="Makes no requests to Hugging Face, nor to servers on other machines",
        )  # fmt: skip
        on(is_offline.input, actions.set_offline, is_offline)
        with gr.Accordion("Hugging Face token", open=False, elem_id="access"):
            gr.HTML(elem_id="access-note", js_on_load=None)
            token = gr.Textbox(
                label="Token", type="password", max_lines=1, elem_id="token", placeholder="hf_…",
                info="Only needed for gated models, whose terms you must accept. Create a token in your "
                "account's settings.",
            )  # fmt: skip
            with gr.Row(elem_classes="pair"):
                save = gr.Button("Save", elem_id="save-token", size="sm")
                forget = gr.Button("Forget", elem_id="forget-token", size="sm")
        on((save.click, token.submit), actions.log_in, token, [token, events.faults])
        on(forget.click, actions.log_out)
        return results, is_offline


def _box(label: str, name: str, placeholder: str) -> gr.Textbox:
    return gr.Textbox(
        label=label, show_label=False, container=False, max_lines=1, elem_id=name, scale=1, placeholder=placeholder
    )  # fmt: skip


def _button(label: str, name: str) -> gr.Button:
    return gr.Button(label, elem_id=name, variant="primary", scale=0, min_width=0)


def _filter(label: str, name: str, choices: Iterable[tuple[str, str]]) -> gr.Dropdown:
    named = [(words, value) for value, words in choices]
    return gr.Dropdown(named, value="any", label=label, elem_id=name, filterable=False, min_width=120)
