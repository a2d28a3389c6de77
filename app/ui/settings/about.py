"""Privacy and About, in the Settings view: versions, hardware, folders and network contacts."""

import os
import platform
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

import gradio as gr
from markupsafe import Markup

import app
from app.system.machine import processor_name
from app.system.network_log import Contact
from app.ui.frame.event_handlers import PageEvents
from app.ui.frame.services import AppContext, Endpoint, Services
from app.ui.frame.templates import render_macro
from app.ui.frame.top_bar import describe
from app.ui.settings.self_check import Check, run_checks
from app.values.messages import EngineStatus, ModelInfo
from app.values.model import Memory, gigabytes

TEMPLATE = "about.html"
PACKAGES = ("torch", "transformers", "gradio", "huggingface_hub", "safetensors")
Facts = list[tuple[str, str]]
"""Pairs of a name and a value."""


def facts_html(services: Services, app_context: AppContext) -> Markup:
    """Return versions, hardware and folders, with a button that copies them."""
    memories = {memory.device: memory for memory in map(services.models.memory, ("", "cpu"))}
    sections = {
        "Versions": versions(),
        "Hardware": hardware(list(memories.values()), services.engine.status()),
        "Folders": folders(app_context),
    }
    return render_macro(TEMPLATE, "facts", sections=sections, diagnostics=diagnostics(sections))


def diagnostics(sections: Mapping[str, Facts]) -> str:
    """Return the sections as lines of text, for a bug report."""
    parts = [[title, *(f"  {name}: {value}" for name, value in facts)] for title, facts in sections.items()]
    return "\n".join(line for part in parts for line in part)


def checks_html(checks: Sequence[Check]) -> Markup:
    """Return the results of the self-check, and how many have passed."""
    passed = sum(check.verdict == "passed" for check in checks)
    return render_macro(TEMPLATE, "checks", checks=checks, passed=passed)


def versions() -> Facts:
    """Return the versions of the app and of its main packages."""
    facts = [("Foresight", app.__version__), ("Python", platform.python_version())]
    for package in PACKAGES:
        try:
            facts.append((package, version(package)))
        except PackageNotFoundError:
            facts.append((package, "not installed"))
    return [*facts, ("SQLite", sqlite3.sqlite_version)]


def hardware(memories: Sequence[Memory], status: EngineStatus) -> Facts:
    """Return the processor, each device's memory, and how the loaded model runs."""
    facts = [
        ("System", f"{platform.system()} {platform.release()}"),
        ("Processor", processor_name()),
        ("Cores", str(os.cpu_count() or 1)),
    ]
    for one in memories:
        name = "Memory" if one.device == "cpu" else f"Memory of {one.device}"
        facts.append((name, f"{gigabytes(one.free)} free of {gigabytes(one.total)}"))
    if status.model is None:
        return [*facts, ("Model", status.note or "none loaded")]
    return [*facts, ("Model", describe(status.model)), *_model_notes(status.model)]


def _model_notes(model: ModelInfo) -> Facts:
    notes = {
        "Device": model.note("device"),
        "Lookahead": model.note("lookahead", "chains"),
        "Attention": model.note("attention"),
        "CUDA graphs": model.note("graphs"),
        "Layers": model.note("fused"),
        "C compiler": model.note("compiler"),
        "Chat template": model.note("template"),
        "Quantisation": model.note("quantised"),
        "Same text": model.note("same-text"),
        "Drafting heads": model.note("heads"),
        "Text part": model.note("parts"),
    }
    return [(name, note) for name, note in notes.items() if note]


def folders(app_context: AppContext) -> Facts:
    """Return the folders of the app's files, and the app's current note to the user if there is one."""
    return [
        ("Data", str(app_context.data_dir)),
        ("Models", str(app_context.hub_cache)),
        ("Log", str(app_context.log)),
        *([("Chats", note)] if (note := app_context.note()) else []),
    ]


def contacts(hosts: Sequence[Contact]) -> Facts:
    """Return the hosts outside this computer that this process contacted or looked up, how often, and why."""
    times = {0: "name looked up", 1: "once"}
    return [
        (one.host, f"{times.get(one.times, f'{one.times} times')}, {one.why or 'reason unknown'}")
        for one in hosts
    ] or [("None", "since Foresight was started")]


@dataclass(frozen=True, slots=True)
class AboutActions:
    """The event handlers of Privacy and About."""

    _services: Services
    _app_context: AppContext
    _endpoint: Endpoint

    def open(self) -> tuple[str, str]:
        """Return the network contacts, and the versions, hardware and folders, as they are now."""
        shown = render_macro(TEMPLATE, "contacts", facts=contacts(self._app_context.outside.contacts()))
        return shown, facts_html(self._services, self._app_context)

    def check(self) -> Iterator[str]:
        """Run the self-check, which sends requests to the page and reads the whole database."""
        yield render_macro(TEMPLATE, "checking")
        yield checks_html(run_checks(self._app_context, self._endpoint))


def build_privacy(actions: AboutActions, events: PageEvents) -> gr.HTML:
    """Build Privacy inside the current Blocks. Returns the component that shows the network contacts."""
    with gr.Column(elem_classes="part"):
        gr.HTML(
            "<h3>Self-check</h3><p class='hint'>Checks who can reach this page, which hosts Foresight has "
            "contacted, and whether your data is private and undamaged.</p>",
            js_on_load=None,
        )
        check = gr.Button("Run self-check", elem_id="self-check", size="sm", scale=0)
        events.on(check.click, actions.check, outputs=gr.HTML(elem_id="checks", js_on_load=None))
    with gr.Column(elem_classes="part"):
        return gr.HTML(elem_id="contacts", js_on_load=None)


def build_about(actions: AboutActions, contacts: gr.HTML, opening: gr.Button, events: PageEvents) -> None:
    """Build About inside the current Blocks; `opening` leads to the Settings view and then fills both sections."""
    with gr.Column(elem_classes="part"):
        facts = gr.HTML(elem_id="facts", js_on_load=None)
    events.on(opening.click, actions.open, outputs=[contacts, facts])
